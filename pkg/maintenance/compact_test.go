package maintenance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/pkg/rewrite"
)

// nothingHappened says that the table and its files are what they were.
func (w *world) nothingHappened(before *table.Table, files []string) {
	w.t.Helper()
	now := w.load()
	require.Equal(w.t, before.MetadataLocation(), now.MetadataLocation(), "nothing was committed")
	require.Equal(w.t, files, w.files(), "no file is left, none is gone")
	require.False(w.t, w.claim.held, "the claim was released")
}

func TestCompactionSetsNoProperty(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tbl := w.fragment(6)
	require.Empty(t, tbl.Properties())
	rep, err := w.compact(CompactOptions{})
	require.NoError(t, err)
	require.Equal(t, StatusDone, rep.Status)
	require.Empty(t, w.load().Properties(), "the name mapping that the library adds is dropped")
	require.Equal(t, 1, w.cat.commits)
}

func TestClaimLostBeforeTheCommit(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"context ends": func(w *world) { w.claim.lose(errors.New("session gone")) },
		"verify says no": func(w *world) {
			w.claim.verify = ErrClaimLost
		},
	} {
		t.Run(name, func(t *testing.T) {
			var w *world
			w = newWorld(t, worldOptions{beforeWrite: func(b arrow.RecordBatch) arrow.RecordBatch {
				lose(w)

				return b
			}})
			before, files := w.fragment(6), []string(nil)
			files = w.files()
			rep, err := w.compact(CompactOptions{})
			require.ErrorIs(t, err, ErrClaimLost)
			require.Equal(t, StatusLost, rep.Status)
			require.Zero(t, w.cat.commits)
			w.nothingHappened(before, files)
		})
	}
}

// One row dropped inside the writer is seen by the count; two values of one
// column swapped between rows are seen by --verify.
func TestCase_X9_shiftedColumn(t *testing.T) {
	for name, c := range map[string]struct {
		hook   func(arrow.RecordBatch) arrow.RecordBatch
		verify bool
	}{
		"row dropped":    {hook: dropLastRow},
		"values swapped": {hook: swapFirstTwo, verify: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, worldOptions{beforeWrite: c.hook})
			if c.verify {
				w.m.Rewriter = rewrite.New(rewrite.Options{BeforeWrite: c.hook, Verify: true})
			}
			before := w.fragment(6)
			files := w.files()
			rep, err := w.compact(CompactOptions{Verify: c.verify})
			require.ErrorIs(t, err, rewrite.ErrIntegrity)
			require.Equal(t, StatusHalt, rep.Status)
			require.Zero(t, w.cat.commits)
			w.nothingHappened(before, files)
		})
	}
}

func dropLastRow(b arrow.RecordBatch) arrow.RecordBatch {
	defer b.Release()

	return b.NewSlice(0, max(0, b.NumRows()-1))
}

// swapFirstTwo exchanges the first two values of the column s.
func swapFirstTwo(b arrow.RecordBatch) arrow.RecordBatch {
	if b.NumRows() < 2 {
		return b
	}
	defer b.Release()
	cols := append([]arrow.Array(nil), b.Columns()...)
	col, ok := cols[1].(*array.String)
	if !ok {
		panic(fmt.Sprintf("column s is %T", cols[1]))
	}
	sb := array.NewStringBuilder(memory.DefaultAllocator)
	defer sb.Release()
	for i := range col.Len() {
		switch i {
		case 0:
			sb.Append(col.Value(1))
		case 1:
			sb.Append(col.Value(0))
		default:
			sb.Append(col.Value(i))
		}
	}
	cols[1] = sb.NewArray()

	return array.NewRecordBatch(b.Schema(), cols, b.NumRows())
}

func TestPanicReleasesTheClaim(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.fragment(6)
	w.cat.before = func() { panic("the bug of the day") }
	require.Panics(t, func() { _, _ = w.compact(CompactOptions{}) })
	require.False(t, w.claim.held)
}

