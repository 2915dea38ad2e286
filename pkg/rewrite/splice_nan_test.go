package rewrite

import (
	"bytes"
	"fmt"
	"maps"
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

// nanFile is a file of nanColumns whose manifest entry has counts of NaNs.
type nanFile struct {
	from, rows int
	group      int64         // rows of a row group, 0 for all
	without    []int         // columns whose counts are missing in the manifest
	claims     map[int]int64 // other counts than the true ones
	dictionary bool
	pages      int64 // bytes of a page, 0 for as many as the library wants
}

// addNaNs adds a file to the table. Its pages are large enough to be moved, unless
// they are of indices.
func (e *env) addNaNs(f nanFile) {
	e.t.Helper()
	tagged, err := table.SchemaToArrowSchemaWithOptions(e.load().Schema(), table.ArrowSchemaOptions{IncludeFieldIDs: true})
	require.NoError(e.t, err)
	b := array.NewRecordBuilder(memory.DefaultAllocator, tagged)
	defer b.Release()
	fillNaNs(b, f.from, f.rows)
	rec := b.NewRecordBatch()
	counts := make(nanCounter)
	counts.add(e.load().Schema(), rec)
	for _, id := range f.without {
		delete(counts, id)
	}
	maps.Copy(counts, f.claims)
	if f.group == 0 {
		f.group = int64(f.rows)
	}
	var raw bytes.Buffer
	of := []parquet.WriterProperty{parquet.WithDictionaryDefault(f.dictionary)}
	if f.pages > 0 {
		of = append(of, parquet.WithDataPageSize(f.pages), parquet.WithBatchSize(100))
	}
	props := parquet.NewWriterProperties(of...)
	require.NoError(e.t, pqarrow.WriteTable(array.NewTableFromRecords(tagged, []arrow.RecordBatch{rec}), &raw, f.group, props, pqarrow.DefaultWriterProps()))
	known := e.putRaw(raw.Bytes(), rec.NumRows())
	again, err := iceberg.NewDataFileBuilder(e.load().Spec(), iceberg.EntryContentData, known.FilePath(), iceberg.ParquetFile,
		nil, nil, nil, known.Count(), known.FileSizeBytes())
	require.NoError(e.t, err)
	e.commit(func(tx *table.Transaction) {
		df := again.NaNValueCounts(counts).Build()
		require.NoError(e.t, tx.AddDataFiles(e.t.Context(), []iceberg.DataFile{df}, nil, table.WithoutAutoNameMapping()))
	})
}

// nansOfBoth rewrites the table with both engines. Counts that are missing after
// splicing are named.
func (e *env) nansOfBoth(missing ...int) Result {
	e.t.Helper()
	res := e.splicedLikeGeneral()
	want := trueNaNs(e.t, e.load(), res.Outputs)
	for _, id := range missing {
		delete(want, id)
	}
	assert.Equal(e.t, want, res.Outputs[0].NaNValueCounts())

	return res
}

func TestNaNCountsOfMovedPagesComeFromManifests(t *testing.T) {
	for name, c := range map[string]struct {
		files   []nanFile
		gone    []int64 // of the second file
		missing []int
	}{
		"all known":                {files: []nanFile{{}, {}}},
		"one lacks two":            {files: []nanFile{{}, {without: []int{2, 8}}}, missing: []int{2, 8}},
		"row groups":               {files: []nanFile{{}, {group: 3000}}},
		"deletes":                  {files: []nanFile{{}, {}}, gone: []int64{0, 1, 2, 12, 5999}},
		"deletes, row groups":      {files: []nanFile{{}, {group: 3000}}, gone: []int64{12, 13}},
		"deletes, nothing known":   {files: []nanFile{{}, {without: []int{2, 3, 5, 8}}}, gone: []int64{12, 13}},
		"deletes, partly known":    {files: []nanFile{{}, {group: 3000, without: []int{2, 3}}}, gone: []int64{12}, missing: []int{2}},
		"deletes in few pages":     {files: []nanFile{{}, {rows: 12_000, pages: 20 << 10}}, gone: []int64{1, 2, 9000}},
		"few pages, not known":     {files: []nanFile{{}, {rows: 12_000, pages: 20 << 10, without: []int{2, 8}}}, gone: []int64{2}, missing: []int{2, 8}},
		"a whole row group":        {files: []nanFile{{}, {group: 3000}}, gone: upTo(3000), missing: []int{2, 5}},
		"more than there are":      {files: []nanFile{{}, {claims: map[int]int64{2: 6001, 3: -1}}}, missing: []int{2, 3}},
		"more than there can be":   {files: []nanFile{{}, {claims: map[int]int64{3: 6000}}}, missing: []int{3}},
		"less than were deleted":   {files: []nanFile{{}, {group: 3000, claims: map[int]int64{2: 1}}}, gone: []int64{2, 5, 8}, missing: []int{2}},
		"indices need no manifest": {files: []nanFile{{dictionary: true, without: []int{2, 8}}, {dictionary: true, without: []int{2}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, nanColumns(), *iceberg.UnpartitionedSpec, nil)
			for i, f := range c.files {
				if f.from = 1000 * i; f.rows == 0 {
					f.rows = 6000
				}
				e.addNaNs(f)
			}
			if len(c.gone) > 0 {
				data, _ := e.files()
				of := data[0]
				for _, df := range data {
					if df.FilePath() > of.FilePath() {
						of = df
					}
				}
				var at []position
				for _, pos := range c.gone {
					at = append(at, position{of.FilePath(), pos})
				}
				e.deletePositions(of, at...)
			}
			e.nansOfBoth(c.missing...)
		})
	}
}

// Pages that are put together have their values at hand.
func TestNaNsOfSmallPagesAreCountedInPassing(t *testing.T) {
	e := newEnv(t, nanColumns(), *iceberg.UnpartitionedSpec, nil)
	for i := range 3 {
		e.appendNaNs(100*i, 60)
	}
	for _, df := range first(e.files()) {
		require.Empty(t, df.NaNValueCounts())
	}
	assert.Positive(t, e.nansOfBoth().Engine.Pages.Coalesced)
}

// upTo are the positions below n.
func upTo(n int64) (out []int64) {
	for pos := range n {
		out = append(out, pos)
	}

	return out
}

func first[T, U any](a T, _ U) T { return a }

func TestNaNsOfChangedColumnsAreCounted(t *testing.T) {
	e := newEnv(t, nanColumns(), *iceberg.UnpartitionedSpec, nil)
	for i := range 2 {
		e.addNaNs(nanFile{from: 100 * i, rows: 6000})
	}
	e.change(widen("f", iceberg.PrimitiveTypes.Float64))
	e.change(func(u *table.UpdateSchema) {
		u.AddColumn([]string{"late"}, iceberg.PrimitiveTypes.Float32, "", false, nil)
		u.AddColumn([]string{"st", "late"}, iceberg.PrimitiveTypes.Float64, "", false, nil)
	})
	tbl, plan := e.load(), e.plan(PlanOptions{MinInputFiles: 2})
	general := rewriteWith(t, tbl, plan, Options{Engine: EngineGeneral})[0]
	spliced := e.splicedLikeGeneral()
	want := general.Outputs[0].NaNValueCounts()
	assert.Len(t, want, 6, "two that are new and have none")
	assert.Positive(t, want[3])
	assert.Equal(t, want, spliced.Outputs[0].NaNValueCounts())
}

// A file whose row groups are in two outputs has its count in neither, unless it
// has no NaN.
func TestNaNsOfAFileInTwoOutputsAreNotKnown(t *testing.T) {
	e := newEnv(t, nanColumns(), *iceberg.UnpartitionedSpec, nil)
	e.addNaNs(nanFile{rows: 36000, group: 6000})
	tbl := e.load()
	plan := e.plan(PlanOptions{RewriteAll: true, TargetFileSize: 700 << 10})
	spliced := rewriteWith(t, tbl, plan, Options{Engine: EngineSplice, Verify: true})[0]
	require.Equal(t, EngineSplice, spliced.Engine.Name, fmt.Sprint(spliced.Engine))
	require.Greater(t, len(spliced.Outputs), 1)
	for _, df := range spliced.Outputs {
		assert.Equal(t, map[int]int64{8: 0}, df.NaNValueCounts())
	}
}
