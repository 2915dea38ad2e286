package hybrid

import "encoding/binary"

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
	size := len(dst) + (len(values)+7)/8*int(width)
	var acc uint64
	var have uint
	for _, v := range values {
		acc |= uint64(v) << have
		have += width
		if have >= 32 {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(acc))
			acc >>= 32
			have -= 32
		}
	}
	for len(dst) < size {
		dst = append(dst, byte(acc))
		acc >>= 8
	}

	return dst[:size]
}