func TestConflictReplansUnderTheSameClaim(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tbl := w.fragment(6)
	before := tabletest.Rows(t, tbl)
	once := true
	w.cat.before = func() {
		if once {
			once = false
			tabletest.Append(t, w.load(), `[{"id":999,"s":"foreign"}]`)
		}
	}
	rep, err := w.compact(CompactOptions{OnConflict: ConflictReplans})
	require.NoError(t, err)
	require.Equal(t, StatusDone, rep.Status)
	require.Equal(t, 1, w.claim.acquired)
	require.Equal(t, 2, w.cat.commits)
	require.Equal(t, 7, rep.Rewritten.FilesIn, "planned anew: the foreign file is in")
	after := w.load()
	require.Equal(t, append(before, "id=999;s=foreign;"), sortedLast(tabletest.Rows(t, after)))
	require.Len(t, tabletest.Files(t, after), 1)
}

// sortedLast moves the row 999 to the end, where append puts it.
func sortedLast(rows []string) []string {
	var out, last []string
	for _, r := range rows {
		if r == "id=999;s=foreign;" {
			last = append(last, r)
		} else {
			out = append(out, r)
		}
	}

	return append(out, last...)
}

func TestConflictIsNotRepeatedByDefault(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tbl := w.fragment(6)
	direct := w.load()
	tx := direct.NewTransaction()
	require.NoError(t, tx.SetProperties(iceberg.Properties{"commit.retry.num-retries": "5"}))
	_, err := tx.Commit(context.Background())
	require.NoError(t, err)
	w.cat.before = func() { tabletest.Append(t, w.load(), `[{"id":999,"s":"foreign"}]`) }
	rep, err := w.compact(CompactOptions{})
	require.ErrorIs(t, err, ErrConflict)
	require.Equal(t, StatusConflict, rep.Status)
	require.Contains(t, rep.Reason, "operation append", "the foreign snapshot is named")
	require.Equal(t, 1, w.cat.commits, "whatever commit.retry.* says")
	require.Len(t, tabletest.Files(t, w.load()), 7)
	require.Len(t, tabletest.Rows(t, tbl), 18)
}

func TestHeldClaimIsReported(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.fragment(6)
	w.claim.held = true
	rep, err := w.compact(CompactOptions{})
	require.ErrorIs(t, err, ErrClaimHeld)
	require.Equal(t, StatusHeld, rep.Status)
}

func TestOnlySnapshotUpdatesPass(t *testing.T) {
	mapping := table.NewSetPropertiesUpdate(iceberg.Properties{table.DefaultNameMappingKey: "[]"})
	ref := table.NewSetSnapshotRefUpdate("main", 1, table.BranchRef, 0, 0, 0)
	kept, err := permitted([]table.Update{mapping, ref}, snapshotChange{})
	require.NoError(t, err)
	require.Equal(t, []table.Update{ref}, kept)

	for name, u := range map[string]table.Update{
		"other property": table.NewSetPropertiesUpdate(iceberg.Properties{"a": "b"}),
		"both":           table.NewSetPropertiesUpdate(iceberg.Properties{table.DefaultNameMappingKey: "[]", "a": "b"}),
		"location":       table.NewSetLocationUpdate("s3://elsewhere"),
		"snapshots gone": table.NewRemoveSnapshotsUpdate([]int64{1}, false),
		"other ref":      table.NewSetSnapshotRefUpdate("audit", 1, table.BranchRef, 0, 0, 0),
	} {
		_, err := permitted([]table.Update{ref, u}, snapshotChange{})
		require.ErrorIs(t, err, ErrHalt, name)
	}
}

