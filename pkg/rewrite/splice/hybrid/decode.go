// Package hybrid reads and writes the hybrid of run-length and bit-packed
// encoding that Parquet uses for levels, dictionary indices and booleans
// (Encodings.md, "Run Length Encoding / Bit-Packing Hybrid").
package hybrid

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// MaxWidth is the largest bit width that is decoded.
const MaxWidth = 32

// ErrCorrupt means that a stream ends early or is no such stream.
var ErrCorrupt = errors.New("corrupt run-length data")

// Width is the number of bits that values up to the largest need.
func Width(largest uint32) uint { return uint(bits.Len32(largest)) }

// Decode appends n values of the given bit width to dst. Bytes after the last
// value are ignored. It fails when the stream has fewer values, and never
// allocates more than n values. dst is returned in any case.
func Decode(dst []uint32, b []byte, width uint, n int) ([]uint32, error) {
	if width > MaxWidth || n < 0 {
		return dst, fmt.Errorf("%w: %d values of %d bits", ErrCorrupt, n, width)
	}
	if width == 0 {
		return appendRun(dst, 0, n), nil
	}
	for n > 0 {
		head, k := binary.Uvarint(b)
		if k <= 0 || head>>1 == 0 {
			return dst, fmt.Errorf("%w: no run where %d values are missing", ErrCorrupt, n)
		}
		b = b[k:]
		var took, size int
		var err error
		if head&1 == 1 {
			dst, took, size, err = decodePacked(dst, b, width, packed{groups: head >> 1, most: n})
		} else {
			took = int(min(head>>1, uint64(n)))
			dst, size, err = decodeRun(dst, b, width, took)
		}
		if err != nil {
			return dst, err
		}
		n -= took
		b = b[size:]
	}

	return dst, nil
}

func decodeRun(dst []uint32, b []byte, width uint, n int) ([]uint32, int, error) {
	size := int(width+7) / 8
	if len(b) < size {
		return dst, 0, fmt.Errorf("%w: run of %d without its value", ErrCorrupt, n)
	}
	var v uint32
	for i := range size {
		v |= uint32(b[i]) << (8 * i)
	}
	if width < 32 && v>>width != 0 {
		return dst, 0, fmt.Errorf("%w: %d does not fit %d bits", ErrCorrupt, v, width)
	}

	return appendRun(dst, v, n), size, nil
}

// packed is a run of groups of eight values, of which no more than most count.
type packed struct {
	groups uint64
	most   int
}

func decodePacked(dst []uint32, b []byte, width uint, p packed) ([]uint32, int, int, error) {
	n, size, err := p.extent(b, width)
	if err != nil {
		return dst, 0, 0, err
	}

	return unpack(dst, b[:size], width, n), n, size, nil
}

// extent is how many values of the run count, and how many bytes it takes.
func (p packed) extent(b []byte, width uint) (n, size int, err error) {
	n = p.most
	if p.groups < uint64(n+7)/8 {
		n = int(p.groups) * 8
	}
	// Some writers cut the padding of the last group off.
	if need := (n*int(width) + 7) / 8; need > len(b) {
		return 0, 0, fmt.Errorf("%w: %d packed values in %d bytes", ErrCorrupt, n, len(b))
	}
	size = len(b)
	if full := p.groups * uint64(width); full < uint64(size) {
		size = int(full)
	}

	return n, size, nil
}

// unpack appends n values, for which b is long enough.
func unpack(dst []uint32, b []byte, width uint, n int) []uint32 {
	at := len(dst)
	dst = grow(dst, n)
	out := dst[at:]
	mask := uint64(1)<<width - 1
	i := unpackGroups(out, b, width)
	bit := i * int(width)
	for ; i < n; i++ {
		var tail [8]byte
		copy(tail[:], b[bit>>3:])
		out[i] = uint32(binary.LittleEndian.Uint64(tail[:]) >> (uint(bit) & 7) & mask)
		bit += int(width)
	}

	return dst
}

