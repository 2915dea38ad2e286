package layout

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"

	"github.com/apache/iceberg-go"
	"github.com/google/uuid"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/refuse"
)

// plain is a field's initial default as a PLAIN value of a leaf column, without
// the length of a byte array. What is not known for sure is refused.
func plain(f iceberg.NestedField, leaf page.Leaf) ([]byte, error) {
	value := reflect.ValueOf(f.InitialDefault)
	var out []byte
	switch f.Type.(type) {
	case iceberg.BooleanType:
		if value.Kind() == reflect.Bool {
			out = []byte{byte(0)}
			if value.Bool() {
				out[0] = 1
			}
		}
	case iceberg.Int32Type, iceberg.DateType:
		if n, ok := integer(value); ok && n == int64(int32(n)) {
			out = binary.LittleEndian.AppendUint32(nil, uint32(n))
		}
	case iceberg.Int64Type, iceberg.TimeType, iceberg.TimestampType, iceberg.TimestampTzType,
		iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		if n, ok := integer(value); ok {
			out = binary.LittleEndian.AppendUint64(nil, uint64(n))
		}
	case iceberg.Float32Type:
		if value.CanFloat() {
			out = binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(value.Float())))
		}
	case iceberg.Float64Type:
		if value.CanFloat() {
			out = binary.LittleEndian.AppendUint64(nil, math.Float64bits(value.Float()))
		}
	case iceberg.StringType:
		if value.Kind() == reflect.String {
			out = []byte(value.String())
		}
	case iceberg.UUIDType:
		out = uuidBytes(f.InitialDefault)
	case iceberg.BinaryType, iceberg.FixedType:
		if value.Kind() == reflect.Slice && value.Type().Elem().Kind() == reflect.Uint8 {
			out = append([]byte{}, value.Bytes()...)
		}
	case iceberg.DecimalType:
		if d, ok := f.InitialDefault.(iceberg.Decimal); ok {
			out = decimal(d, leaf)
		}
	}
	if width := leaf.Width(); out == nil || (width > 0 && len(out) != width) {
		return nil, &refuse.Error{Rule: RuleDefault, Detail: fmt.Sprintf("%s %s", f.Name, f.Type)}
	}

	return out, nil
}

// integer takes numbers as they come out of JSON, too.
func integer(v reflect.Value) (int64, bool) {
	if v.IsValid() && v.CanInt() {
		return v.Int(), true
	}
	if v.IsValid() && v.CanFloat() && v.Float() == float64(int64(v.Float())) {
		return int64(v.Float()), true
	}

	return 0, false
}

func uuidBytes(v any) []byte {
	switch v := v.(type) {
	case uuid.UUID:
		return v[:]
	case string:
		if id, err := uuid.Parse(v); err == nil {
			return id[:]
		}
	}

	return nil
}

func decimal(d iceberg.Decimal, leaf page.Leaf) []byte {
	wide := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(d.Val.HighBits())), d.Val.LowBits())
	switch leaf.Type {
	case format.Int32:
		return binary.LittleEndian.AppendUint32(nil, uint32(d.Val.LowBits()))
	case format.Int64:
		return binary.LittleEndian.AppendUint64(nil, d.Val.LowBits())
	case format.FixedLenByteArray:
		if leaf.TypeLength <= len(wide) {
			return wide[len(wide)-leaf.TypeLength:]
		}
	}

	return nil
}
