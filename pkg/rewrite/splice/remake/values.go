package remake

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"

	"github.com/apache/arrow-go/v18/parquet"
)

func same[T any](v T) (T, error) { return v, nil }

// none is for values that are not used.
func none[T, U any](T) (out U, err error) { return out, nil }

// cloned keeps a value longer than the page it came from.
func cloned(v parquet.ByteArray) (parquet.ByteArray, error) {
	return append(make(parquet.ByteArray, 0, len(v)), v...), nil
}

func narrowed(v int64) (int32, error) {
	if v != int64(int32(v)) {
		return 0, fmt.Errorf("%w: %d in a column of 32 bits", ErrCorrupt, v)
	}

	return int32(v), nil
}

// int64Of reads a big-endian number in two's complement, as decimals are stored.
func int64Of(v []byte) (int64, error) {
	const size = 8
	fit, err := resized(v, size)
	if err != nil {
		return 0, err
	}

	return int64(binary.BigEndian.Uint64(fit)), nil
}

func int32Of(v []byte) (int32, error) {
	wide, err := int64Of(v)
	if err != nil {
		return 0, err
	}

	return narrowed(wide)
}

// bigEndian writes a number in two's complement.
func bigEndian(v int64, width int) (parquet.FixedLenByteArray, error) {
	return resized(binary.BigEndian.AppendUint64(nil, uint64(v)), width)
}

// resized gives a big-endian number in two's complement another width. Only
// bytes that repeat the sign may go.
func resized(v []byte, width int) (parquet.FixedLenByteArray, error) {
	if len(v) == 0 {
		return nil, fmt.Errorf("%w: a number of no bytes", ErrCorrupt)
	}
	sign := byte(0)
	if v[0] >= 0x80 {
		sign = 0xff
	}
	out := make(parquet.FixedLenByteArray, width)
	for i := range out {
		out[i] = sign
	}
	extra := len(v) - width
	for i := range max(0, extra) {
		if v[i] != sign {
			return nil, fmt.Errorf("%w: a number of %d bytes in %d", ErrCorrupt, len(v), width)
		}
	}
	if extra > 0 {
		v = v[extra:]
		if (v[0] >= 0x80) != (sign == 0xff) {
			return nil, fmt.Errorf("%w: a number of %d bytes in %d", ErrCorrupt, len(v)+extra, width)
		}
	}
	copy(out[width-len(v):], v)

	return out, nil
}

// bytesFor is the size of a number of so many decimal digits.
func bytesFor(digits int32) int {
	most := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)

	return (most.BitLen() + 8) / 8
}

// The rest reads PLAIN values.

func asBool(v []byte) bool { return v[0] != 0 }

func asInt32(v []byte) int32 { return int32(binary.LittleEndian.Uint32(v)) }

func asInt64(v []byte) int64 { return int64(binary.LittleEndian.Uint64(v)) }

func asFloat32(v []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(v)) }

func asFloat64(v []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(v)) }

func asBytes(v []byte) parquet.ByteArray { return v }

func asFixed(v []byte) parquet.FixedLenByteArray { return v }
