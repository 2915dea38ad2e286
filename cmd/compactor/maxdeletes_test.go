package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
)

// An expiry that may delete little goes on where it stopped, run after run, and
// no further snapshot expires before its files are gone: in the end there is no
// file left that the table does not name.
func TestMaxDeletesLosesTrackOfNothing(t *testing.T) {
	t.Parallel()
	const limit = 4
	w := newWorld(t)
	tbl := w.create()
	for i := range 6 {
		tbl = tabletest.Append(t, tbl, tabletest.IDs(10*i, 3))
	}
	require.Equal(t, 0, w.compact("--min-input-files", "2").code)
	rows := tabletest.Rows(t, w.load())
	dry := w.do("expire", "--older-than", "0s", "--max-deletes", "4", "--dry-run").step(t)
	require.Contains(t, dry.Reason, "at most 4 in a run")
	planned := dry.Expire.Files.Planned
	require.Greater(t, planned, 4*limit)
	before := notMetadataJSON(w.objects())
	runs := 0
	for ; ; runs++ {
		r := w.do("expire", "--older-than", "0s", "--max-deletes", "4")
		require.Equal(t, 0, r.code, r.stdout+r.stderr)
		step := r.step(t)
		after := notMetadataJSON(w.objects())
		if step.Status == "nothing-to-do" {
			require.Equal(t, before, after)

			break
		}
		require.Positive(t, step.Expire.Files.Deleted, "every run gets somewhere")
		require.LessOrEqual(t, len(before)-len(after), limit)
		require.Len(t, after, len(before)-step.Expire.Files.Deleted)
		if step.Expire.Files.Left > 0 {
			require.Contains(t, step.Reason, "--max-deletes 4, the next expiry goes on")
		}
		if runs == 1 { // Snapshots that a run would expire, were the first not still being tidied up.
			for i := range 2 {
				tbl = tabletest.Append(t, w.load(), tabletest.IDs(100+10*i, 3))
			}
			after = notMetadataJSON(w.objects())
			rows = tabletest.Rows(t, tbl)
		}
		if runs == 2 {
			require.Empty(t, step.Expire.Snapshots, "nothing more expires")
			require.Len(t, snapshotIDs(w.load()), 3)
		}
		before = after
		require.Less(t, runs, 40)
	}
	require.GreaterOrEqual(t, runs, planned/limit)
	tbl = w.load()
	require.Len(t, snapshotIDs(tbl), 1)
	named := w.reach(tbl, snapshotIDs(tbl)...)
	require.ElementsMatch(t, only(named, nil), notMetadataJSON(w.objects()), "what is there is named")
	require.Equal(t, rows, tabletest.Rows(t, tbl))
}

// The bound counts over all tables and steps of a run.
func TestMaxDeletesOfOrphans(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.Fragment(t, w.create(), 2, 2)
	for i := range 5 {
		w.put(fmt.Sprintf("%s/data/stray-%d.parquet", tbl.Location(), i))
	}
	w.ageEverything()
	objects := len(w.objects())
	for _, want := range []int{2, 2, 1} {
		r := w.orphans("--max-deletes", "2")
		require.Equal(t, 0, r.code, r.stdout+r.stderr)
		step := r.orphanStep(t)
		require.Equal(t, want, step.Orphans.Deleted)
		objects -= want
		require.Len(t, w.objects(), objects)
		if step.Orphans.Left > 0 {
			require.Contains(t, step.Reason, "left for the next run (--max-deletes 2)")
		}
	}
	require.Len(t, tabletest.Rows(t, w.load()), 4)
	r := w.orphans("--max-deletes", "0")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, "--max-deletes 0: use 1 or more")
}
