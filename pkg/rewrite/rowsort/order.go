package rowsort

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// ErrUnsupported means that rows cannot be put in an order, because of what the
// order says or of the columns it names.
var ErrUnsupported = errors.New("sort order that cannot be applied")

// Key is one column of an order.
type Key struct {
	// FieldID is the source column, Name its dotted name.
	FieldID int
	Name    string
	// Transform makes the value that is compared.
	Transform iceberg.Transform
	// Descending and NullsFirst are independent of each other.
	Descending, NullsFirst bool

	path   []int // index of the column, then of fields in structs
	source iceberg.Type
}

// Order is a list of keys, the most significant first. The zero value leaves
// rows as they are. It is read only and safe for concurrent use.
type Order struct{ Keys []Key }

// FromTable returns the order of a table's sort order in terms of a schema of
// the table. The error wraps ErrUnsupported when rows cannot be put in it.
func FromTable(order table.SortOrder, schema *iceberg.Schema) (Order, error) {
	var out Order
	for _, field := range order.Fields() {
		if len(field.SourceIDs) != 1 {
			return Order{}, fmt.Errorf("%w: transform %s takes %d columns", ErrUnsupported, field.Transform, len(field.SourceIDs))
		}
		key, err := newKey(schema, field.SourceID(), field.Transform)
		if err != nil {
			return Order{}, err
		}
		key.Descending, key.NullsFirst = field.Direction == table.SortDESC, field.NullOrder == table.NullsFirst
		out.Keys = append(out.Keys, key)
	}

	return out, nil
}

// newKey finds a column in the schema and checks that it can be sorted by.
func newKey(schema *iceberg.Schema, id int, transform iceberg.Transform) (Key, error) {
	field, found := schema.FindFieldByID(id)
	if !found {
		return Key{}, fmt.Errorf("%w: it names a column, id %d, that the schema does not have", ErrUnsupported, id)
	}
	name, _ := schema.FindColumnName(id)
	path := FieldPath(schema.Fields(), id)
	if path == nil {
		return Key{}, fmt.Errorf("%w: column %s is inside a list or a map", ErrUnsupported, name)
	}
	if !comparable(field.Type) {
		return Key{}, fmt.Errorf("%w: column %s is of type %s, whose values have no order", ErrUnsupported, name, field.Type)
	}
	switch transform.(type) {
	case iceberg.UnknownTransform, *iceberg.UnknownTransform:
		return Key{}, fmt.Errorf("%w: transform %s is not known", ErrUnsupported, transform)
	}
	if !transform.CanTransform(field.Type) {
		return Key{}, fmt.Errorf("%w: transform %s does not take column %s of type %s", ErrUnsupported, transform, name, field.Type)
	}

	return Key{FieldID: id, Name: name, Transform: transform, path: path, source: field.Type}, nil
}

// comparable reports whether an order of the type's values is defined here.
func comparable(t iceberg.Type) bool {
	switch t.(type) {
	case iceberg.BooleanType, iceberg.Int32Type, iceberg.Int64Type, iceberg.Float32Type, iceberg.Float64Type,
		iceberg.DecimalType, iceberg.DateType, iceberg.TimeType, iceberg.TimestampType, iceberg.TimestampTzType,
		iceberg.TimestampNsType, iceberg.TimestampTzNsType, iceberg.StringType, iceberg.UUIDType, iceberg.FixedType, iceberg.BinaryType:
		return true
	}

	return false
}

// FieldPath leads to the field with an id through structs: the index at each
// level. It is nil when there is no such way, as into a list.
func FieldPath(fields []iceberg.NestedField, id int) []int {
	for i, f := range fields {
		if f.ID == id {
			return []int{i}
		}
		if st, ok := f.Type.(*iceberg.StructType); ok {
			if rest := FieldPath(st.FieldList, id); rest != nil {
				return append([]int{i}, rest...)
			}
		}
	}

	return nil
}

func isIdentity(t iceberg.Transform) bool {
	switch t.(type) {
	case iceberg.IdentityTransform, *iceberg.IdentityTransform:
		return true
	}

	return false
}

// Identity reports whether the key compares the column's own values.
func (k Key) Identity() bool { return isIdentity(k.Transform) }

// Type is the type of the source column.
func (k Key) Type() iceberg.Type { return k.source }

func (k Key) equal(o Key) bool {
	return k.FieldID == o.FieldID && k.Transform.String() == o.Transform.String() &&
		k.Descending == o.Descending && k.NullsFirst == o.NullsFirst
}

// Equal reports whether two orders have the same keys.
func (o Order) Equal(other Order) bool { return slices.EqualFunc(o.Keys, other.Keys, Key.equal) }

// String writes the order in the form that Parse reads.
func (o Order) String() string {
	parts := make([]string, 0, len(o.Keys))
	for _, k := range o.Keys {
		parts = append(parts, k.String())
	}

	return strings.Join(parts, ", ")
}

// String writes the key in the form that Parse reads.
func (k Key) String() string {
	text := quote(k.Name)
	if !k.Identity() {
		name, width, sized := strings.Cut(strings.TrimSuffix(k.Transform.String(), "]"), "[")
		if sized {
			text = width + ", " + text
		}
		text = name + "(" + text + ")"
	}
	if k.Descending {
		text += " desc"
	} else {
		text += " asc"
	}
	if k.NullsFirst {
		return text + " nulls first"
	}

	return text + " nulls last"
}
