package maintenance

import (
	"testing"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
)

// dangling leaves the table with one large file, and a position delete of a file
// that another program has removed since.
func (w *world) dangling() {
	w.t.Helper()
	tbl := w.fragment(2)
	tbl = tabletest.SharedPositionDelete(w.t, tbl, []int64{0})
	tx := tbl.NewTransaction()
	rewrite := tx.NewRewrite(nil)
	tasks, err := tbl.Scan().PlanFiles(w.t.Context())
	require.NoError(w.t, err)
	for _, task := range tasks {
		rewrite.DeleteFile(task.File)
	}
	require.NoError(w.t, rewrite.Commit(w.t.Context()))
	next, err := tx.Commit(w.t.Context())
	require.NoError(w.t, err)
	tabletest.Append(w.t, next, `[{"id":100,"s":"x"}]`)
}

func TestOnlyDanglingDeletesAreExpunged(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.dangling()
	before, rows := tabletest.Files(t, w.load()), tabletest.Rows(t, w.load())
	require.Len(t, tabletest.DeleteFiles(t, w.load()), 1)

	rep, err := w.compact(CompactOptions{DryRun: true})
	require.NoError(t, err)
	assert.Equal(t, StatusPlanned, rep.Status)
	assert.Equal(t, 1, rep.Plan.DeleteFiles)
	assert.Equal(t, "would rewrite 0 groups and remove or replace 1 delete files", rep.Reason)
	require.Zero(t, w.claim.acquired)

	rep, err = w.compact(CompactOptions{})
	require.NoError(t, err)
	assert.Equal(t, StatusDone, rep.Status)
	assert.Equal(t, 1, rep.DeletesRemoved)
	assert.Zero(t, rep.Rewritten.FilesIn)
	assert.Equal(t, 1, w.claim.acquired)
	assert.Equal(t, 1, w.cat.commits)
	assert.Empty(t, tabletest.DeleteFiles(t, w.load()))
	assert.Equal(t, before, tabletest.Files(t, w.load()), "no data file is rewritten")
	assert.Equal(t, rows, tabletest.Rows(t, w.load()))
	assert.Equal(t, table.OpReplace, w.load().CurrentSnapshot().Summary.Operation)

	rep, err = w.compact(CompactOptions{})
	require.NoError(t, err)
	assert.Equal(t, StatusNothing, rep.Status)
	assert.Equal(t, 1, w.claim.acquired)
}

// spread is a table of two files with three position-delete files.
func (w *world) spread() {
	w.t.Helper()
	tbl := w.fragment(2)
	for _, id := range []int64{4, 1, 0} { // later rows first: the helper counts what is still there
		tbl = tabletest.SharedPositionDelete(w.t, tbl, []int64{id})
	}
}

func TestPositionDeletesAreMergedOnRequest(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.spread()
	data, rows := tabletest.Files(t, w.load()), tabletest.Rows(t, w.load())
	rep, err := w.compact(CompactOptions{})
	require.NoError(t, err)
	require.Equal(t, StatusNothing, rep.Status, "nobody asked for it")

	rep, err = w.compact(CompactOptions{RewriteDeletes: true})
	require.NoError(t, err)
	assert.Equal(t, StatusDone, rep.Status)
	assert.Equal(t, []int{3, 1}, []int{rep.DeletesRemoved, rep.DeletesAdded})
	assert.Len(t, tabletest.DeleteFiles(t, w.load()), 1)
	assert.Equal(t, data, tabletest.Files(t, w.load()))
	assert.Equal(t, rows, tabletest.Rows(t, w.load()))

	rep, err = w.compact(CompactOptions{RewriteDeletes: true})
	require.NoError(t, err)
	assert.Equal(t, StatusNothing, rep.Status)
}

func TestMergedDeletesOfARejectedCommitAreRemoved(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.spread()
	before := w.files()
	w.cat.before = func() {
		w.cat.before = nil
		tabletest.Append(t, w.load(), `[{"id":999,"s":"foreign"}]`)
	}
	rep, err := w.compact(CompactOptions{RewriteDeletes: true})
	require.ErrorIs(t, err, ErrConflict)
	assert.Equal(t, StatusConflict, rep.Status)
	assert.Empty(t, rep.Kept)
	assert.Subset(t, w.files(), before)
	assert.Len(t, w.files(), len(before)+3, "the foreign data file, its manifest and its list")
	require.Len(t, tabletest.DeleteFiles(t, w.load()), 3)

	rep, err = w.compact(CompactOptions{RewriteDeletes: true})
	require.NoError(t, err)
	assert.Equal(t, 1, rep.DeletesAdded)
	assert.Len(t, tabletest.Rows(t, w.load()), 4)
}
