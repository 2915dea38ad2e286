package dict

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// leastSample is about how many values of the smaller dictionary are looked at, at
// least, to tell how many two have in common.
const leastSample = 1 << 10

// Common estimates how many values two dictionaries have in common, by a sample
// of the values: those with a certain hash, so that one is in the sample of both
// or of neither. It is exact for small dictionaries, and the same in every run.
func Common(one, other *Dictionary) float64 {
	var seen Merged
	n := 0
	mask := uint32(1)<<(bits.Len(uint(min(one.Count, other.Count)/leastSample)|1)-1) - 1
	for _, d := range []*Dictionary{one, other} {
		for i := range uint32(d.Count) {
			v := d.At(i)
			if mask > 0 && sampleHash(v, d.width)&mask != 0 {
				continue
			}
			n++
			if _, known := seen.place(v, d.width); !known {
				seen.Count++
			}
		}
	}

	return float64(n-seen.Count) * float64(mask+1)
}

// sampleHash need not withstand values that are chosen to meet: nothing but an
// estimate depends on it.
func sampleHash(v []byte, width int) uint32 {
	const odd = 0x9e3779b97f4a7c15
	switch width {
	case 4:
		return uint32(uint64(binary.LittleEndian.Uint32(v)) * odd >> 32)
	case 8:
		return uint32(binary.LittleEndian.Uint64(v) * odd >> 32)
	}

	return crc32.ChecksumIEEE(v)
}
