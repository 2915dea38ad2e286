package rewrite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/rewritetest"
	"compactor/pkg/rewrite/splice/column"
	"compactor/pkg/rewrite/splice/format"
)

// addRaw adds a finished Parquet file to the table.
func (e *env) addRaw(raw []byte, rows int64) {
	e.t.Helper()
	df := e.putRaw(raw, rows)
	e.commit(func(tx *table.Transaction) {
		require.NoError(e.t, tx.AddDataFiles(e.t.Context(), []iceberg.DataFile{df}, nil, table.WithoutAutoNameMapping()))
	})
}

// putRaw puts a finished Parquet file where the table's data is.
func (e *env) putRaw(raw []byte, rows int64) iceberg.DataFile {
	e.t.Helper()
	path := filepath.Join(e.dir, fmt.Sprintf("t/data/raw-%d.parquet", len(e.onDisk())))
	require.NoError(e.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(e.t, os.WriteFile(path, raw, 0o644))
	b, err := iceberg.NewDataFileBuilder(e.load().Spec(), iceberg.EntryContentData, "file://"+path, iceberg.ParquetFile,
		nil, nil, nil, rows, int64(len(raw)))
	require.NoError(e.t, err)

	return b.Build()
}

// rewriteWith rewrites the plan's groups with one engine and proves the result.
func rewriteWith(t *testing.T, tbl *table.Table, plan *Plan, o Options) []Result {
	t.Helper()
	r := New(o)
	results, err := r.Rewrite(t.Context(), tbl, plan.Groups)
	require.NoError(t, err)
	for _, res := range results {
		require.NoError(t, res.Err)
	}
	_, err = r.Prove(t.Context(), tbl, plan, results)
	require.NoError(t, err)

	return results
}

// inOrder hashes the rows of files in their order.
func inOrder(t *testing.T, tbl *table.Table, files []iceberg.DataFile) checksum {
	t.Helper()
	in := make([]File, 0, len(files))
	for _, df := range files {
		in = append(in, File{Data: df})
	}
	in, err := inspectAll(t.Context(), tbl, in, New(Options{}).inspectionMemory)
	require.NoError(t, err)
	sum := checksum{ordered: true}
	require.NoError(t, eachBatch(t.Context(), tbl, in, readOptions{batchRows: 1000, batchBytes: 8 << 20},
		func(rec arrow.RecordBatch) { sum.addBatch(rec) }))

	return sum
}

// sameMetrics compares what manifests say of two sets of outputs, but for sizes.
func sameMetrics(t *testing.T, want, got []iceberg.DataFile) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		assert.Equal(t, want[i].Count(), got[i].Count())
		assert.Equal(t, want[i].ValueCounts(), got[i].ValueCounts(), "value counts")
		assert.Equal(t, want[i].NullValueCounts(), got[i].NullValueCounts(), "null counts")
		for id, n := range got[i].NaNValueCounts() { // there may be less of them, but none that is wrong
			assert.Equal(t, want[i].NaNValueCounts()[id], n, "NaN count of %d", id)
		}
		assert.Equal(t, want[i].LowerBoundValues(), got[i].LowerBoundValues(), "lower bounds")
		assert.Equal(t, want[i].UpperBoundValues(), got[i].UpperBoundValues(), "upper bounds")
		assert.Equal(t, want[i].Partition(), got[i].Partition())
		assert.NotEmpty(t, got[i].SplitOffsets())
	}
}

func TestSplicedCorpusIsWhatTheGeneralEngineWrites(t *testing.T) {
	sc := rewritetest.CorpusSchema()
	for i, cell := range rewritetest.Covering() {
		t.Run(cell.String(), func(t *testing.T) {
			e := newEnv(t, sc, *iceberg.UnpartitionedSpec, nil)
			for n := range 3 {
				rec, err := rewritetest.CorpusBatch(e.load().Schema(), cell.Nulls, 30+40*n, uint64(10*i+n))
				require.NoError(t, err)
				raw, err := rewritetest.WriteCell(cell, rec)
				require.NoError(t, err)
				e.addRaw(raw, rec.NumRows())
			}
			spliced := e.splicedLikeGeneral()
			t.Logf("spliced: %+v", spliced.Engine.Pages)
			assert.EqualValues(t, 210, inOrder(t, e.load(), spliced.Outputs).rows)
		})
	}
}

// spliceable is a table of small files with a nested column, and its plan.
func spliceable(t *testing.T, props iceberg.Properties) (*env, *Plan) {
	t.Helper()
	e := newEnv(t, wideSchema(), *iceberg.UnpartitionedSpec, props)
	for i := range 6 {
		var rows []string
		for id := range 9 {
			rows = append(rows, wideRow(9*i+id))
		}
		e.appendBatch(withOddFloats(batchJSON(t, e.load(), rows...), i))
	}
	plan := e.plan(PlanOptions{})
	require.Len(t, plan.Groups, 1)

	return e, plan
}

func TestRuleOfAGroupThatIsNotSplicedIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		props  iceberg.Properties
		change func(e *env)
		opts   Options
		rule   string
	}{
		"hook": {opts: Options{BeforeWrite: func(rec arrow.RecordBatch) arrow.RecordBatch { return rec }}, rule: "batches are to be changed on the way"},
		"rows": {rule: "row group with more rows than the table allows", change: func(e *env) {
			e.commit(func(tx *table.Transaction) {
				require.NoError(e.t, tx.SetProperties(iceberg.Properties{"write.parquet.row-group-limit": "8"}))
			})
		}},
		"old spec": {rule: "files of an old partition spec", change: func(e *env) {
			e.commit(func(tx *table.Transaction) {
				require.NoError(e.t, tx.UpdateSpec(true).AddIdentity("bool").Commit())
			})
		}},
		"deletes": {rule: "equality deletes apply", change: func(e *env) { e.deleteEqual(1, `{"id":3}`) }},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := spliceable(t, c.props)
			if c.change != nil {
				c.change(e)
			}
			c.opts.Engine = EngineSplice
			out := e.sameRows(PlanOptions{}, c.opts)
			require.NotEmpty(t, out.results)
			assert.Equal(t, EngineGeneral, out.results[0].Engine.Name)
			assert.Equal(t, c.rule, out.results[0].Engine.Reason)
		})
	}
}

