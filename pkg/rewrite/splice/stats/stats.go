// Package stats decides what may be believed of the statistics in a file, and
// puts those of many chunks and pages together in the order of their type
// (parquet.thrift, ColumnOrder).
//
// Not believed are the deprecated min and max, which had no defined order;
// statistics of columns without a column order; bounds that are marked as not
// exact; NaN; and values of the wrong size.
package stats

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
)

// Summary is what is known of a set of values.
type Summary struct {
	Nulls int64
	// Min and Max are the exact bounds in PLAIN form. Both are nil when no value
	// has a place in the order: all are null or NaN.
	Min, Max []byte
	// Unknown means that nothing here may be believed.
	Unknown bool
}

// Of is the summary of a chunk or page of the given number of values. Pages
// leave a null count out that a flat required column does not need.
func Of(leaf page.Leaf, s *format.Statistics, values int64) Summary {
	unknown := Summary{Unknown: true}
	switch {
	case s == nil:
		return unknown
	case s.NullCount == nil && leaf.MaxDef > 0:
		return unknown
	}
	var out Summary
	if s.NullCount != nil {
		out.Nulls = *s.NullCount
	}
	if out.Nulls < 0 || out.Nulls > values {
		return unknown
	}
	if s.Min == nil && s.Max == nil && out.Nulls == values {
		return out
	}
	exact := (s.MinExact == nil || *s.MinExact) && (s.MaxExact == nil || *s.MaxExact)
	if !exact || !valid(leaf, s.Min) || !valid(leaf, s.Max) || Compare(leaf, s.Min, s.Max) > 0 || out.Nulls == values {
		return unknown
	}
	out.Min, out.Max = zero(leaf, s.Min, true), zero(leaf, s.Max, false)

	return out
}

// Merge is the summary of both sets.
func Merge(leaf page.Leaf, a, b Summary) Summary {
	if a.Unknown || b.Unknown {
		return Summary{Unknown: true}
	}
	out := Summary{Nulls: a.Nulls + b.Nulls, Min: a.Min, Max: a.Max}
	if out.Min == nil || (b.Min != nil && Compare(leaf, b.Min, out.Min) < 0) {
		out.Min = b.Min
	}
	if out.Max == nil || (b.Max != nil && Compare(leaf, b.Max, out.Max) > 0) {
		out.Max = b.Max
	}

	return out
}

// valid reports whether a bound is a value of the column that has a place in
// its order.
func valid(leaf page.Leaf, v []byte) bool {
	if v == nil {
		return false
	}
	switch leaf.Type {
	case format.Boolean:
		return len(v) == 1
	case format.ByteArray:
		return !leaf.SignedBytes || len(v) > 0
	case format.Float:
		return len(v) == 4 && !math.IsNaN(float64(float32At(v)))
	case format.Double:
		return len(v) == 8 && !math.IsNaN(float64At(v))
	default:
		return len(v) == leaf.Width()
	}
}

// NaNs counts in PLAIN values. A column that is not of floating-point numbers has
// none.
func NaNs(leaf page.Leaf, values []byte) (n int64) {
	switch leaf.Type {
	case format.Float:
		for ; len(values) >= 4; values = values[4:] {
			if math.IsNaN(float64(float32At(values))) {
				n++
			}
		}
	case format.Double:
		for ; len(values) >= 8; values = values[8:] {
			if math.IsNaN(float64At(values)) {
				n++
			}
		}
	}

	return n
}

// zero writes a bound of zero the way the specification asks for: -0 as a
// minimum, +0 as a maximum, because writers disagree on which is smaller.
func zero(leaf page.Leaf, v []byte, lower bool) []byte {
	switch {
	case leaf.Type == format.Double && float64At(v) == 0:
		f := 0.0
		if lower {
			f = math.Copysign(0, -1)
		}

		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))
	case leaf.Type == format.Float && float32At(v) == 0:
		f := 0.0
		if lower {
			f = math.Copysign(0, -1)
		}

		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(f)))
	}

	return v
}

func float32At(v []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(v)) }

func float64At(v []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(v)) }

// Compare orders two valid PLAIN values of a column.
func Compare(leaf page.Leaf, a, b []byte) int {
	switch leaf.Type {
	case format.Int32:
		return cmp.Compare(int32(binary.LittleEndian.Uint32(a)), int32(binary.LittleEndian.Uint32(b)))
	case format.Int64:
		return cmp.Compare(int64(binary.LittleEndian.Uint64(a)), int64(binary.LittleEndian.Uint64(b)))
	case format.Float:
		return cmp.Compare(float32At(a), float32At(b))
	case format.Double:
		return cmp.Compare(float64At(a), float64At(b))
	}
	if leaf.SignedBytes {
		return compareSigned(a, b)
	}

	return bytes.Compare(a, b)
}

// compareSigned orders big-endian two's complement numbers of any length.
func compareSigned(a, b []byte) int {
	if negA, negB := a[0] >= 0x80, b[0] >= 0x80; negA != negB {
		if negA {
			return -1
		}

		return 1
	}
	size := max(len(a), len(b))

	return bytes.Compare(widened(a, size), widened(b, size))
}

func widened(v []byte, size int) []byte {
	if len(v) == size {
		return v
	}
	fill := byte(0)
	if v[0] >= 0x80 {
		fill = 0xff
	}

	return append(bytes.Repeat([]byte{fill}, size-len(v)), v...)
}
