package rewrite

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pagedRows is how many rows a paged file has.
const pagedRows = 12_000

func pagedSchema() *iceberg.Schema {
	p := iceberg.PrimitiveTypes

	return iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: p.Int64},
		iceberg.NestedField{ID: 2, Name: "word", Type: p.String},
		iceberg.NestedField{ID: 3, Name: "few", Type: p.String},
		iceberg.NestedField{ID: 4, Name: "d", Type: p.Float64},
		iceberg.NestedField{ID: 5, Name: "l", Type: &iceberg.ListType{ElementID: 6, Element: p.Int64}},
		iceberg.NestedField{ID: 7, Name: "st", Type: &iceberg.StructType{FieldList: []iceberg.NestedField{
			{ID: 8, Name: "x", Type: p.Int32}, {ID: 9, Name: "y", Type: iceberg.DecimalTypeOf(20, 2)}}}},
	)
}

// addPaged adds a file whose columns have many pages with different borders.
func (e *env) addPaged(from, n int, props ...parquet.WriterProperty) {
	e.t.Helper()
	tagged, err := table.SchemaToArrowSchemaWithOptions(e.load().Schema(), table.ArrowSchemaOptions{IncludeFieldIDs: true})
	require.NoError(e.t, err)
	var rows []string
	for i := from; i < from+n; i++ {
		list := []string{"null", "[]", fmt.Sprintf("[%d,null]", i), fmt.Sprintf("[%d,%d,%d,%d]", i, i+1, i*7, -i)}[i%4]
		st := fmt.Sprintf(`{"x":%d,"y":"%d.25"}`, i%1000, i*31)
		if i%6 == 0 {
			st = "null"
		}
		rows = append(rows, fmt.Sprintf(`{"id":%d,"word":"word %d of the file","few":"f%d","d":%d.5,"l":%s,"st":%s}`, i, (i*7919)%pagedRows, i%5, i%4000, list, st))
	}
	rec := array.NewRecordBatch(tagged, batchJSON(e.t, e.load(), rows...).Columns(), int64(n))
	var raw bytes.Buffer
	props = append([]parquet.WriterProperty{parquet.WithDataPageSize(8 << 10), parquet.WithBatchSize(100)}, props...)
	require.NoError(e.t, pqarrow.WriteTable(array.NewTableFromRecords(tagged, []arrow.RecordBatch{rec}), &raw, int64(n),
		parquet.NewWriterProperties(props...), pqarrow.NewArrowWriterProperties(pqarrow.WithAllocator(memory.DefaultAllocator))))
	e.addRaw(raw.Bytes(), int64(n))
}

// Rows and metrics are those of the general engine when only some pages of a
// column lose rows, those with its bounds or all of a page among them.
func TestPagesThatNoDeleteTouchesAreMoved(t *testing.T) {
	one, ends, many, spread := []int64{pagedRows / 2}, []int64{0, pagedRows - 1}, upTo(3000), []int64{5, 1023, 1024, 1025, 7000, 11_999}
	plain := parquet.WithDictionaryDefault(false)
	for name, c := range map[string]struct {
		props []parquet.WriterProperty
		gone  [][]int64
	}{
		"v1":           {[]parquet.WriterProperty{parquet.WithDataPageVersion(parquet.DataPageV1), plain}, [][]int64{one, ends}},
		"v2":           {[]parquet.WriterProperty{parquet.WithDataPageVersion(parquet.DataPageV2), plain}, [][]int64{many, spread}},
		"dictionaries": {[]parquet.WriterProperty{parquet.WithDataPageVersion(parquet.DataPageV2)}, [][]int64{ends, many}},
		"page index":   {[]parquet.WriterProperty{parquet.WithDataPageVersion(parquet.DataPageV1), parquet.WithPageIndexEnabled(true)}, [][]int64{spread}},
	} {
		for _, at := range c.gone {
			t.Run(fmt.Sprintf("%s-%d", name, len(at)), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, pagedSchema(), *iceberg.UnpartitionedSpec, nil)
				e.addPaged(0, pagedRows, c.props...)
				e.addPaged(pagedRows, 100, c.props...)
				data, _ := e.files()
				of := data[0]
				if of.Count() < pagedRows {
					of = data[1]
				}
				var deleted []position
				for _, pos := range at {
					deleted = append(deleted, position{of.FilePath(), pos})
				}
				e.deletePositions(of, deleted...)
				res := e.splicedLikeGeneral()
				assert.EqualValues(t, pagedRows+100-len(at), res.RowsOut)
				assert.Positive(t, res.Engine.Pages.Trimmed)
				assert.Less(t, res.Engine.Pages.Decoded, int64(7), "columns of the file that lost rows")
			})
		}
	}
}
