package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/iceberg-go/table"
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

// Tables that are worked on side by side draw on one bound, and together they
// lose nothing that is named.
func TestMaxDeletesIsSharedByTables(t *testing.T) {
	t.Parallel()
	const strays, limit = 4, 5
	w := newWorld(t)
	first, second := w.ident, table.Identifier{w.ident[0], "second"}
	idents := []table.Identifier{first, second}
	var rows []string
	for i, ident := range idents {
		w.ident = ident
		tbl := tabletest.Fragment(t, w.create(), 2, 2)
		rows = append(rows, strings.Join(tabletest.Rows(t, tbl), "\n"))
		for n := range strays {
			w.put(fmt.Sprintf("%s/data/stray-%d-%d.parquet", tbl.Location(), i, n))
		}
	}
	w.ageEverything()
	count := func() (n int) {
		for _, ident := range idents {
			w.ident = ident
			n += len(w.objects())
		}

		return n
	}
	objects := count()
	for _, want := range []int{limit, 2*strays - limit, 0} {
		r := w.compactor("orphans", "--config", w.config, "-o", "json", "--parallel", "2", "--memory", "1GiB", "--max-deletes", itoa(limit), first[0]+".*")
		require.Equal(t, 0, r.code, r.stdout+r.stderr)
		doc := r.fleet(t)
		require.Len(t, doc.Tables, 2)
		deleted, left := 0, 0
		for _, tr := range doc.Tables {
			deleted, left = deleted+tr.Steps[0].Orphans.Deleted, left+tr.Steps[0].Orphans.Left
		}
		objects -= want
		require.Equal(t, want, deleted)
		require.Equal(t, objects, count())
		if want == limit {
			require.Equal(t, 2*strays-limit, left, "what is left is reported, whichever table has it")
		}
	}
	for i, ident := range idents {
		w.ident = ident
		require.Equal(t, rows[i], strings.Join(tabletest.Rows(t, w.load()), "\n"))
	}
}
