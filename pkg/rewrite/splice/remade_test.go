package splice

import (
	"bytes"
	"strings"
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

	"compactor/pkg/rewrite/splice/layout"
)

// lineageFile has rows of which some say their id and sequence number.
func lineageFile(t *testing.T, sc *iceberg.Schema) []byte {
	t.Helper()
	as, err := table.SchemaToArrowSchemaWithOptions(sc, table.ArrowSchemaOptions{IncludeFieldIDs: true})
	require.NoError(t, err)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, as, strings.NewReader(`[
		{"id":1,"_row_id":7,"_last_updated_sequence_number":2}, {"id":2}, {"id":3,"_row_id":8}, {"id":4,"_last_updated_sequence_number":3},
		{"id":5,"_row_id":9,"_last_updated_sequence_number":4}]`))
	require.NoError(t, err)
	var out bytes.Buffer
	tbl := array.NewTableFromRecords(as, []arrow.RecordBatch{rec})
	require.NoError(t, pqarrow.WriteTable(tbl, &out, 3, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps()))

	return out.Bytes()
}

func TestRowsThatDoNotSayTheirIdInheritIt(t *testing.T) {
	sc := iceberg.SchemaWithRowLineage(iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64}))
	first := int64(100)
	for name, c := range map[string]struct {
		lineage Lineage
		gone    int64
		want    string
	}{
		"all": {Lineage{&first, 50}, -1, `[{"id":1,"row":7,"seq":2},{"id":2,"row":101,"seq":50},{"id":3,"row":8,"seq":50},` +
			`{"id":4,"row":103,"seq":3},{"id":5,"row":9,"seq":4}]`},
		"without the second": {Lineage{&first, 50}, 1, `[{"id":1,"row":7,"seq":2},{"id":3,"row":8,"seq":50},` +
			`{"id":4,"row":103,"seq":3},{"id":5,"row":9,"seq":4}]`},
		"no first id": {Lineage{nil, 50}, -1, `[{"id":1,"row":7,"seq":2},{"id":2,"row":null,"seq":50},{"id":3,"row":8,"seq":50},` +
			`{"id":4,"row":null,"seq":3},{"id":5,"row":9,"seq":4}]`},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := OpenBytes(lineageFile(t, sc), &layout.Finder{Schema: sc})
			require.NoError(t, err)
			var units []Unit
			for _, u := range f.Units() {
				u, err = u.WithLineage(c.lineage).Without(func(pos int64) bool { return pos == c.gone }).Load()
				require.NoError(t, err)
				units = append(units, u)
			}
			require.Len(t, units, 2)
			var out bytes.Buffer
			w, err := NewWriter(&out, f.Layout, Options{Column: columnOptions()})
			require.NoError(t, err)
			require.NoError(t, w.RowGroup(t.Context(), units))
			_, err = w.Close()
			require.NoError(t, err)
			got := read(t, out.Bytes())
			rows := make([]arrow.Array, 3)
			for i := range rows {
				rows[i] = got.Column(i).Data().Chunk(0)
			}
			short := arrow.NewSchema([]arrow.Field{
				{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "row", Type: arrow.PrimitiveTypes.Int64}, {Name: "seq", Type: arrow.PrimitiveTypes.Int64},
			}, nil)
			text, err := array.NewRecordBatch(short, rows, got.NumRows()).MarshalJSON()
			require.NoError(t, err)
			assert.JSONEq(t, c.want, string(text))
		})
	}
}
