package codec

import (
	"github.com/klauspost/compress/zstd"

	"compactor/pkg/rewrite/splice/format"
)

// Joins reports whether compressed bodies, one after the other, are the body of
// their contents one after the other: RFC 8878 defines zstd data as one or more
// frames, and says that decoders yield what is in all of them.
func Joins(c format.Codec) bool { return c == format.Zstd }

const (
	blockHead = 3 // bytes of a block's header
	blockRun  = 1 // the kind of block that stores one byte, however often it counts
	blockNone = 3 // a kind that is reserved
	frameSum  = 4 // bytes of a frame's checksum
)

// Whole reports whether a body is made of whole frames, without a byte before or
// after, that say how large their contents are, and whether these add up to the
// given size. A decoder then finds damage where it is: it cannot shift what comes
// behind. Nothing is decompressed.
func Whole(body []byte, size int) bool {
	left := uint64(size)
	for len(body) > 0 {
		var h zstd.Header
		blocks, err := h.DecodeAndStrip(body)
		if err != nil || h.Skippable || !h.HasFCS || h.DictionaryID != 0 || h.WindowSize > windowLimit || h.FrameContentSize > left {
			return false
		}
		left -= h.FrameContentSize
		var ok bool
		if body, ok = skipBlocks(blocks); !ok {
			return false
		}
		if h.HasCheckSum {
			if len(body) < frameSum {
				return false
			}
			body = body[frameSum:]
		}
	}

	return left == 0
}

// skipBlocks returns what follows the last block of a frame.
func skipBlocks(b []byte) (rest []byte, ok bool) {
	for last := false; !last; {
		if len(b) < blockHead {
			return nil, false
		}
		head := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
		kind, size := head>>1&3, head>>3
		if kind == blockRun {
			size = 1
		}
		if b = b[blockHead:]; kind == blockNone || size > len(b) {
			return nil, false
		}
		b, last = b[size:], head&1 == 1
	}

	return b, true
}
