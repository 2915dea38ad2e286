package rewrite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// defaults are columns with a default of each type that may have one.
func defaults() map[string]iceberg.NestedField {
	p := iceberg.PrimitiveTypes

	return map[string]iceberg.NestedField{
		"boolean":        {Type: p.Bool, InitialDefault: true},
		"int":            {Type: p.Int32, InitialDefault: int32(-7)},
		"long":           {Type: p.Int64, InitialDefault: int64(9007199254740993)},
		"float":          {Type: p.Float32, InitialDefault: float32(-0.5)},
		"double":         {Type: p.Float64, InitialDefault: 0.1},
		"decimal":        {Type: iceberg.DecimalTypeOf(18, 2), InitialDefault: "-1.25"},
		"date":           {Type: p.Date, InitialDefault: iceberg.Date(-1)},
		"time":           {Type: p.Time, InitialDefault: iceberg.Time(86399999999)},
		"timestamp":      {Type: p.Timestamp, InitialDefault: iceberg.Timestamp(-1)},
		"timestamptz":    {Type: p.TimestampTz, InitialDefault: iceberg.Timestamp(1)},
		"timestamp_ns":   {Type: p.TimestampNs, InitialDefault: iceberg.TimestampNano(-1)},
		"timestamptz_ns": {Type: p.TimestampTzNs, InitialDefault: iceberg.TimestampNano(1)},
		"string":         {Type: p.String, InitialDefault: "käse"},
		"uuid":           {Type: p.UUID, InitialDefault: uuid.MustParse("00000000-0000-4000-8000-000000000001")},
		"binary":         {Type: p.Binary, InitialDefault: []byte{0, 255}},
		"fixed":          {Type: iceberg.FixedTypeOf(2), InitialDefault: []byte{1, 2}},
	}
}

// addDefault adds a column with an initial default.
func (e *env) addDefault(typ iceberg.Type, value iceberg.Literal, required bool) {
	e.t.Helper()
	e.commit(func(tx *table.Transaction) {
		u := tx.UpdateSchema(true, true)
		u.AddColumn([]string{"x"}, typ, "", required, value)
		require.NoError(e.t, u.Commit())
	})
}

func TestRowsWithoutAColumnGetItsInitialDefault(t *testing.T) {
	for name, field := range defaults() {
		for _, required := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " required ", required), func(t *testing.T) {
				field.ID, field.Name, field.Required = 3, "x", required
				e := newEnv(t, iceberg.NewSchema(0, append(idAndText.Fields(), field)...), *iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": "3"})
				for range 2 {
					e.addFile(foreignFile{fields: []arrow.Field{stored(1, "id", arrow.PrimitiveTypes.Int64)}, rows: []string{`{"id":1}`, `{"id":2}`}})
				}
				require.NotContains(t, e.rows()[0], "x=(null)")
				out := e.sameRows(PlanOptions{MinInputFiles: 2}, Options{})
				require.Len(t, out.results, 1)
				exactMetrics(t, e.load(), out.results[0].Outputs)
				storage, err := e.load().FS(t.Context())
				require.NoError(t, err)
				footer, err := footerOf(storage, out.results[0].Outputs[0].FilePath())
				require.NoError(t, err)
				assert.GreaterOrEqual(t, footer.Schema.ColumnIndexByName("x"), 0, "the default is stored now")
			})
		}
	}
}

func TestLaterDefaultsDoNotReachOlderRows(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": "3"})
	e.appendSeries(0, 2)
	e.addDefault(iceberg.PrimitiveTypes.Int64, iceberg.NewLiteral(int64(7)), false)
	e.appendJSON(`{"id":10,"s":"a","x":null}`, `{"id":11,"s":"a","x":8}`)
	e.commit(func(tx *table.Transaction) {
		u := tx.UpdateSchema(true, true)
		u.UpdateColumn([]string{"x"}, table.ColumnUpdate{WriteDefault: iceberg.Optional[iceberg.Literal]{Val: iceberg.NewLiteral(int64(9)), Valid: true}})
		require.NoError(t, u.Commit())
	})
	e.sameRows(PlanOptions{MinInputFiles: 2}, Options{})
	rows := strings.Join(e.rows(), "\n")
	for _, want := range []string{"id=0/false s=41055/false x=7/false", "id=10/false s=a/false x=(null)/true", "id=11/false s=a/false x=8/false"} {
		assert.Contains(t, rows, want)
	}
}

func TestFilesOfVersion2GetDefaultsToo(t *testing.T) {
	for _, engine := range []string{EngineGeneral, EngineSplice} {
		t.Run(engine, func(t *testing.T) {
			e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
			for i := range 3 {
				e.appendSeries(3*i, 3)
			}
			e.commit(func(tx *table.Transaction) { require.NoError(t, tx.UpgradeFormatVersion(3)) })
			e.addDefault(iceberg.PrimitiveTypes.String, iceberg.NewLiteral("default"), true)
			require.Contains(t, e.rows()[0], "x=default")
			out := e.sameRows(PlanOptions{MinInputFiles: 2}, Options{Engine: engine})
			require.Len(t, out.results, 1)
			assert.False(t, out.plan.Groups[0].lineage)
		})
	}
}

func TestEqualityDeletesOnColumnsAddedLater(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": "3"})
	for i := range 3 {
		e.appendSeries(3*i, 3)
	}
	e.addDefault(iceberg.PrimitiveTypes.Int64, iceberg.NewLiteral(int64(7)), false)
	for i := range 3 {
		e.appendJSON(fmt.Sprintf(`{"id":%d,"s":"a","x":null}`, 10+i), `{"id":100,"s":"a","x":8}`)
	}
	e.deleteRows([]int{1, 3}, `{"id":2,"x":7}`, `{"id":4,"x":null}`, `{"id":10,"x":null}`)
	plan := e.plan(PlanOptions{MinInputFiles: 2})
	require.NoError(t, plan.Inspect(t.Context(), e.load()))
	require.NotEmpty(t, plan.Refused)
	assert.Contains(t, plan.Refused[0].Reason, "compare the column with id 3, which it does not have")
}

func TestEqualityDeletesOnColumnsDroppedSince(t *testing.T) {
	for _, version := range []string{"2", "3"} {
		t.Run("v"+version, func(t *testing.T) {
			e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": version})
			e.appendJSON(`{"id":1,"s":"a"}`, `{"id":2,"s":"b"}`)
			e.appendJSON(`{"id":3,"s":"a"}`, `{"id":4,"s":null}`)
			e.deleteEqual(2, `{"s":"a"}`, `{"s":null}`)
			e.appendJSON(`{"id":5,"s":"a"}`)
			e.commit(func(tx *table.Transaction) {
				u := tx.UpdateSchema(true, true)
				u.DeleteColumn([]string{"s"})
				require.NoError(t, u.Commit())
			})
			require.Equal(t, []string{"id=2/false", "id=5/false"}, e.rows())
			out := e.sameRows(PlanOptions{MinInputFiles: 2}, Options{})
			assert.EqualValues(t, 3, out.proof.RowsDeleted)
			_, deletes := e.files()
			assert.Empty(t, deletes)
		})
	}
}
