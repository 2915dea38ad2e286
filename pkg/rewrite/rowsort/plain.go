package rowsort

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Extension types are put off while rows are sorted: arrow-go (v18.8.0) cannot
// concatenate them, and reads those back from a file that somebody has
// registered. The layout of an extension array is that of its storage, so only
// the type is exchanged.

// storageType is a type with storage types in place of extension types.
func storageType(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case arrow.ExtensionType:
		return storageType(t.StorageType())
	case *arrow.StructType:
		fields := make([]arrow.Field, t.NumFields())
		for i, f := range t.Fields() {
			fields[i] = storageField(f)
		}

		return arrow.StructOf(fields...)
	case *arrow.MapType:
		out := arrow.MapOfFields(storageField(t.KeyField()), storageField(t.ItemField()))
		out.KeysSorted = t.KeysSorted

		return out
	case *arrow.ListType:
		return arrow.ListOfField(storageField(t.ElemField()))
	case *arrow.LargeListType:
		return arrow.LargeListOfField(storageField(t.ElemField()))
	default:
		return t
	}
}

func storageField(f arrow.Field) arrow.Field {
	f.Type = storageType(f.Type)

	return f
}

func storageSchema(sc *arrow.Schema) *arrow.Schema {
	fields := make([]arrow.Field, sc.NumFields())
	for i, f := range sc.Fields() {
		fields[i] = storageField(f)
	}
	meta := sc.Metadata()

	return arrow.NewSchema(fields, &meta)
}

// recast is the batch under another schema of the same layout.
func recast(rec arrow.RecordBatch, sc *arrow.Schema) arrow.RecordBatch {
	columns := make([]arrow.Array, rec.NumCols())
	for i, col := range rec.Columns() {
		data := retyped(col.Data(), sc.Field(i).Type)
		columns[i] = array.MakeFromData(data)
		data.Release()
	}
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()

	return array.NewRecordBatch(sc, columns, rec.NumRows())
}

func retyped(data arrow.ArrayData, t arrow.DataType) arrow.ArrayData {
	var fields []arrow.Field
	inner := t
	for {
		ext, ok := inner.(arrow.ExtensionType)
		if !ok {
			break
		}
		inner = ext.StorageType()
	}
	if nested, ok := inner.(arrow.NestedType); ok {
		fields = nested.Fields()
	}
	children := make([]arrow.ArrayData, len(data.Children()))
	for i, child := range data.Children() {
		if i < len(fields) {
			children[i] = retyped(child, fields[i].Type)
		} else {
			child.Retain()
			children[i] = child
		}
	}
	out := array.NewData(t, data.Len(), data.Buffers(), children, data.NullN(), data.Offset())
	for _, child := range children {
		child.Release()
	}

	return out
}
