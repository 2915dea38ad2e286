package rewrite

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/zeebo/xxh3"
)

// checksum is the sum modulo 2^128 of one hash per row. It does not depend on
// the order of rows, but a value that moved to another row changes it. An
// ordered one depends on the order too: each hash takes the row's number in.
type checksum struct {
	high, low uint64
	rows      int64
	ordered   bool
}

func (c *checksum) add(h xxh3.Uint128) {
	if c.ordered {
		var numbered [24]byte
		binary.LittleEndian.PutUint64(numbered[:], h.Lo)
		binary.LittleEndian.PutUint64(numbered[8:], h.Hi)
		binary.LittleEndian.PutUint64(numbered[16:], uint64(c.rows))
		h = xxh3.Hash128(numbered[:])
	}
	var carry uint64
	c.low, carry = bits.Add64(c.low, h.Lo, 0)
	c.high, _ = bits.Add64(c.high, h.Hi, carry)
	c.rows++
}

// addBatch hashes every row over all columns.
func (c *checksum) addBatch(rec arrow.RecordBatch) {
	encoders := make([]encoder, rec.NumCols())
	for i, col := range rec.Columns() {
		encoders[i] = encoderOf(col)
	}
	var buf []byte
	for row := range int(rec.NumRows()) {
		buf = buf[:0]
		for _, encode := range encoders {
			buf = encode(buf, row)
		}
		c.add(xxh3.Hash128(buf))
	}
}

// encoder appends one value in a form that no other value has: a null flag,
// then the value's bits, with lengths before everything of variable size.
type encoder func(buf []byte, row int) []byte

func encoderOf(arr arrow.Array) encoder {
	if a, ok := arr.(*extensions.VariantArray); ok {
		return variantEncoder(a)
	}
	value := valueEncoder(arr)

	return func(buf []byte, row int) []byte {
		if arr.IsNull(row) {
			return append(buf, 0)
		}

		return value(append(buf, 1), row)
	}
}

func valueEncoder(arr arrow.Array) encoder {
	if enc := nestedEncoder(arr); enc != nil {
		return enc
	}
	switch a := arr.(type) {
	case *array.Boolean:
		return func(buf []byte, row int) []byte { return append(buf, byte(count(a.Value(row)))) }
	case *array.Int32:
		return fixed(func(row int) uint64 { return uint64(a.Value(row)) })
	case *array.Int64:
		return fixed(func(row int) uint64 { return uint64(a.Value(row)) })
	case *array.Date32:
		return fixed(func(row int) uint64 { return uint64(a.Value(row)) })
	case *array.Time64:
		return fixed(func(row int) uint64 { return uint64(a.Value(row)) })
	case *array.Timestamp:
		return fixed(func(row int) uint64 { return uint64(a.Value(row)) })
	case *array.Float32:
		return fixed(func(row int) uint64 { return uint64(math.Float32bits(a.Value(row))) })
	case *array.Float64:
		return fixed(func(row int) uint64 { return math.Float64bits(a.Value(row)) })
	case *array.Decimal128:
		return func(buf []byte, row int) []byte {
			v := a.Value(row)

			return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(buf, uint64(v.HighBits())), v.LowBits())
		}
	case array.StringLike:
		return func(buf []byte, row int) []byte { return append(sized(buf, len(a.Value(row))), a.Value(row)...) }
	case interface{ Value(int) []byte }:
		return func(buf []byte, row int) []byte { return append(sized(buf, len(a.Value(row))), a.Value(row)...) }
	default:
		return func(buf []byte, row int) []byte {
			text := arr.ValueStr(row)

			return append(sized(buf, len(text)), text...)
		}
	}
}

func nestedEncoder(arr arrow.Array) encoder {
	switch a := arr.(type) {
	case array.ExtensionArray:
		return valueEncoder(a.Storage())
	case *array.Struct:
		fields := make([]encoder, a.NumField())
		for i := range fields {
			fields[i] = encoderOf(a.Field(i))
		}

		return func(buf []byte, row int) []byte {
			for _, encode := range fields {
				buf = encode(buf, row)
			}

			return buf
		}
	case array.ListLike:
		item := encoderOf(a.ListValues())

		return func(buf []byte, row int) []byte {
			start, end := a.ValueOffsets(row)
			buf = sized(buf, int(end-start))
			for i := start; i < end; i++ {
				buf = item(buf, int(i))
			}

			return buf
		}
	default:
		return nil
	}
}

func fixed(value func(int) uint64) encoder {
	return func(buf []byte, row int) []byte { return binary.LittleEndian.AppendUint64(buf, value(row)) }
}

func sized(buf []byte, n int) []byte { return binary.LittleEndian.AppendUint32(buf, uint32(n)) }

func (c checksum) String() string {
	return fmt.Sprintf("%016x%016x over %d rows", c.high, c.low, c.rows)
}
