package hybrid

import (
	"encoding/binary"
	"slices"
)

const (
	// shortestRun is the number of equal values from which a run is shorter than
	// packed values, whatever the width.
	shortestRun = 8
	// longestPacked is the number of values after which a new packed run begins.
	longestPacked = 504 * 8
)

// Encode appends the values, which have to fit the width, to dst.
func Encode(dst []byte, values []uint32, width uint) []byte {
	if width == 0 {
		if len(values) == 0 {
			return dst
		}

		return binary.AppendUvarint(dst, uint64(len(values))<<1)
	}
	for i := 0; i < len(values); {
		if n := runAt(values, i); n >= shortestRun {
			dst = binary.AppendUvarint(dst, uint64(n)<<1)
			for k := uint(0); k < width; k += 8 {
				dst = append(dst, byte(values[i]>>k))
			}
			i += n

			continue
		}
		end := packedEnd(values, i)
		dst = binary.AppendUvarint(dst, uint64(end-i+7)/8<<1|1)
		dst = pack(dst, values[i:end], width)
		i = end
	}

	return dst
}

// AppendRun appends a single run of n equal values.
func AppendRun(dst []byte, v uint32, width uint, n int) []byte {
	dst = binary.AppendUvarint(dst, uint64(n)<<1)
	for k := uint(0); k < width; k += 8 {
		dst = append(dst, byte(v>>k))
	}

	return dst
}

func runAt(values []uint32, i int) int {
	j := i + 1
	for j < len(values) && values[j] == values[i] {
		j++
	}

	return j - i
}

// packedEnd is where the packed run that begins at i ends: before a group of
// eight equal values, because that is where a run pays.
func packedEnd(values []uint32, i int) int {
	for end := i; ; {
		next := end + 8
		switch {
		case next >= len(values):
			return len(values)
		case end > i && runAt(values[:next], end) == 8:
			return end
		case next-i >= longestPacked:
			return next
		}
		end = next
	}
}

// pack appends values and fills the last group of eight with zeros.
func pack(dst []byte, values []uint32, width uint) []byte {
	const word = 4
	size := (len(values) + 7) / 8 * int(width)
	at := len(dst)
	dst = slices.Grow(dst, size+2*word)
	out := dst[at : at+size+2*word]
	var acc uint64
	var have uint
	for _, v := range values {
		acc |= uint64(v) << (have & 31)
		if have += width; have >= 8*word {
			binary.LittleEndian.PutUint32(out, uint32(acc))
			out = out[word:]
			acc >>= 8 * word
			have -= 8 * word
		}
	}
	clear(out) // the padding
	binary.LittleEndian.PutUint64(out, acc)

	return dst[:at+size]
}
