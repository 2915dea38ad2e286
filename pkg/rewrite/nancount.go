package rewrite

import (
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
)

// nanCounter counts the NaNs of one output by field id, in floating-point columns
// outside of lists and maps. Footers do not have these counts, and iceberg-go
// (v0.7.0) writes none.
type nanCounter map[int]int64

// add counts in a batch whose columns are the schema's, in the same order.
func (c nanCounter) add(sc *iceberg.Schema, rec arrow.RecordBatch) {
	for i, f := range sc.Fields() {
		if i < int(rec.NumCols()) {
			c.column(f, rec.Column(i), nil)
		}
	}
}

// column goes down structs. What a null has in place of a value does not count.
func (c nanCounter) column(f iceberg.NestedField, values arrow.Array, parents []arrow.Array) {
	within := append(slices.Clone(parents), values)
	switch a := values.(type) {
	case *array.Struct:
		st, ok := f.Type.(*iceberg.StructType)
		if !ok || len(st.FieldList) != a.NumField() {
			return
		}
		for i, child := range st.FieldList {
			c.column(child, a.Field(i), within)
		}
	case *array.Float32:
		c[f.ID] += countNaNs(a.Values(), within)
	case *array.Float64:
		c[f.ID] += countNaNs(a.Values(), within)
	}
}

func countNaNs[T float32 | float64](values []T, nullable []arrow.Array) (n int64) {
	for row, v := range values {
		if math.IsNaN(float64(v)) && !nullAt(nullable, row) {
			n++
		}
	}

	return n
}

// countedNaNs are the counts that go with a file's other counts: those of columns
// for which the table wants any.
func countedNaNs(df iceberg.DataFile, nans map[int]int64) map[int]int64 {
	out := make(map[int]int64)
	values, nulls := df.ValueCounts(), df.NullValueCounts()
	for id, n := range nans {
		if total, counted := values[id]; counted && n <= total-nulls[id] {
			out[id] = n
		}
	}

	return out
}
