package rewrite

import (
	"slices"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/rewritetest"
)

// prefixedSchema has columns of values of a fixed length, flat and nested.
func prefixedSchema() *iceberg.Schema {
	long := iceberg.DecimalTypeOf(38, 10)

	return iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "long", Type: long},
		iceberg.NestedField{ID: 3, Name: "list", Type: &iceberg.ListType{ElementID: 6, Element: iceberg.PrimitiveTypes.UUID}},
		iceberg.NestedField{ID: 4, Name: "map", Type: &iceberg.MapType{KeyID: 7, KeyType: iceberg.PrimitiveTypes.String, ValueID: 8, ValueType: long}},
		iceberg.NestedField{ID: 5, Name: "five", Type: iceberg.FixedTypeOf(5)})
}

// prefixed is a table of two files with DELTA_BYTE_ARRAY of values of a fixed length.
func prefixed(t *testing.T, cell rewritetest.Cell, props iceberg.Properties) *env {
	t.Helper()
	e := newEnv(t, prefixedSchema(), *iceberg.UnpartitionedSpec, props)
	for n := range 2 {
		rec, err := rewritetest.CorpusBatch(e.load().Schema(), cell.Nulls, 60, uint64(n))
		require.NoError(t, err)
		raw, err := rewritetest.WriteCell(rewritetest.Cell{Version: "v1", Encoding: "plain", Codec: "none"}, rec)
		require.NoError(t, err)
		e.addRaw(rewrittenByParquetGo(t, cell, raw), rec.NumRows())
		plain := e.putRaw(raw, rec.NumRows())
		written, _ := e.files()
		assert.Equal(t, orderedRows(t, e.load(), []iceberg.DataFile{plain}, false), orderedRows(t, e.load(), written[:1], false))
	}

	return e
}

// The Parquet library ends the process over this encoding, which parquet-mr's
// version 2 writer has for long decimals.
func TestValuesOfAFixedLengthInDeltasAreRead(t *testing.T) {
	for _, version := range []string{"v1", "v2"} {
		for _, codec := range []string{"zstd", "none"} {
			for _, nulls := range []string{"none", "some", "all"} {
				cell := rewritetest.Cell{Version: version, Encoding: "prefixed", Codec: codec, Nulls: nulls}
				t.Run(cell.String(), func(t *testing.T) {
					t.Parallel()
					e := prefixed(t, cell, nil)
					tbl, plan := e.load(), e.plan(PlanOptions{MinInputFiles: 2})
					want := orderedRows(t, tbl, []iceberg.DataFile{plan.Groups[0].Files[0].Data, plan.Groups[0].Files[1].Data}, false)
					require.Len(t, want, 120)
					general := rewriteWith(t, tbl, plan, Options{Engine: EngineGeneral, Verify: true})[0]
					assert.Equal(t, want, orderedRows(t, tbl, general.Outputs, false))
				})
			}
		}
	}
}

func TestGroupsWhoseDeltasWouldHaveToBeDecodedAreLeftToTheGeneralEngine(t *testing.T) {
	const rule = "values to be decoded are in an encoding that is only moved"
	cell := rewritetest.Cell{Version: "v2", Encoding: "prefixed", Codec: "zstd", Nulls: "some"}
	t.Run("deletes", func(t *testing.T) {
		e := prefixed(t, cell, nil)
		files, _ := e.files()
		want := orderedRows(t, e.load(), files[:1], false)
		e.deletePositions(files[0], position{files[0].FilePath(), 3}, position{files[0].FilePath(), 59})
		want = slices.Concat(want[:3], want[4:59])
		tbl, plan := e.load(), e.plan(PlanOptions{MinInputFiles: 2})
		spliced := rewriteWith(t, tbl, plan, Options{Engine: EngineSplice, Verify: true})[0]
		assert.Equal(t, rule, spliced.Engine.Reason)
		require.Len(t, spliced.Outputs, 1)
		got := orderedRows(t, tbl, spliced.Outputs, false)
		require.Len(t, got, 118)
		for _, row := range want {
			assert.Contains(t, got, row)
		}
	})
	t.Run("Bloom filter", func(t *testing.T) {
		e := prefixed(t, cell, iceberg.Properties{table.ParquetBloomFilterColumnEnabledKeyPrefix + ".long": "true"})
		spliced := rewriteWith(t, e.load(), e.plan(PlanOptions{MinInputFiles: 2}), Options{Engine: EngineSplice, Verify: true})[0]
		assert.Equal(t, rule, spliced.Engine.Reason)
	})
}

// Equality deletes are read by iceberg-go alone.
func TestEqualityDeletesInDeltasAreNotRead(t *testing.T) {
	e := newEnv(t, iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "x", Type: iceberg.DecimalTypeOf(38, 10)}), *iceberg.UnpartitionedSpec, nil)
	rec, err := rewritetest.CorpusBatch(e.load().Schema(), "none", 5, 1)
	require.NoError(t, err)
	raw, err := rewritetest.WriteCell(rewritetest.Cell{Version: "v1", Encoding: "plain", Codec: "none"}, rec)
	require.NoError(t, err)
	for range 6 {
		e.addRaw(raw, 5)
	}
	deletes := e.putRaw(rewrittenByParquetGo(t, rewritetest.Cell{Version: "v2", Encoding: "prefixed", Codec: "none"}, raw), 5)
	b, err := iceberg.NewDataFileBuilder(e.load().Spec(), iceberg.EntryContentEqDeletes, deletes.FilePath(), iceberg.ParquetFile, nil, nil, nil, 5, deletes.FileSizeBytes())
	require.NoError(t, err)
	b.EqualityFieldIDs([]int{1})
	e.commit(func(tx *table.Transaction) {
		require.NoError(t, tx.NewRowDelta(nil).AddDeletes(b.Build()).Commit(t.Context()))
	})
	e.refusedFiles("compare the column with id 1, which they store as")
}