// unpackGroups fills out in groups of values that a load of eight bytes holds at
// any bit offset, as far as there are eight bytes to load, and returns how many
// values it has.
func unpackGroups(out []uint32, b []byte, width uint) (n int) {
	mask := uint64(1)<<width - 1
	step := width & 31 // lets the compiler leave the test of shifts out
	bit := 0
	load := func() uint64 { return binary.LittleEndian.Uint64(b[bit>>3:]) >> (uint(bit) & 7) }
	switch {
	case width <= 8: // a group begins with a byte
		for ; n+8 <= len(out) && bit>>3+8 <= len(b); n += 8 {
			w, o := load(), (*[8]uint32)(out[n:])
			for k := range o {
				o[k] = uint32(w & mask)
				w >>= step
			}
			bit += 8 * int(width)
		}
	case width <= 16: // or in the middle of one
		for ; n+4 <= len(out) && bit>>3+8 <= len(b); n += 4 {
			w, o := load(), (*[4]uint32)(out[n:])
			o[0], o[1] = uint32(w&mask), uint32(w>>step&mask)
			w >>= 2 * step
			o[2], o[3] = uint32(w&mask), uint32(w>>step&mask)
			bit += 4 * int(width)
		}
	case width <= 29: // or at an even bit
		for ; n+2 <= len(out) && bit>>3+8 <= len(b); n += 2 {
			w, o := load(), (*[2]uint32)(out[n:])
			o[0], o[1] = uint32(w&mask), uint32(w>>step&mask)
			bit += 2 * int(width)
		}
	default:
		for ; n < len(out) && bit>>3+8 <= len(b); n++ {
			out[n] = uint32(load() & mask)
			bit += int(width)
		}
	}

	return n
}

func appendRun(dst []uint32, v uint32, n int) []uint32 {
	at := len(dst)
	dst = grow(dst, n)
	run := dst[at:]
	for i := range run {
		run[i] = v
	}

	return dst
}

// grow adds n values whose content is whatever was there.
func grow(dst []uint32, n int) []uint32 {
	if need := len(dst) + n; need <= cap(dst) {
		return dst[:need]
	}
	bigger := make([]uint32, len(dst)+n, max(len(dst)+n, 2*cap(dst)))
	copy(bigger, dst)

	return bigger
}

// Count tells how many of n values equal want, and the first value, without
// keeping them where the stream is made of runs.
func Count(b []byte, width uint, n int, want uint32) (equal int, first uint32, err error) {
	var scratch [256]uint32
	seen := false
	for n > 0 && width > 0 {
		head, k := binary.Uvarint(b)
		if width > MaxWidth || k <= 0 || head>>1 == 0 {
			return 0, 0, fmt.Errorf("%w: no run where %d values are missing", ErrCorrupt, n)
		}
		took := n
		if head&1 == 0 {
			took = int(min(head>>1, uint64(n)))
			var size int
			one, size, err := decodeRun(scratch[:0], b[k:], width, 1)
			if err != nil {
				return 0, 0, err
			}
			if one[0] == want {
				equal += took
			}
			if !seen {
				first, seen = one[0], true
			}
			b = b[k+size:]
			n -= took

			continue
		}
		got, size, err := packed{groups: head >> 1, most: took}.extent(b[k:], width)
		if err != nil {
			return 0, 0, err
		}
		run := b[k : k+size]
		for at := 0; at < got; at += len(scratch) {
			// Groups of eight begin with a byte.
			values := unpack(scratch[:0], run[at/8*int(width):], width, min(got-at, len(scratch)))
			for _, v := range values {
				if v == want {
					equal++
				}
			}
			if !seen {
				first, seen = values[0], true
			}
		}
		b = b[k+size:]
		n -= got
	}
	if width == 0 && want == 0 {
		equal = n
	}

	return equal, first, nil
}

// Constant reports whether the stream is one run of the given value that is long
// enough for n values. False says nothing: the values may still be equal.
func Constant(b []byte, width uint, n int, v uint32) bool {
	head, k := binary.Uvarint(b)
	if k <= 0 || head&1 == 1 || head>>1 < uint64(max(0, n)) || width == 0 || width > MaxWidth {
		return false
	}
	var scratch [1]uint32
	one, _, err := decodeRun(scratch[:0], b[k:], width, 1)

	return err == nil && one[0] == v
}
