package rowsort

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
)

const (
	// nullFirst, present and nullLast begin the bytes of a value.
	nullFirst = 0x00
	present   = 0x01
	nullLast  = 0x02
	signBit64 = 1 << 63
)

// encoder appends the bytes of one row's value of one key.
type encoder func(buf []byte, row int) []byte

// encoder of a key for one batch.
func (k Key) encoder(rec arrow.RecordBatch) (encoder, error) {
	arrays := []arrow.Array{rec.Column(k.path[0])}
	for _, i := range k.path[1:] {
		st, ok := plain(arrays[len(arrays)-1]).(*array.Struct)
		if !ok {
			return nil, fmt.Errorf("sort key %s: its column is not inside a struct", k.Name)
		}
		arrays = append(arrays, st.Field(i))
	}
	leaf := plain(arrays[len(arrays)-1])
	value, err := k.value(leaf)
	if err != nil {
		return nil, err
	}
	null := byte(nullLast)
	if k.NullsFirst {
		null = nullFirst
	}

	return func(buf []byte, row int) []byte {
		for _, a := range arrays {
			if a.IsNull(row) {
				return append(buf, null)
			}
		}
		start := len(buf)
		buf = value(append(buf, present), row)
		if len(buf) == start { // a transform made a null of it
			return append(buf, null)
		}
		if k.Descending {
			for i := start + 1; i < len(buf); i++ {
				buf[i] = ^buf[i]
			}
		}

		return buf
	}, nil
}

// value is the encoder of values that are not null. One that takes the byte
// before it away says that the value is null after all.
func (k Key) value(leaf arrow.Array) (encoder, error) {
	if !k.Identity() {
		return k.transformed(leaf)
	}
	if enc := plainValue(leaf); enc != nil {
		return enc, nil
	}

	return nil, fmt.Errorf("sort key %s: values of type %s cannot be compared", k.Name, leaf.DataType())
}

// plain is an array without its extension type.
func plain(a arrow.Array) arrow.Array {
	for {
		ext, ok := a.(array.ExtensionArray)
		if !ok {
			return a
		}
		a = ext.Storage()
	}
}

func plainValue(leaf arrow.Array) encoder {
	switch a := leaf.(type) {
	case *array.Boolean:
		return func(buf []byte, row int) []byte {
			if a.Value(row) {
				return append(buf, 1)
			}

			return append(buf, 0)
		}
	case *array.Int32:
		return signed(func(row int) int64 { return int64(a.Value(row)) })
	case *array.Int64:
		return signed(a.Value)
	case *array.Date32:
		return signed(func(row int) int64 { return int64(a.Value(row)) })
	case *array.Time64:
		return signed(func(row int) int64 { return int64(a.Value(row)) })
	case *array.Timestamp:
		return signed(func(row int) int64 { return int64(a.Value(row)) })
	case *array.Float32:
		return func(buf []byte, row int) []byte { return appendFloat(buf, a.Value(row)) }
	case *array.Float64:
		return func(buf []byte, row int) []byte { return appendDouble(buf, a.Value(row)) }
	case *array.Decimal128:
		return func(buf []byte, row int) []byte {
			v := a.Value(row)

			return appendWide(buf, v.HighBits(), v.LowBits())
		}
	case array.StringLike:
		return func(buf []byte, row int) []byte { return appendText(buf, a.Value(row)) }
	case interface{ Value(int) []byte }:
		return func(buf []byte, row int) []byte { return appendText(buf, a.Value(row)) }
	}

	return nil
}

func signed(value func(int) int64) encoder {
	return func(buf []byte, row int) []byte { return appendInt(buf, value(row)) }
}

func appendInt(buf []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(buf, uint64(v)^signBit64)
}

func appendWide(buf []byte, high int64, low uint64) []byte {
	return binary.BigEndian.AppendUint64(appendInt(buf, high), low)
}

// appendDouble uses the total order: with the sign bit set all bits are turned
// over, so that larger magnitudes come first.
func appendDouble(buf []byte, v float64) []byte {
	bits := math.Float64bits(v)
	if bits&signBit64 != 0 {
		return binary.BigEndian.AppendUint64(buf, ^bits)
	}

	return binary.BigEndian.AppendUint64(buf, bits|signBit64)
}

// appendFloat does the same on 32 bits: turning a NaN into a wider one could
// lose its sign.
func appendFloat(buf []byte, v float32) []byte {
	const sign = 1 << 31
	bits := math.Float32bits(v)
	if bits&sign != 0 {
		return binary.BigEndian.AppendUint32(buf, ^bits)
	}

	return binary.BigEndian.AppendUint32(buf, bits|sign)
}

// appendText keeps bytes comparable when further keys follow: the end is two
// zeros, and a zero inside is followed by 0xff.
func appendText[T string | []byte](buf []byte, text T) []byte {
	for i := range len(text) {
		buf = append(buf, text[i])
		if text[i] == 0 {
			buf = append(buf, 0xff)
		}
	}

	return append(buf, 0, 0)
}

// appendLiteral is for what a transform returns.
func appendLiteral(buf []byte, lit iceberg.Literal) ([]byte, error) {
	switch v := lit.(type) {
	case iceberg.Int32Literal:
		return appendInt(buf, int64(v)), nil
	case iceberg.Int64Literal:
		return appendInt(buf, int64(v)), nil
	case iceberg.DateLiteral:
		return appendInt(buf, int64(v)), nil
	case iceberg.DecimalLiteral:
		return appendWide(buf, v.Val.HighBits(), v.Val.LowBits()), nil
	case iceberg.StringLiteral:
		return appendText(buf, string(v)), nil
	case iceberg.BinaryLiteral:
		return appendText(buf, []byte(v)), nil
	}

	return nil, fmt.Errorf("transformed value %s of type %T cannot be compared", lit, lit)
}
