package rewrite

import (
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPositionDeletesAreCountedOnceAndOnlyWhereTheyApply(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	for i := range 6 {
		e.appendSeries(10*i, 10)
	}
	data, _ := e.files()
	// Twice the same row, a row the file does not have, a file the table does not have.
	e.deletePositions(data[0], position{data[0].FilePath(), 3}, position{data[0].FilePath(), 4}, position{data[1].FilePath(), 9})
	e.deletePositions(data[0], position{data[0].FilePath(), 3}, position{data[2].FilePath(), 10}, position{"file:///gone.parquet", 0})
	require.Len(t, e.rows(), 57)
	out := e.sameRows(PlanOptions{}, Options{})
	assert.EqualValues(t, 3, out.proof.RowsDeleted)
	assert.True(t, out.results[0].IndependentlyProven)
	assert.Len(t, out.proof.DeadDeletes, 2)
	_, deletes := e.files()
	assert.Empty(t, deletes)
}

func TestDeletesAfterAFileWasWrittenDoNotReachLaterFiles(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	for i := range 3 {
		e.appendSeries(i, 1)
	}
	e.deleteEqual(1, `{"id":0}`, `{"id":1}`, `{"id":7}`)
	e.appendSeries(0, 2) // ids 0 and 1 are back, on purpose
	e.deleteEqual(1, `{"id":1}`)
	e.appendSeries(1, 1)
	require.Len(t, e.rows(), 3)
	out := e.sameRows(PlanOptions{}, Options{})
	assert.EqualValues(t, 3, out.proof.RowsDeleted)
	assert.False(t, out.results[0].IndependentlyProven)
	data, deletes := e.files()
	assert.Len(t, data, 1)
	assert.Empty(t, deletes)
}

func TestEqualityDeleteStaysWhileAnOlderFileStays(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	e.appendSeries(0, 3000)
	for i := range 5 {
		e.appendSeries(3000+i, 1)
	}
	e.deleteEqual(1, `{"id":7}`, `{"id":3001}`)
	big, _ := e.files()
	slices.SortFunc(big, func(a, b iceberg.DataFile) int { return int(b.Count() - a.Count()) })
	out := e.sameRows(PlanOptions{TargetFileSize: big[0].FileSizeBytes()}, Options{})
	require.Len(t, out.results, 1)
	assert.Len(t, out.results[0].Group.Files, 5)
	assert.Empty(t, out.proof.DeadDeletes)
	_, deletes := e.files()
	assert.Len(t, deletes, 1)
	out = e.sameRows(PlanOptions{RewriteAll: true}, Options{})
	assert.Len(t, out.proof.DeadDeletes, 1)
}

func TestAllKindsOfDeletesTogether(t *testing.T) {
	for _, version := range []string{"2", "3"} {
		t.Run("v"+version, func(t *testing.T) {
			spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1000, Name: "s", Transform: iceberg.IdentityTransform{}})
			e := newEnv(t, idAndText, spec, iceberg.Properties{"format-version": version})
			for i := range 6 {
				e.appendJSON(fmt.Sprintf(`{"id":%d,"s":"a"}`, 4*i), fmt.Sprintf(`{"id":%d,"s":"b"}`, 4*i+1),
					fmt.Sprintf(`{"id":%d,"s":"a"}`, 4*i+2), fmt.Sprintf(`{"id":%d,"s":null}`, 4*i+3))
			}
			data, _ := e.files()
			if version == "2" {
				e.deletePositions(data[0], position{data[0].FilePath(), 0})
			} else {
				e.deleteVector(position{data[0].FilePath(), 0}, position{data[4].FilePath(), 0})
			}
			e.commit(func(tx *table.Transaction) {
				require.NoError(t, tx.CommitEqualityDeletes(t.Context(), []int{1, 2}, func(yield func(arrow.RecordBatch, error) bool) {
					yield(batchJSON(t, e.load(), `{"id":0,"s":"a"}`, `{"id":2,"s":"a"}`, `{"id":5,"s":"b"}`, `{"id":9,"s":"zzz"}`, `{"id":7,"s":null}`), nil)
				}, nil))
			})
			before := len(e.rows())
			require.Less(t, before, 22)
			out := e.sameRows(PlanOptions{}, Options{Parallel: 2})
			assert.Len(t, out.results, 3)
			data, deletes := e.files()
			assert.Len(t, data, 3)
			assert.Empty(t, deletes, "also that of the partition zzz, which has no data")
			assert.EqualValues(t, 24-before, out.proof.RowsDeleted)
		})
	}
}