func TestTheParentIsAsserted(t *testing.T) {
	one, two := int64(1), int64(2)
	require.NoError(t, assertsHead([]table.Requirement{table.AssertRefSnapshotID("main", &one)}, &one))
	require.ErrorIs(t, assertsHead([]table.Requirement{table.AssertRefSnapshotID("main", &two)}, &one), ErrHalt)
	require.ErrorIs(t, assertsHead([]table.Requirement{table.AssertRefSnapshotID("main", nil)}, &one), ErrHalt)
	require.ErrorIs(t, assertsHead([]table.Requirement{table.AssertRefSnapshotID("audit", &one)}, &one), ErrHalt)
	require.ErrorIs(t, assertsHead(nil, &one), ErrHalt)
}

func TestPaceTakesWhatFits(t *testing.T) {
	groups := func(sizes ...int64) (out []rewrite.Group) {
		for _, s := range sizes {
			out = append(out, rewrite.Group{Bytes: s})
		}

		return out
	}
	unlimited := pace{}
	require.Equal(t, 3, unlimited.take(groups(1, 1, 1)), "no limit: one claim for all")
	p := pace{maxHold: 10 * time.Second}
	require.Zero(t, p.take(nil))
	require.Equal(t, 1, p.take(groups(100, 100, 100)), "one group as long as nothing was measured")
	p.learn(100, time.Second, 2*time.Second) // 100 bytes/s, 1 s around it: 900 bytes fit
	require.Equal(t, 3, p.take(groups(300, 300, 300, 300)))
	require.Equal(t, 1, p.take(groups(5000, 1)), "at least one")
	require.Equal(t, 2, estimate(groups(1, 1), time.Nanosecond))
	require.Equal(t, 1, estimate(groups(1, 1, 1), 0))
}

func TestMaxRoundsLeavesTheRest(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tbl := w.fragment(24)
	before := tabletest.Rows(t, tbl)
	size := tabletest.LargestFile(t, tbl)
	o := CompactOptions{MaxHold: time.Nanosecond, MaxRounds: 2, Plan: rewrite.PlanOptions{TargetFileSize: 4 * size, MaxGroupBytes: 7 * size, MinInputFiles: 2}}
	rep, err := w.compact(o)
	require.NoError(t, err)
	require.Equal(t, StatusDone, rep.Status)
	require.Len(t, rep.Rounds, 2)
	require.Positive(t, rep.GroupsLeft)
	require.Equal(t, rep.Groups, rep.GroupsLeft+2)
	require.Equal(t, 2, w.claim.acquired)
	require.Equal(t, before, tabletest.Rows(t, w.load()))
}

// spoiledRewriter reports an integrity failure of the first group, as the
// engine does when a file does not hold the rows its manifest promises.
type spoiledRewriter struct{ Rewriter }

func (s spoiledRewriter) Rewrite(ctx context.Context, tbl *table.Table, groups []rewrite.Group) ([]rewrite.Result, error) {
	results, err := s.Rewriter.Rewrite(ctx, tbl, groups)
	if err == nil {
		_, err = s.RemoveOutputs(ctx, tbl, results[:1])
		results[0].Outputs, results[0].Err = nil, fmt.Errorf("29 rows promised, 30 read: %w", rewrite.ErrIntegrity)
	}

	return results, err
}

func TestIntegrityFailureOfOneGroupHaltsTheRound(t *testing.T) {
	w := newWorld(t, worldOptions{})
	before := w.fragment(24)
	files, size := w.files(), tabletest.LargestFile(t, before)
	w.m.Rewriter = spoiledRewriter{w.m.Rewriter}
	rep, err := w.compact(CompactOptions{Plan: rewrite.PlanOptions{TargetFileSize: 4 * size, MaxGroupBytes: 7 * size, MinInputFiles: 2}})
	require.Greater(t, rep.Groups, 1)
	require.ErrorIs(t, err, rewrite.ErrIntegrity)
	require.Equal(t, StatusHalt, rep.Status)
	require.Zero(t, w.cat.commits, "no other group is committed beside it")
	w.nothingHappened(before, files)
}
