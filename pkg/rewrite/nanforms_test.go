package rewrite

import (
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// appendNaNForms adds a file of n rows with the given NaNs, which recur, in a
// column, in a struct and in a list.
func (e *env) appendNaNForms(from, n int, nans ...float64) {
	e.t.Helper()
	b := e.builder()
	defer b.Release()
	for i := from; i < from+n; i++ {
		nan := nans[i/3%len(nans)]
		v := []float64{nan, 1.5, math.Inf(-1)}[i%3]
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.Float64Builder).Append(v)
		b.Field(2).(*array.Float32Builder).Append(math.Float32frombits(uint32(math.Float64bits(nan)>>32) | 0x7ff00000))
		st := b.Field(3).(*array.StructBuilder)
		st.Append(true)
		st.FieldBuilder(0).(*array.Float64Builder).Append(v)
		l := b.Field(4).(*array.ListBuilder)
		l.Append(true)
		l.ValueBuilder().(*array.Float64Builder).AppendValues([]float64{v, 1}, nil)
		for k := 5; k < b.Schema().NumFields(); k++ {
			b.Field(k).AppendNull()
		}
	}
	e.appendBatch(b.NewRecordBatch())
}

// NaNs keep their sign and all of their bits, whether the second form comes in
// the first batch or when files are written already, and in a sort order.
func TestNaNsOfSeveralFormsStayAsTheyAre(t *testing.T) {
	negative := math.Float64frombits(0xfff8000000000000)
	variant := iceberg.NestedField{ID: 9, Name: "v", Type: iceberg.VariantType{}}
	for name, c := range map[string]struct {
		schema *iceberg.Schema
		props  iceberg.Properties
		o      PlanOptions
		engine string
	}{
		"general": {nanColumns(), nil, PlanOptions{}, EngineGeneral},
		"sorted":  {nanColumns(), iceberg.Properties{"write.parquet.dict-encoding-enabled.column.l.element": "true"}, PlanOptions{SortBy: "d, id"}, EngineGeneral},
		"library": {nanColumns(variant), iceberg.Properties{"format-version": "3"}, PlanOptions{}, EngineGeneral},
		"splice":  {nanColumns(), nil, PlanOptions{}, EngineSplice},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, c.schema, *iceberg.UnpartitionedSpec, c.props)
			e.commit(func(tx *table.Transaction) {
				require.NoError(t, tx.SetProperties(iceberg.Properties{table.ParquetRowGroupLimitKey: "200"}))
			})
			dictionaries := func(value string) { // whoever writes with them loses forms
				e.commit(func(tx *table.Transaction) {
					require.NoError(t, tx.SetProperties(iceberg.Properties{"parquet.enable.dictionary": value}))
				})
			}
			dictionaries("false")
			e.appendNaNForms(0, 600, math.NaN())
			e.appendNaNForms(600, 600, math.NaN())
			e.appendNaNForms(1200, 600, math.NaN(), negative)
			e.appendNaNForms(1800, 600, negative)
			dictionaries("true")
			data, _ := e.files()
			var gone []position
			for _, df := range data {
				gone = append(gone, position{df.FilePath(), 1})
			}
			if c.props["format-version"] == "" {
				e.deletePositions(data[0], gone...)
			} else {
				e.deleteVector(gone...)
			}
			c.o.RewriteAll, c.o.TargetFileSize = true, data[0].FileSizeBytes()
			done := e.sameRows(c.o, Options{Engine: c.engine, Verify: true})
			require.Len(t, done.results, 1)
			require.Equal(t, c.engine, done.results[0].Engine.Name)
			if c.o.SortBy == "" {
				require.Greater(t, len(done.results[0].Outputs), 1, "so that one is finished when the second form comes")
			}
			_, recs := inFileOrder(t, done.tbl, done.results[0].Outputs)
			forms := make(map[uint64]int)
			for _, rec := range recs {
				for _, v := range rec.Column(1).(*array.Float64).Values() {
					if math.IsNaN(v) {
						forms[math.Float64bits(v)]++
					}
				}
			}
			assert.Equal(t, map[uint64]int{math.Float64bits(math.NaN()): 500, math.Float64bits(negative): 300}, forms)
			onDisk, _ := e.files()
			assert.Len(t, onDisk, len(done.results[0].Outputs))
		})
	}
}
