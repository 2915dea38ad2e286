package rewrite

import (
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nanColumns are columns of floating-point numbers at every depth.
func nanColumns(extra ...iceberg.NestedField) *iceberg.Schema {
	return iceberg.NewSchema(0, append([]iceberg.NestedField{
		{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		{ID: 2, Name: "d", Type: iceberg.PrimitiveTypes.Float64},
		{ID: 3, Name: "f", Type: iceberg.PrimitiveTypes.Float32},
		{ID: 4, Name: "st", Type: &iceberg.StructType{FieldList: []iceberg.NestedField{{ID: 5, Name: "x y", Type: iceberg.PrimitiveTypes.Float64}}}},
		{ID: 6, Name: "l", Type: &iceberg.ListType{ElementID: 7, Element: iceberg.PrimitiveTypes.Float64}},
		{ID: 8, Name: "none", Type: iceberg.PrimitiveTypes.Float64},
	}, extra...)...)
}

// appendNaNs adds n rows: NaN in every third d, every fourth f, every fifth x
// of structs that are there, and in every list; none in the last column.
func (e *env) appendNaNs(from, n int) {
	e.t.Helper()
	b := e.builder()
	defer b.Release()
	fillNaNs(b, from, n)
	e.appendBatch(b.NewRecordBatch())
}

func fillNaNs(b *array.RecordBuilder, from, n int) {
	nan := func(i, each int) float64 {
		if i%each == 0 {
			return math.NaN()
		}

		return float64(i)
	}
	for i := from; i < from+n; i++ {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.Float64Builder).Append(nan(i, 3))
		if i%5 == 1 {
			b.Field(2).AppendNull()
		} else {
			b.Field(2).(*array.Float32Builder).Append(float32(nan(i, 4)))
		}
		if st := b.Field(3).(*array.StructBuilder); i%2 == 0 {
			st.AppendNull()
		} else {
			st.Append(true)
			st.FieldBuilder(0).(*array.Float64Builder).Append(nan(i, 5))
		}
		l := b.Field(4).(*array.ListBuilder)
		l.Append(true)
		l.ValueBuilder().(*array.Float64Builder).AppendValues([]float64{math.NaN(), 1}, nil)
		b.Field(5).(*array.Float64Builder).Append(1)
		for k := 6; k < b.Schema().NumFields(); k++ {
			b.Field(k).AppendNull()
		}
	}
}

// trueNaNs counts in the rows of outputs.
func trueNaNs(t *testing.T, tbl *table.Table, outputs []iceberg.DataFile) map[int]int64 {
	t.Helper()
	_, recs := inFileOrder(t, tbl, outputs)
	columns := make(map[int]*truth)
	for _, rec := range recs {
		for i, field := range tbl.Schema().Fields() {
			gather(columns, field, rec.Column(i), nil)
		}
	}

	return map[int]int64{2: columns[2].nans, 3: columns[3].nans, 5: columns[5].nans, 8: 0}
}

// NaNs are counted while rows are written, by our own writer and by iceberg-go's,
// in columns that have any counts.
func TestNaNsAreCounted(t *testing.T) {
	extra := iceberg.NestedField{ID: 9, Name: "v", Type: iceberg.VariantType{}}
	for name, c := range map[string]struct {
		schema  *iceberg.Schema
		props   iceberg.Properties
		without []int
	}{
		"own writer":    {nanColumns(), nil, nil},
		"library":       {nanColumns(extra), iceberg.Properties{"format-version": "3"}, nil},
		"row ids":       {nanColumns(), iceberg.Properties{"format-version": "3"}, nil},
		"by mode":       {nanColumns(), iceberg.Properties{"write.metadata.metrics.column.d": "none", "write.metadata.metrics.column.f": "counts"}, []int{2}},
		"none, but one": {nanColumns(), iceberg.Properties{"write.metadata.metrics.default": "none", "write.metadata.metrics.column.st.x y": "full"}, []int{2, 3, 8}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, c.schema, *iceberg.UnpartitionedSpec, c.props)
			for i := range 3 {
				e.appendNaNs(100*i, 60)
			}
			data, _ := e.files()
			if c.props["format-version"] == "" {
				e.deletePositions(data[0], position{data[0].FilePath(), 0})
			}
			done := e.sameRows(PlanOptions{MinInputFiles: 2, SortBy: "d"}, Options{Engine: EngineGeneral})
			require.Len(t, done.results, 1)
			outputs := done.results[0].Outputs
			require.Len(t, outputs, 1)
			want := trueNaNs(t, done.tbl, outputs)
			require.Positive(t, want[2]*want[3]*want[5])
			for _, id := range c.without {
				delete(want, id)
			}
			assert.Equal(t, want, outputs[0].NaNValueCounts())
		})
	}
}

// What stands in a place that is null, or inside a struct that is, is no value.
func TestNaNsInNullsDoNotCount(t *testing.T) {
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	b.AppendValues([]float64{math.NaN(), math.NaN(), math.NaN(), 1}, []bool{true, true, false, true})
	values := b.NewArray()
	st := array.NewStructData(array.NewData(arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true}), 4,
		[]*memory.Buffer{memory.NewBufferBytes([]byte{0b1110})}, []arrow.ArrayData{values.Data()}, 1, 0))
	rec := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "st", Type: st.DataType(), Nullable: true}}, nil), []arrow.Array{st}, 4)
	c := make(nanCounter)
	sc := iceberg.NewSchema(0, nanColumns().Field(3))
	c.add(sc, rec)
	assert.Equal(t, nanCounter{5: 1}, c)
	c.add(sc, rec.NewSlice(1, 3))
	assert.Equal(t, nanCounter{5: 2}, c)
}
