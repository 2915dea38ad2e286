package rowsort

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
)

// NewKey is the ascending key of a column under a transform, nulls first. The
// error wraps ErrUnsupported when there is no such column, or its values or the
// transform cannot be compared.
func NewKey(schema *iceberg.Schema, fieldID int, transform iceberg.Transform) (Key, error) {
	key, err := newKey(schema, fieldID, transform)
	key.NullsFirst = true

	return key, err
}

// Matcher finds rows whose value under a key is not the wanted one. It is read
// only and safe for concurrent use.
type Matcher struct {
	order Order
	want  []byte
}

// NewMatcher wants a value as manifests hold it, nil for null. It returns an
// error for a value of a kind that it does not know.
func NewMatcher(key Key, value any) (*Matcher, error) {
	m := &Matcher{order: Order{Keys: []Key{key}}}
	if value == nil {
		m.want = []byte{nullFirst}

		return m, nil
	}
	m.want = []byte{present}
	switch rv := reflect.ValueOf(value); {
	case rv.CanInt():
		m.want = appendInt(m.want, rv.Int())
	case rv.Kind() == reflect.String:
		m.want = appendText(m.want, rv.String())
	case rv.Kind() == reflect.Slice && rv.Type().Elem().Kind() == reflect.Uint8:
		m.want = appendText(m.want, rv.Bytes())
	default:
		var number iceberg.Decimal
		switch d := value.(type) {
		case iceberg.Decimal:
			number = d
		case iceberg.DecimalLiteral:
			number = iceberg.Decimal(d)
		default:
			return nil, fmt.Errorf("value of type %T cannot be compared", value)
		}
		m.want = appendWide(m.want, number.Val.HighBits(), number.Val.LowBits())
	}

	return m, nil
}

// Find returns the first row that has another value, -1 when all have the wanted
// one.
func (m *Matcher) Find(rec arrow.RecordBatch) (int, error) {
	k, err := m.order.keysOf(rec)
	if err != nil {
		return -1, err
	}
	for row := range k.ends {
		if !bytes.Equal(k.at(row), m.want) {
			return row, nil
		}
	}

	return -1, nil
}
