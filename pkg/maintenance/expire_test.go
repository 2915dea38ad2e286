package maintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/store/storetest"
	"compactor/internal/tabletest"
)

// expirable makes a table of n snapshots whose first n-1 are dead weight.
func (w *world) expirable(n int) *table.Table {
	w.t.Helper()
	direct := w.open(nil)
	tabletest.Create(direct.Context(context.Background()), w.t, direct.Client(), w.ident, tabletest.Schema())
	tabletest.Fragment(w.t, w.load(), n-1, 3)
	_, err := w.compact(CompactOptions{Plan: planSmall()})
	require.NoError(w.t, err)
	w.cat.commits = 0

	return w.load()
}

func (w *world) expire(o ExpireOptions) (StepReport, error) {
	w.t.Helper()
	look, err := w.cat.LoadTable(context.Background(), w.ident)
	if err != nil {
		return StepReport{}, err
	}

	return w.m.Expire(context.Background(), look, o)
}

// live lists the files that the table's snapshots reach, as paths on disk.
func (w *world) live() []string {
	w.t.Helper()
	tbl := w.load()
	fio, err := tbl.FS(context.Background())
	require.NoError(w.t, err)
	set := map[string]bool{}
	for _, s := range tbl.Metadata().Snapshots() {
		set[s.ManifestList] = true
		manifests, err := s.Manifests(fio)
		require.NoError(w.t, err)
		for _, m := range manifests {
			set[m.FilePath()] = true
			for e, err := range m.Entries(fio, true) {
				require.NoError(w.t, err)
				set[e.DataFile().FilePath()] = true
			}
		}
	}
	var out []string
	for p := range set {
		out = append(out, strings.TrimPrefix(p, "file://"))
	}
	slices.Sort(out)

	return out
}

// A tag that comes up between the load under the claim and the commit is seen
// before anything is sent.
func TestTagBeforeTheExpiryIsSeen(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tbl := w.expirable(4)
	files := w.files()
	loads := 0
	w.cat.beforeLoad = func() {
		if loads++; loads == 3 { // The look, the load under the claim, the check.
			direct := w.open(nil)
			_, _, err := direct.CommitTable(context.Background(), w.ident, nil,
				[]table.Update{table.NewSetSnapshotRefUpdate("late", tbl.Metadata().Snapshots()[0].SnapshotID, table.TagRef, 0, 0, 0)})
			require.NoError(t, err)
		}
	}
	rep, err := w.expire(ExpireOptions{})
	require.ErrorIs(t, err, ErrConflict)
	require.Equal(t, StatusConflict, rep.Status)
	require.Contains(t, rep.Reason, "tag late")
	require.Zero(t, w.cat.commits)
	require.Equal(t, files, w.files())
	require.False(t, w.claim.held)
}

func TestClaimLostBeforeAnExpiry(t *testing.T) {
	w := newWorld(t, worldOptions{})
	before := w.expirable(4)
	files := w.files()
	w.claim.verify = ErrClaimLost
	rep, err := w.expire(ExpireOptions{})
	require.ErrorIs(t, err, ErrClaimLost)
	require.Equal(t, StatusLost, rep.Status)
	require.Zero(t, w.cat.commits)
	w.nothingHappened(before, files)
}

// When the metadata log does not reach back to the state that was loaded, it
// is not known what lay between: the files stay.
func TestUnknownHistoryKeepsTheFiles(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.expirable(4)
	files := w.files()
	w.cat.afterCommit = func() {
		for i := range 3 {
			tbl := w.load()
			tx := tbl.NewTransaction()
			require.NoError(t, tx.SetProperties(iceberg.Properties{"write.metadata.previous-versions-max": "1", "n": fmt.Sprint(i)}))
			_, err := tx.Commit(context.Background())
			require.NoError(t, err)
		}
	}
	rep, err := w.expire(ExpireOptions{})
	require.ErrorIs(t, err, ErrPartial)
	require.Contains(t, rep.Reason, "no file was deleted")
	require.Subset(t, w.files(), files)
	require.Len(t, w.load().Metadata().Snapshots(), 1)
}

