package layout

import (
	"fmt"

	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/refuse"
)

// form is a way to store an Iceberg type (Iceberg specification, appendix A,
// Parquet). The first one of a type is how a missing column is written.
type form struct {
	typ    format.Type
	length int32 // of fixed-length types; 0 for any
	// logical and converted are the annotations of the output.
	logical   format.LogicalType
	converted int32
	// bare accepts a column without any annotation.
	bare bool
}

const noConverted int32 = -1

func formsOf(t iceberg.Type) []form {
	switch t := t.(type) {
	case iceberg.BooleanType:
		return plainForm(format.Boolean, 0)
	case iceberg.Int32Type:
		return integerForm(format.Int32, format.ConvertedInt32, 32)
	case iceberg.Int64Type:
		return integerForm(format.Int64, format.ConvertedInt64, 64)
	case iceberg.Float32Type:
		return plainForm(format.Float, 0)
	case iceberg.Float64Type:
		return plainForm(format.Double, 0)
	case iceberg.DateType:
		return logicalForm(format.Int32, format.ConvertedDate, format.LogicalType{Kind: format.LogicalDate})
	case iceberg.TimeType:
		return logicalForm(format.Int64, noConverted, format.LogicalType{Kind: format.LogicalTime, Unit: format.Micros})
	case iceberg.TimestampType:
		return timestampForm(format.Micros, false)
	case iceberg.TimestampTzType:
		return timestampForm(format.Micros, true)
	case iceberg.TimestampNsType:
		return timestampForm(format.Nanos, false)
	case iceberg.TimestampTzNsType:
		return timestampForm(format.Nanos, true)
	case iceberg.StringType:
		return logicalForm(format.ByteArray, format.ConvertedUTF8, format.LogicalType{Kind: format.LogicalString})
	case iceberg.BinaryType:
		return plainForm(format.ByteArray, 0)
	case iceberg.UUIDType:
		// Sixteen bytes without the annotation are refused, as the general engine
		// has to: one file is the same to both.
		return []form{{typ: format.FixedLenByteArray, length: 16, logical: format.LogicalType{Kind: format.LogicalUUID}, converted: noConverted}}
	case iceberg.FixedType:
		return plainForm(format.FixedLenByteArray, int32(t.Len()))
	case iceberg.DecimalType:
		return decimalForms(t)
	default:
		return nil
	}
}

func plainForm(typ format.Type, length int32) []form {
	return []form{{typ: typ, length: length, converted: noConverted, bare: true}}
}

func logicalForm(typ format.Type, converted int32, l format.LogicalType) []form {
	return []form{{typ: typ, logical: l, converted: converted}}
}

func integerForm(typ format.Type, converted int32, bits int8) []form {
	l := format.LogicalType{Kind: format.LogicalInteger, BitWidth: bits, Signed: true}

	return []form{{typ: typ, logical: l, converted: converted, bare: true}}
}

func timestampForm(unit format.TimeUnit, utc bool) []form {
	converted := noConverted
	if unit == format.Micros && utc {
		converted = format.ConvertedTimestampMicros
	}

	return logicalForm(format.Int64, converted, format.LogicalType{Kind: format.LogicalTimestamp, Unit: unit, UTC: utc})
}

func decimalForms(t iceberg.DecimalType) []form {
	l := format.LogicalType{Kind: format.LogicalDecimal, Precision: int32(t.Precision()), Scale: int32(t.Scale())}
	length := pqarrow.DecimalSize(int32(t.Precision()))
	forms := []form{{typ: format.FixedLenByteArray, length: length, logical: l, converted: format.ConvertedDecimal}}
	if t.Precision() <= 9 {
		forms = append(forms, form{typ: format.Int32, logical: l, converted: format.ConvertedDecimal})
	}
	if t.Precision() <= 18 {
		forms = append(forms, form{typ: format.Int64, logical: l, converted: format.ConvertedDecimal})
	}

	return forms
}