func TestSchemaChangesThatNeedNoDecodingAreSpliced(t *testing.T) {
	e, _ := spliceable(t, nil)
	e.commit(func(tx *table.Transaction) {
		u := tx.UpdateSchema(true, false)
		u.AddColumn([]string{"added"}, iceberg.PrimitiveTypes.String, "", false, nil)
		u.AddColumn([]string{"many"}, &iceberg.ListType{ElementID: 1, Element: iceberg.PrimitiveTypes.Int64}, "", false, nil)
		u.RenameColumn([]string{"bin"}, "raw")
		u.DeleteColumn([]string{"dec9"})
		require.NoError(t, u.Commit())
	})
	e.appendJSON(`{"id":1000,"added":"new","many":[1,null]}`)
	e.splicedLikeGeneral()
}

// swapPages exchanges the first two data pages of a column's chunk.
func swapPages(t *testing.T, name string, swapped *atomic.Int64) func([]string, *column.Built) {
	return func(path []string, chunk *column.Built) {
		if path[0] != name || len(chunk.Locations) < 2 || chunk.DictionarySize > 0 {
			return
		}
		var pages [][][]byte
		rest := chunk.Pieces
		for _, loc := range chunk.Locations {
			size, n := 0, 0
			for size < int(loc.Size) {
				size += len(rest[n])
				n++
			}
			assert.Equal(t, int(loc.Size), size)
			pages = append(pages, rest[:n])
			rest = rest[n:]
		}
		pages[0], pages[1] = pages[1], pages[0]
		chunk.Pieces = slices.Concat(pages...)
		swapped.Add(1)
	}
}

func TestSwappedPagesAreFoundByVerify(t *testing.T) {
	for name, sc := range map[string]*iceberg.Schema{
		"two columns": idAndText, "only column": iceberg.NewSchema(0, idAndText.Field(0)),
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, sc, *iceberg.UnpartitionedSpec, iceberg.Properties{"write.parquet.page-size-bytes": "8192"})
			for i := range 6 {
				tagged, err := table.SchemaToArrowSchemaWithOptions(sc, table.ArrowSchemaOptions{IncludeFieldIDs: true})
				require.NoError(t, err)
				var rows []string
				for n := range 5000 {
					rows = append(rows, fmt.Sprintf(`{"id":%d,"s":"%d"}`, (n*7919+i)%100003, i))
				}
				rec := array.NewRecordBatch(tagged, batchJSON(t, e.load(), rows...).Columns(), 5000)
				raw, err := rewritetest.WriteCell(rewritetest.Cell{Version: "v2", Encoding: "plain", Codec: "none"}, rec)
				require.NoError(t, err)
				e.addRaw(raw, 5000)
			}
			tbl, plan := e.load(), e.plan(PlanOptions{})
			var swapped atomic.Int64
			r := New(Options{BeforeChunk: swapPages(t, "id", &swapped), Engine: EngineSplice})
			results, err := r.Rewrite(t.Context(), tbl, plan.Groups)
			require.NoError(t, err)
			require.NoError(t, results[0].Err)
			require.Equal(t, EngineSplice, results[0].Engine.Name, results[0].Engine)
			_, err = r.Prove(t.Context(), tbl, plan, results)
			require.NoError(t, err, "every count is right")
			require.Positive(t, swapped.Load())
			require.ErrorIs(t, r.Verify(t.Context(), tbl, results), ErrIntegrity)
		})
	}
}

// Nulls of files that lack a column do not cost the others their dictionary.
func TestColumnsAddedLaterKeepTheirDictionary(t *testing.T) {
	for _, version := range []string{"1", "2"} {
		t.Run("v"+version, func(t *testing.T) {
			e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, iceberg.Properties{table.ParquetPageVersionKey: version})
			e.appendJSON(`{"id":1,"s":"a"}`, `{"id":2}`)
			e.commit(func(tx *table.Transaction) {
				u := tx.UpdateSchema(true, false)
				u.AddColumn([]string{"added"}, iceberg.PrimitiveTypes.String, "", false, nil)
				require.NoError(t, u.Commit())
			})
			var rows []string
			for i := range 400 {
				rows = append(rows, fmt.Sprintf(`{"id":%d,"s":"b","added":"one of the texts, number %d"}`, i, i%3))
			}
			for range 5 {
				e.appendJSON(rows...)
			}
			spliced := e.splicedLikeGeneral()
			pf, err := file.OpenParquetFile(strings.TrimPrefix(spliced.Outputs[0].FilePath(), "file://"), false)
			require.NoError(t, err)
			defer func() { require.NoError(t, pf.Close()) }()
			pages, err := pf.RowGroup(0).GetColumnPageReader(2)
			require.NoError(t, err)
			n := 0
			for pages.Next() {
				if p, ok := pages.Page().(file.DataPage); ok {
					n++
					assert.Equal(t, format.RLEDictionary, format.Encoding(p.Encoding()))
				}
			}
			require.NoError(t, pages.Err())
			assert.NotZero(t, n)
		})
	}
}