// Three of the deletes are refused: the rest is done, they are counted, and a
// later run removes them.
func TestCase_C19_someDeletesRefused(t *testing.T) {
	var armed atomic.Bool
	var refused atomic.Int64
	faults := storetest.New(func(c storetest.Call) storetest.Fault {
		if armed.Load() && c.Op == storetest.Delete && strings.HasSuffix(c.Path, ".parquet") && refused.Add(1) <= 3 {
			return storetest.Fault{Err: storetest.ErrInjected}
		}

		return storetest.Fault{}
	})
	w := newWorld(t, worldOptions{wrap: faults.Wrap})
	tbl := w.expirable(11)
	rows := tabletest.Rows(t, tbl)
	armed.Store(true)
	rep, err := w.expire(ExpireOptions{})
	require.ErrorIs(t, err, ErrPartial)
	require.Equal(t, StatusPartial, rep.Status)
	first := rep.Expire.Files
	require.Equal(t, 7, first.Deleted)
	require.Equal(t, 3, first.Failed)
	require.Equal(t, first.Planned, first.Deleted+first.Failed+first.Left)
	require.Len(t, first.Failures, first.Failed)
	armed.Store(false)
	rep, err = w.expire(ExpireOptions{})
	require.NoError(t, err)
	require.Equal(t, StatusDone, rep.Status)
	require.Equal(t, 10, rep.Expire.Resumed)
	require.Equal(t, w.live(), w.files())
	require.Equal(t, rows, tabletest.Rows(t, w.load()))
}

// Small passes give the same as one large one.
func TestSweepInPasses(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tbl := w.expirable(9)
	rows := tabletest.Rows(t, tbl)
	rep, err := w.expire(ExpireOptions{SweepBatch: 1})
	require.NoError(t, err)
	require.Equal(t, 8, rep.Expire.Files.ContentFiles)
	require.Equal(t, w.live(), w.files())
	require.Equal(t, rows, tabletest.Rows(t, w.load()))
}

// Every call to the store fails once while snapshots expire. Whatever fails,
// no live file is gone, the claim is free, and a run without a fault then
// leaves exactly the live files.
func TestEveryStoreCallOfAnExpiryMayFail(t *testing.T) {
	for n := 0; ; n++ {
		var armed atomic.Bool
		var seen atomic.Int64
		faults := storetest.New(func(storetest.Call) storetest.Fault {
			if !armed.Load() || seen.Add(1) != int64(n+1) {
				return storetest.Fault{}
			}

			return storetest.Fault{Err: storetest.ErrInjected}
		})
		w := newWorld(t, worldOptions{wrap: faults.Wrap})
		rows := tabletest.Rows(t, w.expirable(4))
		armed.Store(true)
		_, err := w.expire(ExpireOptions{})
		armed.Store(false)
		require.False(t, w.claim.held, "call %d: the claim is free", n)
		require.Equal(t, rows, tabletest.Rows(t, w.load()), "call %d", n)
		require.Subset(t, w.files(), w.live(), "call %d: a live file is gone", n)
		if seen.Load() <= int64(n) {
			require.NoError(t, err)
			require.Greater(t, n, 10, "the sweep reached the end")

			return
		}
		_, err = w.expire(ExpireOptions{})
		require.NoError(t, err, "call %d: the next run", n)
		require.Equal(t, w.live(), w.files(), "call %d", n)
		require.Len(t, w.load().Metadata().Snapshots(), 1, "call %d", n)
	}
}