func TestFilesWithManyDeletedRowsAreRewrittenAlone(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": "3"})
	e.appendSeries(0, 10)
	data, _ := e.files()
	o := PlanOptions{TargetFileSize: data[0].FileSizeBytes()}
	e.deleteVector(position{data[0].FilePath(), 0}, position{data[0].FilePath(), 1})
	assert.Empty(t, e.plan(o).Groups, "two rows of ten are below the ratio")
	plan := e.plan(PlanOptions{TargetFileSize: o.TargetFileSize, DeleteFileThreshold: 1})
	require.Len(t, plan.Groups, 1)
	assert.Equal(t, "1 of 1 files carry many deletes", plan.Groups[0].ReasonPicked)
	o.DeleteRatioThreshold = 0.2
	out := e.sameRows(o, Options{})
	assert.EqualValues(t, 2, out.proof.RowsDeleted)
	_, deletes := e.files()
	assert.Empty(t, deletes)
}

func TestRowIdsSurvive(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": "3"})
	for i := range 6 {
		e.appendSeries(10*i, 10)
	}
	data, _ := e.files()
	e.deleteVector(position{data[2].FilePath(), 5})
	lineage := func() []string {
		tbl := e.load()
		var out []string
		_, batches, err := tbl.Scan(table.WithRowLineage()).ToArrowRecords(t.Context())
		require.NoError(t, err)
		for rec, err := range batches {
			require.NoError(t, err)
			for i := range int(rec.NumRows()) {
				line := ""
				for c, col := range rec.Columns() {
					line += rec.ColumnName(c) + "=" + col.ValueStr(i) + " "
				}
				out = append(out, line)
			}
			rec.Release()
		}
		slices.Sort(out)

		return out
	}
	before := lineage()
	require.Len(t, before, 59)
	require.Contains(t, before[0], "_row_id=")
	e.sameRows(PlanOptions{}, Options{})
	assert.Equal(t, before, lineage())
	e.appendSeries(100, 1)
	e.sameRows(PlanOptions{RewriteAll: true}, Options{})
	assert.Subset(t, lineage(), before)
}

func TestFilesWithAndWithoutRowIdsNeverShareAGroup(t *testing.T) {
	tbl := bare(t, *iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": "3"})
	entries := invent(t, tbl, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	for i := range 6 {
		b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, entries[2*i].path(),
			iceberg.ParquetFile, nil, nil, nil, 1, 1)
		require.NoError(t, err)
		entries[2*i].file = b.FirstRowID(int64(i)).Build()
	}
	p := planOf(t, tbl, entries, PlanOptions{})
	require.Len(t, p.Groups, 2)
	for _, g := range p.Groups {
		for _, f := range g.Files {
			assert.Equal(t, g.lineage, f.FirstRowID != nil)
		}
	}
}

func TestADeleteThatArrivesBetweenReadAndProofStopsTheProof(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	for i := range 5 {
		e.appendSeries(10*i, 10)
	}
	plan := e.plan(PlanOptions{})
	r := New(Options{})
	results, err := r.Rewrite(t.Context(), e.load(), plan.Groups)
	require.NoError(t, err)
	data, _ := e.files()
	e.deletePositions(data[0], position{data[0].FilePath(), 0})
	_, err = r.Prove(t.Context(), e.load(), plan, results)
	require.ErrorContains(t, err, "it is not the table's current snapshot")
	newer, err := plan.Refresh(t.Context(), e.load())
	require.NoError(t, err)
	_, err = r.Prove(t.Context(), e.load(), newer, results)
	require.ErrorIs(t, err, ErrIntegrity)
	require.ErrorContains(t, err, "was read with other deletes")

	// And one whose inputs are gone.
	e.compact(PlanOptions{}, Options{})
	newest, err := plan.Refresh(t.Context(), e.load())
	require.NoError(t, err)
	_, err = r.Prove(t.Context(), e.load(), newest, results)
	require.ErrorContains(t, err, "is not live in snapshot")
	tx := e.load().NewTransaction()
	require.ErrorContains(t, Stage(t.Context(), tx, results, Proof{SnapshotID: plan.SnapshotID}, nil), "does not stand on snapshot")
}

func TestTheProofLooksAtRemovedDeletesFromBothSides(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	for i := range 3 {
		e.appendSeries(10*i, 10)
	}
	data, _ := e.files()
	e.deletePositions(data[0], position{data[0].FilePath(), 0}, position{data[1].FilePath(), 0})
	tbl, plan := e.load(), e.plan(PlanOptions{})
	fs, err := tbl.FS(t.Context())
	require.NoError(t, err)
	d := deadDeletes{plan: plan, storage: fs, gone: map[string]bool{data[0].FilePath(): true}}
	dead, err := d.find(t.Context())
	require.NoError(t, err)
	assert.Empty(t, dead)
	require.ErrorIs(t, d.prove(t.Context(), []iceberg.DataFile{plan.set.deletes.all[0].file}), ErrIntegrity)
	d.gone[data[1].FilePath()] = true
	dead, err = d.find(t.Context())
	require.NoError(t, err)
	assert.Len(t, dead, 1)
}