// primitive is the output's element for a leaf of the file. Stored is set when
// the values have to be brought into another form.
func primitive(f iceberg.NestedField, n *node) (el format.SchemaElement, stored *Stored, err error) {
	forms := formsOf(f.Type)
	if len(forms) == 0 {
		return el, nil, &refuse.Error{Rule: RuleType, Detail: fmt.Sprintf("%s %s", f.Name, f.Type)}
	}
	if n.leaf() {
		for _, want := range forms {
			if want.matches(n) {
				return annotated(f, want, *n.element.Type), nil, nil
			}
		}
		if widens(f.Type, n.element) {
			return annotated(f, forms[0], forms[0].typ), &Stored{*n.element.Type, n.element.TypeLength}, nil
		}
	}

	return el, nil, &refuse.Error{Rule: RulePhysical, Detail: fmt.Sprintf("%s %s", f.Name, f.Type)}
}

// widens knows the promotions of the Iceberg specification (Schema Evolution)
// that keep every value, and the other forms of a decimal (LogicalTypes.md,
// DECIMAL).
func widens(t iceberg.Type, el *format.SchemaElement) bool {
	switch t := t.(type) {
	case iceberg.Int64Type:
		return *el.Type == format.Int32 && signed(el, 32)
	case iceberg.Float64Type:
		return *el.Type == format.Float && el.Logical.Kind == format.LogicalNone && el.Converted == nil
	case iceberg.DecimalType:
		precision, scale := el.Logical.Precision, el.Logical.Scale
		if el.Logical.Kind == format.LogicalNone && el.Converted != nil && *el.Converted == format.ConvertedDecimal {
			precision, scale = el.Precision, el.Scale
		} else if el.Logical.Kind != format.LogicalDecimal {
			return false
		}
		switch *el.Type {
		case format.Int32, format.Int64, format.ByteArray, format.FixedLenByteArray:
			return scale == int32(t.Scale()) && precision > 0 && precision <= int32(t.Precision())
		}
	}

	return false
}

// signed reports whether a column holds signed integers of at most so many bits.
func signed(el *format.SchemaElement, bits int8) bool {
	switch {
	case el.Logical.Kind == format.LogicalInteger:
		return el.Logical.Signed && el.Logical.BitWidth <= bits
	case el.Logical.Kind != format.LogicalNone:
		return false
	case el.Converted == nil:
		return true
	default:
		return *el.Converted >= format.ConvertedInt8 && *el.Converted <= format.ConvertedInt32
	}
}

func annotated(f iceberg.NestedField, want form, typ format.Type) format.SchemaElement {
	el := format.SchemaElement{Name: f.Name, Type: &typ, TypeLength: want.length, Logical: want.logical}
	if want.converted != noConverted {
		converted := want.converted
		el.Converted = &converted
	}
	if want.logical.Kind == format.LogicalDecimal {
		el.Precision, el.Scale = want.logical.Precision, want.logical.Scale
	}

	return el
}

// matches compares physical type and annotation. A logical annotation decides;
// without one the older converted one does.
func (w form) matches(n *node) bool {
	el := n.element
	if *el.Type != w.typ || (w.typ == format.FixedLenByteArray && el.TypeLength != w.length) {
		return false
	}
	switch {
	case w.logical.Kind == format.LogicalInteger && w.typ == format.Int32:
		return signed(el, w.logical.BitWidth)
	case el.Logical.Kind == format.LogicalTime:
		return w.logical.Kind == format.LogicalTime && el.Logical.Unit == w.logical.Unit
	case el.Logical.Kind != format.LogicalNone:
		return el.Logical == w.logical
	case el.Converted == nil:
		return w.bare
	case w.logical.Kind == format.LogicalDecimal:
		return is(n, format.ConvertedDecimal) && el.Precision == w.logical.Precision && el.Scale == w.logical.Scale
	case w.logical.Kind == format.LogicalTimestamp && w.logical.Unit == format.Micros:
		// The older annotation does not tell whether the time is one of UTC.
		return is(n, format.ConvertedTimestampMicros)
	case w.logical.Kind == format.LogicalTime:
		return is(n, format.ConvertedTimeMicros)
	default:
		return w.converted != noConverted && is(n, w.converted)
	}
}

func is(n *node, converted int32) bool {
	return n.element.Converted != nil && *n.element.Converted == converted
}