func TestStoppedWhileDeleting(t *testing.T) {
	ctx, stop := context.WithCancelCause(context.Background())
	faults := storetest.New(func(c storetest.Call) storetest.Fault {
		if c.Op == storetest.Delete {
			stop(errors.New("terminated"))
		}

		return storetest.Fault{}
	})
	w := newWorld(t, worldOptions{wrap: faults.Wrap})
	w.expirable(4)
	look, err := w.cat.LoadTable(context.Background(), w.ident)
	require.NoError(t, err)
	rep, err := w.m.Expire(ctx, look, ExpireOptions{})
	require.ErrorIs(t, err, ErrStopped)
	require.Equal(t, StatusStopped, rep.Status)
	require.Contains(t, rep.Reason, "terminated")
	require.NotContains(t, rep.Reason, "\n")
	require.Subset(t, w.files(), w.live())
	_, err = w.expire(ExpireOptions{})
	require.NoError(t, err)
	require.Equal(t, w.live(), w.files())
}

// A file that a manifest which stays lists as existing is live, although the
// manifest that once added it is dead.
func TestFilesMovedToOtherManifestsStay(t *testing.T) {
	for _, batch := range []int64{0, 1} {
		w := newWorld(t, worldOptions{})
		rows := w.scattered(5)
		_, err := w.manifests(ManifestsOptions{})
		require.NoError(t, err)
		rep, err := w.expire(ExpireOptions{SweepBatch: batch})
		require.NoError(t, err)
		require.Equal(t, 5, rep.Expire.Files.Manifests, "the manifests that were merged")
		require.Zero(t, rep.Expire.Files.ContentFiles)
		require.Equal(t, w.live(), w.files())
		require.Equal(t, rows, tabletest.Rows(t, w.load()))
	}
}

// A live file that is spelled in another way than in a dead manifest stays.
func TestCase_C10_anotherSpellingIsTheSameFile(t *testing.T) {
	w := newWorld(t, worldOptions{})
	rows := w.scattered(1)
	ctx, tbl := context.Background(), w.load()
	path := tabletest.Files(t, tbl)[0]
	other := "file:" + strings.TrimPrefix(path, "file://")
	b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, other, iceberg.ParquetFile, nil, nil, nil, 3, 1000)
	require.NoError(t, err)
	tx := tbl.NewTransaction()
	require.NoError(t, tx.ReplaceDataFilesWithDataFiles(ctx, entryFiles(t, tbl), []iceberg.DataFile{b.Build()}, nil))
	_, err = tx.Commit(ctx)
	require.NoError(t, err)
	_, err = w.expire(ExpireOptions{})
	require.NoError(t, err)
	require.Len(t, w.load().Metadata().Snapshots(), 1)
	require.Equal(t, rows, tabletest.Rows(t, w.load()))
}

func entryFiles(t *testing.T, tbl *table.Table) []iceberg.DataFile {
	t.Helper()
	fio, err := tbl.FS(context.Background())
	require.NoError(t, err)
	manifests, err := tbl.CurrentSnapshot().Manifests(fio)
	require.NoError(t, err)
	var files []iceberg.DataFile
	for _, m := range manifests {
		for e, err := range m.Entries(fio, true) {
			require.NoError(t, err)
			files = append(files, e.DataFile())
		}
	}

	return files
}

// A catalog that leaves a tagged snapshot out of its answer after the commit
// does not make its files look unreachable.
func TestIncompleteAnswerKeepsFiles(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tbl := w.expirable(4)
	old := tbl.Metadata().Snapshots()[1]
	_, _, err := w.open(nil).CommitTable(context.Background(), w.ident, nil,
		[]table.Update{table.NewSetSnapshotRefUpdate("v1", old.SnapshotID, table.TagRef, 0, 0, 0)})
	require.NoError(t, err)
	w.cat.afterCommit = func() {
		w.cat.loaded = func(full *table.Table) *table.Table {
			part, err := afterExpiry(full, expiryPlan{refs: []string{"v1"}, snapshots: []table.Snapshot{old}})
			require.NoError(t, err)

			return part
		}
	}
	rep, err := w.expire(ExpireOptions{})
	require.NoError(t, err)
	require.Positive(t, rep.Expire.Files.Deleted)
	require.Equal(t, w.live(), w.files(), "the files of the tag stay")
}
