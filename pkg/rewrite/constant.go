package rewrite

import (
	"fmt"
	"reflect"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// constant is a column that a file does not store, because every row of the file
// has the value of its partition. Tables that were taken over from Hive are made
// of such files. The specification (section "Column Projection") has readers
// take the value from the partition; iceberg-go reads it as missing.
type constant struct {
	column int // position in the table's schema, and in a batch of all columns
	name   string
	value  any
}

// constantsOf finds the columns that have to be filled in while a file is read.
// It refuses a file where that cannot be done, or where the engine would compare
// the missing column with equality deletes before it is filled in.
func constantsOf(tbl *table.Table, f File, spec iceberg.PartitionSpec, stored fileSchema) ([]constant, error) {
	var out []constant
	for _, field := range identityFields(spec) {
		value := f.Data.Partition()[field.FieldID]
		if value == nil || stored.has(field.SourceID()) {
			continue
		}
		name, live := tbl.Schema().FindColumnName(field.SourceID())
		if !live {
			continue
		}
		c := constant{column: topLevel(tbl.Schema(), field.SourceID()), name: name, value: value}
		if reason := c.impossible(tbl, f); reason != "" {
			return nil, fmt.Errorf("%w: column %s is not in the file, its value %v stands in the partition %s alone, and %s",
				ErrRefused, name, value, field.Name, reason)
		}
		out = append(out, c)
	}

	return out, nil
}

func topLevel(sc *iceberg.Schema, id int) int {
	for i, field := range sc.Fields() {
		if field.ID == id {
			return i
		}
	}

	return -1
}

// impossible says why the constant cannot be filled in, or nothing.
func (c constant) impossible(tbl *table.Table, f File) string {
	if c.column < 0 {
		return "a column inside a struct cannot be filled in"
	}
	if tbl.Schema().Fields()[c.column].Required {
		return "a required column cannot be filled in"
	}
	if len(f.applied.equality) > 0 {
		return "equality deletes apply to the file, which would be compared with a missing value"
	}
	sc, err := table.SchemaToArrowSchemaWithOptions(tbl.Schema(), table.ArrowSchemaOptions{TableProperties: tbl.Properties()})
	if err != nil {
		return err.Error()
	}
	probe, err := c.array(sc.Field(c.column).Type, 1)
	if err != nil {
		return err.Error()
	}
	probe.Release()

	return ""
}

// fill replaces the columns of a batch of all columns. It takes over its
// argument.
func fill(constants []constant, rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	if len(constants) == 0 {
		return rec, nil
	}
	defer rec.Release()
	columns := append([]arrow.Array(nil), rec.Columns()...)
	for _, c := range constants {
		filled, err := c.array(columns[c.column].DataType(), int(rec.NumRows()))
		if err != nil {
			return nil, fmt.Errorf("fill column %s: %w", c.name, err)
		}
		defer filled.Release()
		columns[c.column] = filled
	}

	return array.NewRecordBatch(rec.Schema(), columns, rec.NumRows()), nil
}

// array repeats the value.
func (c constant) array(typ arrow.DataType, rows int) (arrow.Array, error) {
	b := array.NewBuilder(memory.DefaultAllocator, typ)
	defer b.Release()
	b.Reserve(rows)
	for range rows {
		if !appendValue(b, c.value) {
			return nil, fmt.Errorf("a %T cannot become a %s", c.value, typ)
		}
	}

	return b.NewArray(), nil
}

// appendValue appends a partition value to a column that may have been widened
// since the manifest was written. It reports whether the two fit.
func appendValue(b array.Builder, value any) bool {
	rv := reflect.ValueOf(value)
	switch b := b.(type) {
	case *array.BooleanBuilder:
		return rv.Kind() == reflect.Bool && appended(b.Append, rv.Bool())
	case *array.Int32Builder:
		return rv.CanInt() && int64(int32(rv.Int())) == rv.Int() && appended(b.Append, int32(rv.Int()))
	case *array.Int64Builder:
		return rv.CanInt() && appended(b.Append, rv.Int())
	case *array.Date32Builder:
		return rv.CanInt() && appended(b.Append, arrow.Date32(rv.Int()))
	case *array.Float32Builder:
		return rv.Kind() == reflect.Float32 && appended(b.Append, float32(rv.Float()))
	case *array.Float64Builder:
		return rv.CanFloat() && appended(b.Append, rv.Float())
	case *array.StringBuilder:
		return rv.Kind() == reflect.String && appended(b.Append, rv.String())
	case *array.Decimal128Builder:
		num, ok := decimalOf(value)

		return ok && appended(b.Append, num)
	default:
		return false
	}
}

func appended[T any](appendOne func(T), value T) bool {
	appendOne(value)

	return true
}

func decimalOf(value any) (decimal128.Num, bool) {
	switch d := value.(type) {
	case iceberg.Decimal:
		return d.Val, true
	case iceberg.DecimalLiteral:
		return d.Val, true
	default:
		return decimal128.Num{}, false
	}
}
