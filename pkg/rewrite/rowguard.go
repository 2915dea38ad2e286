package rewrite

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"

	"compactor/pkg/rewrite/rowsort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// errPartition means that a file's rows are not those of its partition.
var errPartition = errors.New("row outside the partition of its file")

// rowGuard compares what is read with the partition of the files it comes from:
// under an identity transform every row holds the partition's value. A reader
// that lost the value on the way is seen before a row is written.
type rowGuard struct {
	fields []rowGuardField
}

type rowGuardField struct {
	name  string
	path  []int
	value any // nil for a missing value
}

// newRowGuard is for files of one spec and one partition.
func newRowGuard(tbl *table.Table, df iceberg.DataFile) rowGuard {
	var g rowGuard
	spec := tbl.Metadata().PartitionSpecByID(int(df.SpecID()))
	if spec == nil {
		return g
	}
	values := df.Partition()
	for _, field := range identityFields(*spec) {
		value, listed := values[field.FieldID]
		if path := rowsort.FieldPath(tbl.Schema().Fields(), field.SourceID()); path != nil && listed {
			g.fields = append(g.fields, rowGuardField{name: field.Name, path: path, value: value})
		}
	}

	return g
}

func (g rowGuard) check(rec arrow.RecordBatch) error {
	for _, field := range g.fields {
		arrays := []arrow.Array{rec.Column(field.path[0])}
		for _, i := range field.path[1:] {
			st, ok := arrays[len(arrays)-1].(*array.Struct)
			if !ok {
				return fmt.Errorf("partition field %s: its column is not inside a struct", field.name)
			}
			arrays = append(arrays, st.Field(i))
		}
		leaf := arrays[len(arrays)-1]
		same := sameValue(leaf, field.value)
		for row := range int(rec.NumRows()) {
			if isNull := nullAt(arrays, row); isNull != (field.value == nil) || (!isNull && !same(row)) {
				return fmt.Errorf("%w: partition field %s is %v, a row holds %s",
					errPartition, field.name, field.value, leaf.ValueStr(row))
			}
		}
	}

	return nil
}

// nullAt looks at the parents too: a missing struct has no fields.
func nullAt(arrays []arrow.Array, row int) bool {
	for _, a := range arrays {
		if a.IsNull(row) {
			return true
		}
	}

	return false
}

// sameValue compares rows with a partition value. Columns may have been widened
// since the manifest was written, so numbers of all widths compare. A value of a
// kind that is not known here passes.
func sameValue(arr arrow.Array, want any) func(row int) bool {
	switch a := arr.(type) {
	case array.ExtensionArray:
		return sameValue(a.Storage(), want)
	case *array.Decimal128:
		return sameDecimal(a, want)
	case *array.Boolean:
		return func(row int) bool { return a.Value(row) == want }
	case *array.Float32:
		return sameFloat(func(row int) float64 { return float64(a.Value(row)) }, want)
	case *array.Float64:
		return sameFloat(a.Value, want)
	case array.StringLike:
		return sameBytes(func(row int) []byte { return []byte(a.Value(row)) }, want)
	case interface{ Value(int) []byte }:
		return sameBytes(a.Value, want)
	case *array.Int32:
		return sameInt(func(row int) int64 { return int64(a.Value(row)) }, want)
	case *array.Int64:
		return sameInt(a.Value, want)
	case *array.Date32:
		return sameInt(func(row int) int64 { return int64(a.Value(row)) }, want)
	case *array.Time64:
		return sameInt(func(row int) int64 { return int64(a.Value(row)) }, want)
	case *array.Timestamp:
		return sameInt(func(row int) int64 { return int64(a.Value(row)) }, want)
	default:
		return anyValue
	}
}

func anyValue(int) bool { return true }

func sameInt(at func(int) int64, want any) func(int) bool {
	rv := reflect.ValueOf(want)
	if !rv.IsValid() || !rv.CanInt() {
		return anyValue
	}

	return func(row int) bool { return at(row) == rv.Int() }
}

func sameFloat(at func(int) float64, want any) func(int) bool {
	rv := reflect.ValueOf(want)
	if !rv.IsValid() || !rv.CanFloat() {
		return anyValue
	}
	f := rv.Float()

	return func(row int) bool { return at(row) == f || (math.IsNaN(at(row)) && math.IsNaN(f)) }
}

func sameBytes(at func(int) []byte, want any) func(int) bool {
	rv := reflect.ValueOf(want)
	var raw []byte
	switch {
	case !rv.IsValid():
		return anyValue
	case rv.Kind() == reflect.String:
		raw = []byte(rv.String())
	case rv.Kind() == reflect.Slice && rv.Type().Elem().Kind() == reflect.Uint8:
		raw = rv.Bytes()
	case rv.Kind() == reflect.Array && rv.Type().Elem().Kind() == reflect.Uint8:
		raw = make([]byte, rv.Len())
		reflect.Copy(reflect.ValueOf(raw), rv)
	default:
		return anyValue
	}

	return func(row int) bool { return bytes.Equal(at(row), raw) }
}

func sameDecimal(a *array.Decimal128, want any) func(int) bool {
	var value decimal128.Num
	switch d := want.(type) {
	case iceberg.Decimal:
		value = d.Val
	case iceberg.DecimalLiteral:
		value = d.Val
	default:
		return anyValue
	}

	return func(row int) bool { return a.Value(row) == value }
}
