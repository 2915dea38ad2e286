// Package codec compresses and decompresses the bodies of pages. What comes out
// of a page is never larger than its header says, whatever is in it.
package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"

	"compactor/pkg/rewrite/splice/format"
)

// ErrCorrupt means that a body is not what its codec wrote, or not of the size
// that the header gives.
var ErrCorrupt = errors.New("corrupt page")

// windowLimit is the largest window of a zstd frame that is read, in bytes.
const windowLimit = 128 << 20

// Pool has coders for reuse. It is safe for concurrent use.
type Pool struct {
	codec    format.Codec
	level    int
	encoders Shelf[*zstd.Encoder]
	decoders Shelf[*zstd.Decoder]
}

// fastest is the level of the codecs that the table does not name.
const fastest = 1

// New returns a pool that writes one codec at a level, and the others at the
// fastest level that still compresses.
func New(c format.Codec, level int) *Pool { return &Pool{codec: c, level: level} }

func (p *Pool) levelOf(c format.Codec) int {
	if c == p.codec {
		return p.level
	}

	return fastest
}

// Known reports whether a codec can be read and written.
func Known(c format.Codec) bool {
	switch c {
	case format.Uncompressed, format.Snappy, format.Gzip, format.Brotli, format.Zstd, format.LZ4Raw:
		return true
	}

	return false
}

// Decode decompresses src, whose content has to be of the given size. The
// result may use dst's memory, and is src itself for uncompressed data.
func (p *Pool) Decode(c format.Codec, dst, src []byte, size int) (out []byte, err error) {
	if size < 0 {
		return nil, fmt.Errorf("%w: size %d", ErrCorrupt, size)
	}
	switch c {
	case format.Uncompressed:
		out = src
	case format.Zstd:
		out, err = p.unzstd(dst, src, size)
	case format.Snappy:
		var n int
		if n, err = snappy.DecodedLen(src); err == nil && n != size {
			err = fmt.Errorf("%d bytes where %d belong", n, size)
		}
		if err == nil {
			out, err = snappy.Decode(sized(dst, size), src)
		}
	case format.Gzip:
		out, err = gunzip(dst, src, size)
	default:
		out, err = library(c, dst, src, size)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: decompress: %w", ErrCorrupt, err)
	}
	if len(out) != size {
		return nil, fmt.Errorf("%w: %d bytes where %d belong", ErrCorrupt, len(out), size)
	}

	return out, nil
}

func (p *Pool) unzstd(dst, src []byte, size int) ([]byte, error) {
	d, ok := p.decoders.Take()
	if !ok {
		var err error
		d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(windowLimit))
		if err != nil {
			return nil, err //nolint:wrapcheck // wrapped by the caller
		}
	}
	defer p.decoders.Put(d)

	return d.DecodeAll(src, sized(dst, size)[:0:size]) //nolint:wrapcheck // wrapped by the caller
}

func gunzip(dst, src []byte, size int) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(src))
	if err != nil {
		return nil, err //nolint:wrapcheck // wrapped by the caller
	}

	return readAll(r, dst, size)
}

// readAll reads size bytes and makes sure that there are no more.
func readAll(r io.Reader, dst []byte, size int) ([]byte, error) {
	dst = sized(dst, size)
	if _, err := io.ReadFull(r, dst); err != nil {
		return nil, err //nolint:wrapcheck // wrapped by the caller
	}
	var more [1]byte
	if n, err := r.Read(more[:]); n > 0 || !errors.Is(err, io.EOF) {
		return nil, errors.Join(errors.New("more data than the header says"), err)
	}

	return dst, nil
}

// library leaves the rarer codecs to the Parquet library, some of which panic.
func library(c format.Codec, dst, src []byte, size int) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("%v", p)
		}
	}()
	coder, err := compress.GetCodec(compress.Compression(c))
	if err != nil {
		return nil, err //nolint:wrapcheck // wrapped by the caller
	}
	if streaming, ok := coder.(compress.StreamingCodec); ok {
		r := streaming.NewReader(bytes.NewReader(src))
		defer func() { err = errors.Join(err, r.Close()) }()

		return readAll(r, dst, size)
	}

	return coder.Decode(sized(dst, size), src), nil
}

func sized(dst []byte, size int) []byte {
	if cap(dst) < size {
		return make([]byte, size)
	}

	return dst[:size]
}

// Encode appends the compressed src to dst.
func (p *Pool) Encode(c format.Codec, dst, src []byte) ([]byte, error) {
	switch c {
	case format.Uncompressed:
		return append(dst, src...), nil
	case format.Zstd:
		e, ok := p.encoders.Take()
		if !ok {
			var err error
			e, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(p.levelOf(c))),
				zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
			if err != nil {
				return nil, fmt.Errorf("open compressor: %w", err)
			}
		}
		defer p.encoders.Put(e)

		return e.EncodeAll(src, dst), nil
	case format.Snappy:
		return append(dst, snappy.Encode(nil, src)...), nil
	}
	coder, err := compress.GetCodec(compress.Compression(c))
	if err != nil {
		return nil, fmt.Errorf("open compressor: %w", err)
	}
	buf := make([]byte, coder.CompressBound(int64(len(src))))
	if c == format.LZ4Raw {
		return append(dst, coder.Encode(buf, src)...), nil
	}

	return append(dst, coder.EncodeLevel(buf, src, p.levelOf(c))...), nil
}
