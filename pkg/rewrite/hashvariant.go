package rewrite

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/parquet/variant"
)

// variantEncoder appends values of the variant type by what they mean: the bytes
// of one object are not always the same, because a reader that puts a shredded
// one together may lay its fields out in any order.
//
// A variant that holds null is not a null: only the latter has no storage.
func variantEncoder(a *extensions.VariantArray) encoder {
	storage := a.Storage()

	return func(buf []byte, row int) []byte {
		if storage.IsNull(row) {
			return append(buf, 0)
		}
		v, err := a.Value(row)
		if err != nil { // a value that cannot be put together is written by nobody
			return append(append(buf, 2), err.Error()...)
		}

		return appendVariant(append(buf, 1), v)
	}
}

// appendVariant appends a value, or the bytes it is stored in when they are no
// variant.
func appendVariant(buf []byte, v variant.Value) (out []byte) {
	defer func() {
		if recover() != nil { // the library takes the lengths inside a value on trust
			out = append(sized(append(buf, 'r'), len(v.Bytes())), v.Bytes()...)
		}
	}()
	switch inner := v.Value().(type) {
	case variant.ObjectValue:
		return appendObject(buf, inner)
	case variant.ArrayValue:
		buf = sized(append(buf, 'a'), int(inner.Len()))
		for item := range inner.Values() {
			buf = appendVariant(buf, item)
		}

		return buf
	case string:
		return append(sized(append(buf, 's'), len(inner)), inner...)
	case []byte:
		return append(sized(append(buf, 'b'), len(inner)), inner...)
	case int8:
		return appendInteger(buf, int64(inner))
	case int16:
		return appendInteger(buf, int64(inner))
	case int32:
		return appendInteger(buf, int64(inner))
	case int64:
		return appendInteger(buf, inner)
	default:
		return append(append(buf, 'p', byte(v.Type())), v.Bytes()[:variantWidth(v.Type())]...)
	}
}

// appendInteger leaves the width out: to the specification integers of any width
// are one kind of number, and iceberg-go makes those it puts together narrow.
func appendInteger(buf []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(append(buf, 'i'), uint64(n))
}

func appendObject(buf []byte, object variant.ObjectValue) []byte {
	type field struct {
		key   string
		value variant.Value
	}
	var fields []field
	for key, value := range object.Values() {
		fields = append(fields, field{key, value})
	}
	slices.SortFunc(fields, func(a, b field) int { return cmp.Compare(a.key, b.key) })
	buf = sized(append(buf, 'o'), len(fields))
	for _, f := range fields {
		buf = appendVariant(append(sized(buf, len(f.key)), f.key...), f.value)
	}

	return buf
}

// variantWidth is how many bytes a value of fixed size other than an integer
// takes with its header.
func variantWidth(t variant.Type) int {
	switch t {
	case variant.Float, variant.Date:
		return 5
	case variant.Decimal4:
		return 6
	case variant.Double, variant.Time, variant.TimestampMicros, variant.TimestampMicrosNTZ,
		variant.TimestampNanos, variant.TimestampNanosNTZ:
		return 9
	case variant.Decimal8:
		return 10
	case variant.UUID:
		return 17
	case variant.Decimal16:
		return 18
	default: // null, true and false are in the header
		return 1
	}
}
