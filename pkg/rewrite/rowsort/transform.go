package rowsort

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
)

// transformed applies the key's transform to each value. It is slower than
// identity, because iceberg-go's transforms take one boxed value at a time.
func (k Key) transformed(leaf arrow.Array) (encoder, error) {
	literal := k.literal(leaf)
	if literal == nil {
		return nil, fmt.Errorf("sort key %s: values of type %s cannot be transformed", k.Name, leaf.DataType())
	}
	if leaf.Len() > leaf.NullN() { // tried before it is relied on
		for row := range leaf.Len() {
			if leaf.IsNull(row) {
				continue
			}
			if out := k.Transform.Apply(iceberg.Optional[iceberg.Literal]{Val: literal(row), Valid: true}); out.Valid {
				if _, err := appendLiteral(nil, out.Val); err != nil {
					return nil, fmt.Errorf("sort key %s: %w", k.Name, err)
				}
			}

			break
		}
	}

	return func(buf []byte, row int) []byte {
		out := k.Transform.Apply(iceberg.Optional[iceberg.Literal]{Val: literal(row), Valid: true})
		if !out.Valid { // null after all
			return buf[:len(buf)-1]
		}
		whole, err := appendLiteral(buf, out.Val)
		if err != nil { // the kind of the first value was tried above
			return buf
		}

		return whole
	}, nil
}

// literal returns the values of an array as iceberg-go's transforms take them.
func (k Key) literal(leaf arrow.Array) func(row int) iceberg.Literal {
	switch a := leaf.(type) {
	case *array.Int32:
		return func(row int) iceberg.Literal { return iceberg.Int32Literal(a.Value(row)) }
	case *array.Int64:
		return func(row int) iceberg.Literal { return iceberg.Int64Literal(a.Value(row)) }
	case *array.Date32:
		return func(row int) iceberg.Literal { return iceberg.DateLiteral(a.Value(row)) }
	case *array.Time64:
		return func(row int) iceberg.Literal { return iceberg.TimeLiteral(a.Value(row)) }
	case *array.Timestamp:
		if unit := a.DataType().(*arrow.TimestampType).Unit; unit == arrow.Nanosecond {
			return func(row int) iceberg.Literal { return iceberg.TimestampNsLiteral(a.Value(row)) }
		}

		return func(row int) iceberg.Literal { return iceberg.TimestampLiteral(a.Value(row)) }
	case *array.Decimal128:
		decimal, ok := k.source.(iceberg.DecimalType)
		if !ok {
			return nil
		}

		return func(row int) iceberg.Literal {
			return iceberg.DecimalLiteral{Val: a.Value(row), Scale: decimal.Scale()}
		}
	case array.StringLike:
		return func(row int) iceberg.Literal { return iceberg.StringLiteral(a.Value(row)) }
	case interface{ Value(int) []byte }:
		return k.bytesLiteral(a.Value)
	}

	return nil
}

func (k Key) bytesLiteral(value func(int) []byte) func(row int) iceberg.Literal {
	switch k.source.(type) {
	case iceberg.UUIDType:
		return func(row int) iceberg.Literal {
			var id uuid.UUID
			copy(id[:], value(row))

			return iceberg.UUIDLiteral(id)
		}
	case iceberg.FixedType:
		return func(row int) iceberg.Literal { return iceberg.FixedLiteral(value(row)) }
	default:
		return func(row int) iceberg.Literal { return iceberg.BinaryLiteral(value(row)) }
	}
}
