// Package delta reads and writes the encodings that store differences: integers
// in DELTA_BINARY_PACKED, and byte arrays in DELTA_LENGTH_BYTE_ARRAY and
// DELTA_BYTE_ARRAY (Encodings.md). Integers are added and subtracted, for that is
// what the encoding consists of; bytes are not looked at.
//
// Every count, length and width is compared with what the caller expects and with
// the bytes that are there before anything is allocated for it.
package delta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// ErrCorrupt means that a stream ends early or is no such stream.
var ErrCorrupt = errors.New("corrupt deltas")

const (
	blockValues = 128 // of what is written; most writers have the same
	miniBlocks  = 4
	miniValues  = blockValues / miniBlocks

	widest = 64 // bits of a difference

	// largestBlock is the number of values from which a block is refused. No writer
	// is near it; it keeps sums of bits far from where integers overflow.
	largestBlock = 1 << 20
)

// Bits are the size of the integers: sums wrap there.
type Bits uint

// The sizes of Parquet's integers.
const (
	Int32 Bits = 32
	Int64 Bits = 64
)

// wrap is the integer that is left of a sum.
func (s Bits) wrap(v int64) int64 {
	if s == Int32 {
		return int64(int32(v))
	}

	return v
}

// header is that of a stream.
type header struct {
	minis, values int // miniblocks of a block, and values of a miniblock
	first         int64
}

func readHeader(b []byte, n int, size Bits) (header, []byte, error) {
	var fields [3]uint64
	for i := range fields {
		v, k := binary.Uvarint(b)
		if k <= 0 {
			return header{}, nil, fmt.Errorf("%w: no header", ErrCorrupt)
		}
		fields[i], b = v, b[k:]
	}
	block, minis, total := fields[0], fields[1], fields[2]
	first, k := binary.Varint(b)
	switch {
	case k <= 0:
		return header{}, nil, fmt.Errorf("%w: no first value", ErrCorrupt)
	case total != uint64(n):
		return header{}, nil, fmt.Errorf("%w: %d values where %d belong", ErrCorrupt, total, n)
	case block == 0 || block > largestBlock || minis == 0 || block%minis != 0 || block/minis%32 != 0:
		return header{}, nil, fmt.Errorf("%w: %d values in %d parts of a block", ErrCorrupt, block, minis)
	case size.wrap(first) != first:
		return header{}, nil, fmt.Errorf("%w: %d in %d bits", ErrCorrupt, first, size)
	}

	return header{minis: int(minis), values: int(block / minis), first: first}, b[k:], nil
}

// Decode appends the n integers of a stream to dst and returns the bytes after
// it. It fails when the stream has another number of values, and never allocates
// for more than n. dst is returned in any case.
func Decode(dst []int64, b []byte, n int, size Bits) (values []int64, rest []byte, err error) {
	if n < 0 {
		return dst, nil, fmt.Errorf("%w: %d values", ErrCorrupt, n)
	}
	h, b, err := readHeader(b, n, size)
	if err != nil || n == 0 {
		return dst, b, err
	}
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	dst[at] = h.first
	if b, err = h.blocks(dst[at:], b, size); err != nil {
		return dst[:at], nil, err
	}

	return dst, b, nil
}

// blocks fills in what follows the first value.
func (h header) blocks(out []int64, b []byte, size Bits) ([]byte, error) {
	last := out[0]
	for out = out[1:]; len(out) > 0; {
		low, k := binary.Varint(b)
		if k <= 0 || len(b)-k < h.minis {
			return nil, fmt.Errorf("%w: no block where %d values are missing", ErrCorrupt, len(out))
		}
		widths := b[k : k+h.minis]
		b = b[k+h.minis:]
		for _, width := range widths {
			// Whatever the widths of parts without values, there is nothing of them.
			part := out[:min(len(out), h.values)]
			if len(part) == 0 {
				break
			}
			// DuckDB takes the differences of 32-bit integers with 64 bits. They may need
			// 33, and come to the same once sums wrap.
			if width > widest || (len(part)*int(width)+7)/8 > len(b) {
				return nil, fmt.Errorf("%w: %d values of %d bits in %d bytes", ErrCorrupt, len(part), width, len(b))
			}
			unpack(part, b, uint(width))
			for i, d := range part {
				last = size.wrap(last + low + d)
				part[i] = last
			}
			// Some writers cut the padding of the last part off.
			b = b[min(len(b), h.values*int(width)/8):]
			out = out[len(part):]
		}
	}

	return b, nil
}

// unpack reads unsigned values of a width, for which b is long enough.
func unpack(out []int64, b []byte, width uint) {
	if width == 0 {
		clear(out)

		return
	}
	mask := uint64(math.MaxUint64) >> (64 - width)
	bit, i := 0, 0
	// A load of eight bytes holds a value of up to 57 bits at any bit offset.
	for ; width <= 57 && i < len(out) && bit>>3+8 <= len(b); i++ {
		out[i] = int64(binary.LittleEndian.Uint64(b[bit>>3:]) >> (uint(bit) & 7) & mask)
		bit += int(width)
	}
	for ; i < len(out); i++ {
		var part [16]byte
		copy(part[:], b[bit>>3:])
		shift := uint(bit) & 7
		low, high := binary.LittleEndian.Uint64(part[:]), binary.LittleEndian.Uint64(part[8:])
		out[i] = int64((low>>shift | high<<(64-shift)) & mask)
		bit += int(width)
	}
}

// Encode appends a stream of the values, which have to fit the size, to dst.
func Encode(dst []byte, values []int64, size Bits) []byte {
	for _, v := range []int{blockValues, miniBlocks, len(values)} {
		dst = binary.AppendUvarint(dst, uint64(v))
	}
	if len(values) == 0 {
		return binary.AppendVarint(dst, 0)
	}
	last := values[0]
	dst = binary.AppendVarint(dst, last)
	var deltas [blockValues]int64
	for values = values[1:]; len(values) > 0; {
		n := min(len(values), blockValues)
		for i, v := range values[:n] {
			deltas[i], last = size.wrap(v-last), v
		}
		dst = appendBlock(dst, deltas[:n])
		values = values[n:]
	}

	return dst
}

// appendBlock stores by how much each delta exceeds the least of them.
func appendBlock(dst []byte, deltas []int64) []byte {
	low := deltas[0]
	for _, d := range deltas {
		low = min(low, d)
	}
	dst = binary.AppendVarint(dst, low)
	at := len(dst)
	dst = append(dst, make([]byte, miniBlocks)...)
	for mini := 0; mini*miniValues < len(deltas); mini++ {
		var part [miniValues]uint64 // the last one is filled up with zeros
		var all uint64
		for i, d := range deltas[mini*miniValues : min(len(deltas), (mini+1)*miniValues)] {
			part[i] = uint64(d - low)
			all |= part[i]
		}
		width := bits.Len64(all)
		dst[at+mini] = byte(width)
		dst = pack(dst, &part, uint(width))
	}

	return dst
}

func pack(dst []byte, part *[miniValues]uint64, width uint) []byte {
	if width == 0 {
		return dst
	}
	var acc uint64
	var have uint
	for _, v := range part {
		acc |= v << have
		if have+width < 64 {
			have += width

			continue
		}
		dst = binary.LittleEndian.AppendUint64(dst, acc)
		acc = v >> (64 - have)
		have += width - 64
	}
	if have > 0 { // 32 values fill whole words, or half of one
		dst = binary.LittleEndian.AppendUint32(dst, uint32(acc))
	}

	return dst
}
