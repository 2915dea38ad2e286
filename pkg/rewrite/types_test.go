package rewrite

import (
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func wideSchema() *iceberg.Schema {
	p := iceberg.PrimitiveTypes
	field := func(id int, name string, typ iceberg.Type) iceberg.NestedField {
		return iceberg.NestedField{ID: id, Name: name, Type: typ}
	}

	return iceberg.NewSchema(0,
		field(1, "id", p.Int64), field(2, "bool", p.Bool), field(3, "@ts", p.Int32), field(4, "käse 🧀", p.String),
		field(5, "f", p.Float32), field(6, "9x-y z", p.Float64), field(7, "dec9", iceberg.DecimalTypeOf(9, 2)),
		field(8, "dec18", iceberg.DecimalTypeOf(18, 4)), field(9, "dec38", iceberg.DecimalTypeOf(38, 10)),
		field(10, "day", p.Date), field(11, "ts", p.Timestamp), field(12, "tz", p.TimestampTz), field(13, "tm", p.Time),
		field(14, "u", p.UUID), field(15, "fix", iceberg.FixedTypeOf(4)), field(16, "bin", p.Binary),
		field(17, "a.b", p.Int64), field(18, "a", &iceberg.StructType{FieldList: []iceberg.NestedField{
			field(19, "c", p.Int64), field(20, "deep", &iceberg.ListType{ElementID: 21, Element: p.String})}}),
		field(22, "A", &iceberg.MapType{KeyID: 23, KeyType: p.String, ValueID: 24, ValueType: p.Float64}),
	)
}

var oddFloats = []float64{math.NaN(), math.Copysign(0, -1), math.Inf(1), math.Inf(-1), 0, 1.5}

func wideRow(id int) string {
	if id%5 == 4 {
		return fmt.Sprintf(`{"id":%d}`, id)
	}

	return fmt.Sprintf(`{"id":%d,"bool":%t,"@ts":%d,"käse 🧀":"ü%d","dec9":"-%d.25","dec18":"%d.0001","dec38":"-12345678901234567890%d.5",
		"day":"19%02d-01-02","ts":"1969-12-31 23:59:%02d.000001","tz":"1901-01-01 00:00:%02dZ","tm":"23:59:%02d",
		"u":"00000000-0000-4000-8000-0000000000%02d","fix":"AAEC/w==","bin":"/wA=","a.b":%d,"a":{"c":null,"deep":["x",null,"%d"]},
		"A":[{"key":"k","value":%d.5},{"key":"n","value":null}]}`,
		id, id%2 == 0, -id, id, id, id, id, id%60, id%60, id%60, id%60, id%90, id, id, id)
}

// withOddFloats replaces the two float columns, for which JSON has no words.
func withOddFloats(rec arrow.RecordBatch, shift int) arrow.RecordBatch {
	f32, f64 := array.NewFloat32Builder(memory.DefaultAllocator), array.NewFloat64Builder(memory.DefaultAllocator)
	for i := range int(rec.NumRows()) {
		if (i+shift)%7 == 6 {
			f32.AppendNull()
			f64.AppendNull()

			continue
		}
		f32.Append(float32(oddFloats[(i+shift)%6]))
		f64.Append(oddFloats[(i+shift+1)%6])
	}
	cols := append([]arrow.Array(nil), rec.Columns()...)
	cols[4], cols[5] = f32.NewArray(), f64.NewArray()

	return array.NewRecordBatch(rec.Schema(), cols, rec.NumRows())
}

func TestCase_C18_EveryTypeAndNameSurvivesWithValidBounds(t *testing.T) {
	for _, version := range []string{"1", "2", "3"} {
		t.Run("v"+version, func(t *testing.T) {
			e := newEnv(t, wideSchema(), *iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": version})
			for i := range 6 {
				var rows []string
				for id := range 7 {
					rows = append(rows, wideRow(7*i+id))
				}
				e.appendBatch(withOddFloats(batchJSON(t, e.load(), rows...), i))
			}
			e.commit(func(tx *table.Transaction) {
				u := tx.UpdateSchema(true, false)
				u.AddColumn([]string{"added"}, iceberg.PrimitiveTypes.String, "", false, nil)
				u.RenameColumn([]string{"bin"}, "raw")
				u.UpdateColumn([]string{"@ts"}, table.ColumnUpdate{FieldType: iceberg.Optional[iceberg.Type]{Val: iceberg.PrimitiveTypes.Int64, Valid: true}})
				u.DeleteColumn([]string{"dec9"})
				require.NoError(t, u.Commit())
			})
			e.appendJSON(`{"id":1000,"added":"new","@ts":9000000000}`)
			out := e.sameRows(PlanOptions{}, Options{})
			require.Len(t, out.results, 1)
			checkBounds(t, e.load().Schema(), out.results[0].Outputs)
			exactMetrics(t, e.load(), out.results[0].Outputs)
		})
	}
}

func checkBounds(t *testing.T, sc *iceberg.Schema, outputs []iceberg.DataFile) {
	t.Helper()
	checked := 0
	for _, df := range outputs {
		for id, low := range df.LowerBoundValues() {
			typ, ok := sc.FindTypeByID(id)
			if !ok {
				assert.Greater(t, id, 2147483000, "only the reserved row id columns are not in the schema")

				continue
			}
			lo, err := iceberg.LiteralFromBytes(typ, low)
			require.NoError(t, err)
			hi, err := iceberg.LiteralFromBytes(typ, df.UpperBoundValues()[id])
			require.NoError(t, err)
			switch lo := lo.(type) {
			case iceberg.Float64Literal:
				assert.LessOrEqual(t, float64(lo), float64(hi.(iceberg.Float64Literal)), "field %d", id)
			case iceberg.Float32Literal:
				assert.LessOrEqual(t, float32(lo), float32(hi.(iceberg.Float32Literal)), "field %d", id)
			case iceberg.Int64Literal:
				assert.LessOrEqual(t, int64(lo), int64(hi.(iceberg.Int64Literal)), "field %d", id)
			case iceberg.StringLiteral:
				assert.LessOrEqual(t, string(lo), string(hi.(iceberg.StringLiteral)), "field %d", id)
			}
			checked++
		}
	}
	assert.Greater(t, checked, 10)
}

func TestOutputsGoToTheDataPath(t *testing.T) {
	partitioned := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1000, Name: "s", Transform: iceberg.IdentityTransform{}})
	for name, spec := range map[string]iceberg.PartitionSpec{"unpartitioned": *iceberg.UnpartitionedSpec, "partitioned": partitioned} {
		for _, hashed := range []string{"false", "true"} {
			t.Run(name+" object storage "+hashed, func(t *testing.T) {
				e := newEnv(t, idAndText, spec, iceberg.Properties{"write.object-storage.enabled": hashed})
				elsewhere := "file://" + filepath.Join(t.TempDir(), "other place")
				elsewhere = strings.ReplaceAll(elsewhere, " ", "-")
				e.commit(func(tx *table.Transaction) {
					require.NoError(t, tx.SetProperties(iceberg.Properties{"write.data.path": elsewhere}))
				})
				for i := range 6 {
					e.appendJSON(fmt.Sprintf(`{"id":%d,"s":"a/b c"}`, i))
				}
				out := e.sameRows(PlanOptions{}, Options{})
				for _, res := range out.results {
					for _, df := range res.Outputs {
						path, err := url.PathUnescape(df.FilePath())
						require.NoError(t, err)
						assert.True(t, strings.HasPrefix(path, elsewhere+"/"), path)
					}
				}
				assert.Equal(t, elsewhere, out.tbl.Properties()["write.data.path"])
				assert.NotContains(t, out.tbl.Properties(), "write.parquet.compression-level")
				assert.Equal(t, e.load().Location(), out.tbl.Location())
			})
		}
	}
}
