package rewrite

import (
	"errors"
	"fmt"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
)

// errMissingValue means that a row lacks a value which the table requires.
var errMissingValue = errors.New("no value in a required column")

// relabel gives a batch the schema of the file it is written to. The two differ
// in names and in what may be null alone: iceberg-go (v0.7.0) says of every map
// that its values may be null, which the Parquet library takes for another
// schema than that of a table that requires them. The buffers are shared.
//
// A null where none is allowed is an error, because the file has no place for
// it. The argument stays the caller's.
func relabel(rec arrow.RecordBatch, want *arrow.Schema) (arrow.RecordBatch, error) {
	if int(rec.NumCols()) != want.NumFields() {
		return nil, fmt.Errorf("%d columns, the file has %d", rec.NumCols(), want.NumFields())
	}
	columns := make([]arrow.Array, 0, want.NumFields())
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, field := range want.Fields() {
		data, err := relabelData(rec.Column(i).Data(), field.Type)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", field.Name, err)
		}
		fitted := array.MakeFromData(data)
		data.Release()
		columns = append(columns, fitted)
	}
	out := array.NewRecordBatch(want, columns, rec.NumRows())
	if err := required(out); err != nil {
		out.Release()

		return nil, err
	}

	return out, nil
}

// relabelAll relabels the batches of a stream and passes them on to its consumer.
func relabelAll(batches iter.Seq2[arrow.RecordBatch, error], want *arrow.Schema) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for rec, err := range batches {
			if err == nil {
				fitted, wrong := relabel(rec, want)
				rec.Release()
				rec, err = fitted, wrong
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// requiresValues reports whether a map in a type may not hold nulls.
func requiresValues(typ iceberg.Type) bool {
	if m, is := typ.(*iceberg.MapType); is && m.ValueRequired {
		return true
	}
	nested, is := typ.(iceberg.NestedType)
	if !is {
		return false
	}
	for _, field := range nested.Fields() {
		if requiresValues(field.Type) {
			return true
		}
	}

	return false
}

func relabelData(data arrow.ArrayData, want arrow.DataType) (arrow.ArrayData, error) {
	if arrow.TypeEqual(data.DataType(), want, arrow.CheckMetadata()) {
		data.Retain()

		return data, nil
	}
	inner, nested := want.(arrow.NestedType)
	if !nested && arrow.TypeEqual(data.DataType(), want) {
		data.Retain()

		return data, nil
	}
	if !nested || data.DataType().ID() != want.ID() || len(data.Children()) != len(inner.Fields()) {
		return nil, fmt.Errorf("%s cannot be written as %s", data.DataType(), want)
	}
	children := make([]arrow.ArrayData, 0, len(inner.Fields()))
	defer func() {
		for _, c := range children {
			c.Release()
		}
	}()
	for i, field := range inner.Fields() {
		child, err := relabelData(data.Children()[i], field.Type)
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}

	return array.NewData(want, data.Len(), data.Buffers(), children, data.NullN(), data.Offset()), nil
}

// required fails for a null where the schema of the batch allows none. The Parquet
// library would write a zero there.
func required(rec arrow.RecordBatch) error {
	for i, field := range rec.Schema().Fields() {
		if !field.Nullable && rec.Column(i).NullN() > 0 {
			return fmt.Errorf("%w %s", errMissingValue, field.Name)
		}
		if err := requiredInside(rec.Column(i)); err != nil {
			return fmt.Errorf("column %s: %w", field.Name, err)
		}
	}

	return nil
}

// requiredInside looks for nulls in required fields, elements and values.
func requiredInside(arr arrow.Array) error {
	switch a := arr.(type) {
	case *array.Struct:
		for i, field := range a.DataType().(*arrow.StructType).Fields() { //nolint:forcetypeassert // the type of the array
			if err := requiredField(a, a.Field(i), field); err != nil {
				return err
			}
		}
	case array.ListLike: // maps too
		values := a.ListValues()
		if field := a.DataType().(arrow.ListLikeType).ElemField(); !field.Nullable && values.NullN() > 0 { //nolint:forcetypeassert // the type of the array
			for row := range a.Len() {
				if start, end := a.ValueOffsets(row); a.IsValid(row) && nullBetween(values, start, end) {
					return fmt.Errorf("%w %s", errMissingValue, field.Name)
				}
			}
		}

		return requiredInside(values)
	}

	return nil
}

func requiredField(parent *array.Struct, child arrow.Array, field arrow.Field) error {
	if !field.Nullable && child.NullN() > 0 {
		for row := range parent.Len() {
			if parent.IsValid(row) && child.IsNull(row) {
				return fmt.Errorf("%w %s", errMissingValue, field.Name)
			}
		}
	}

	return requiredInside(child)
}

func nullBetween(values arrow.Array, start, end int64) bool {
	for i := start; i < end; i++ {
		if values.IsNull(int(i)) {
			return true
		}
	}

	return false
}
