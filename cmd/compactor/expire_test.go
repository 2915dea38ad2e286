package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/internal/testenv"
)

// commitUpdates sends updates to the catalog past the program.
func (w *world) commitUpdates(updates ...table.Update) *table.Table {
	w.t.Helper()
	tbl := w.load()
	_, _, err := w.direct.CommitTable(context.Background(), w.ident, []table.Requirement{table.AssertTableUUID(tbl.Metadata().TableUUID())}, updates)
	require.NoError(w.t, err)

	return w.load()
}

func tagAt(name string, id, maxAge int64) table.Update {
	return table.NewSetSnapshotRefUpdate(name, id, table.TagRef, maxAge, 0, 0)
}

// reach lists every object that snapshots lead to: lists, manifests, live
// files. It shares no code with the program.
func (w *world) reach(tbl *table.Table, ids ...int64) map[string]bool {
	w.t.Helper()
	fio, err := tbl.FS(context.Background())
	require.NoError(w.t, err)
	out := map[string]bool{}
	for _, id := range ids {
		snap := tbl.Metadata().SnapshotByID(id)
		require.NotNil(w.t, snap)
		out[snap.ManifestList] = true
		manifests, err := snap.Manifests(fio)
		require.NoError(w.t, err)
		for _, m := range manifests {
			out[m.FilePath()] = true
			for e, err := range m.Entries(fio, true) {
				require.NoError(w.t, err)
				out[e.DataFile().FilePath()] = true
			}
		}
	}

	return out
}

// only returns the paths of a that b has not, sorted.
func only(a, b map[string]bool) []string {
	var out []string
	for p := range a {
		if !b[p] {
			out = append(out, p)
		}
	}
	slices.Sort(out)

	return out
}

func snapshotIDs(tbl *table.Table) []int64 {
	var ids []int64
	for _, s := range tbl.Metadata().Snapshots() {
		ids = append(ids, s.SnapshotID)
	}

	return ids
}

// notMetadataJSON leaves out the metadata files, of which every commit makes one.
func notMetadataJSON(objects []string) []string {
	return slices.DeleteFunc(slices.Clone(objects), func(p string) bool { return strings.Contains(p, ".metadata.json") })
}

// rowsAt reads the table at a ref.
func rowsAt(t *testing.T, tbl *table.Table, ref string) []string {
	t.Helper()
	_, batches, err := scanRef(t, tbl, ref).ToArrowRecords(context.Background())
	require.NoError(t, err)
	var rows []string
	for rec, err := range batches {
		require.NoError(t, err)
		for i := range int(rec.NumRows()) {
			rows = append(rows, rec.Column(0).ValueStr(i))
		}
		rec.Release()
	}
	slices.Sort(rows)

	return rows
}

func scanRef(t *testing.T, tbl *table.Table, ref string) *table.Scan {
	t.Helper()
	scan, err := tbl.Scan().UseRef(ref)
	require.NoError(t, err)

	return scan
}

// After a compaction, expiry frees exactly the old files: what branches and
// tags of every kind reach stays, to the last object.
func TestExpireFreesExactlyTheOldFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := w.create()
	for i := range 6 {
		tbl = tabletest.Append(t, tbl, tabletest.IDs(10*i, 3))
	}
	chain := history(tbl)
	const forever = int64(1) << 50
	w.commitUpdates(
		tagAt("release", chain[1], 0), tagAt("kept-by-age", chain[2], forever), tagAt("aged", chain[3], 1),
		table.NewSetSnapshotRefUpdate("audit", chain[4], table.BranchRef, 0, 1, 2),
		table.NewSetSnapshotRefUpdate("old-branch", chain[3], table.BranchRef, 1, 0, 0),
	)
	require.Equal(t, 0, w.compact("--min-input-files", "2").code)
	before := w.load()
	objects := w.objects()
	rows := map[string][]string{}
	for _, ref := range []string{"main", "release", "kept-by-age", "audit"} {
		rows[ref] = rowsAt(t, before, ref)
	}
	// The branch audit asks for two snapshots, which are chain[4] and [3].
	kept := []int64{before.CurrentSnapshot().SnapshotID, chain[1], chain[2], chain[4], chain[3]}
	gone := slices.DeleteFunc(snapshotIDs(before), func(id int64) bool { return slices.Contains(kept, id) })
	require.Len(t, gone, 2)
	dead := only(w.reach(before, gone...), w.reach(before, kept...))
	require.NotEmpty(t, dead)

	r := w.do("expire", "--older-than", "0s")
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	step := r.step(t)
	require.Equal(t, "done", step.Status)
	require.Equal(t, []string{"aged", "old-branch"}, step.Expire.Refs)
	require.Equal(t, len(dead), step.Expire.Files.Deleted)
	after := w.load()
	require.ElementsMatch(t, kept, snapshotIDs(after))
	require.ElementsMatch(t, []string{"main", "release", "kept-by-age", "audit"}, refNames(after))
	left := notMetadataJSON(w.objects())
	require.Equal(t, slices.DeleteFunc(notMetadataJSON(objects), func(p string) bool { return slices.Contains(dead, p) }), left,
		"exactly the dead objects are gone")
	for ref, want := range rows {
		require.Equal(t, want, rowsAt(t, after, ref), ref)
	}
	require.Equal(t, 2, w.commits(), "one commit of the compaction, one of the expiry")
	require.True(t, w.claimFree())
	location := after.MetadataLocation()
	require.Equal(t, "nothing-to-do", w.do("expire-snapshots", "--older-than", "0s").step(t).Status, "the second run, by the other name")
	require.Equal(t, location, w.load().MetadataLocation())
}

func refNames(tbl *table.Table) []string {
	return slices.Sorted(maps.Keys(maps.Collect(tbl.Metadata().Refs())))
}

// What a snapshot alone had as statistics goes with it.
func TestExpireRemovesStatistics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.Fragment(t, w.create(), 3, 2)
	chain := history(tbl)
	put := func(name string) string {
		path := tbl.Location() + "/metadata/" + name
		fio, err := tbl.FS(context.Background())
		require.NoError(t, err)
		f, err := fio.(writer).Create(path)
		require.NoError(t, err)
		_, err = f.Write([]byte("statistics"))
		require.NoError(t, err)
		require.NoError(t, f.Close())

		return path
	}
	oldStats, newStats, oldParts := put("old.stats"), put("new.stats"), put("old-parts.stats")
	file := func(id int64, path string) table.StatisticsFile {
		return table.StatisticsFile{SnapshotID: id, StatisticsPath: path, FileSizeInBytes: 10, FileFooterSizeInBytes: 4, BlobMetadata: []table.BlobMetadata{}}
	}
	w.commitUpdates(
		table.NewSetStatisticsUpdate(file(chain[0], oldStats)), table.NewSetStatisticsUpdate(file(chain[2], newStats)),
		table.NewSetPartitionStatisticsUpdate(table.PartitionStatisticsFile{SnapshotID: chain[1], StatisticsPath: oldParts, FileSizeInBytes: 10}),
	)
	r := w.do("expire", "--older-than", "0s")
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	require.Equal(t, 2, r.step(t).Expire.Files.Statistics)
	objects := w.objects()
	require.NotContains(t, objects, oldStats)
	require.NotContains(t, objects, oldParts)
	require.Contains(t, objects, newStats)
	after := w.load()
	n := 0
	for s := range after.Metadata().Statistics() {
		require.Equal(t, newStats, s.StatisticsPath)
		n++
	}
	require.Equal(t, 1, n)
}

// Expiring 490 of 500 snapshots reads each manifest and each list once, and
// deletes in batches.
func TestExpireReadsEachManifestOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	appendMany(t, w.create(), 489)
	require.Equal(t, 0, w.compact("--min-input-files", "2", "--max-hold", "0").code)
	tbl := appendMany(t, w.load(), 10)
	require.Len(t, snapshotIDs(tbl), 500)
	rows := tabletest.Rows(t, tbl)
	w.s3.ResetRequests()
	started := time.Now()
	r := w.do("expire", "--older-than", "0s", "--retain-last", "10")
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	t.Logf("expired in %s", time.Since(started))
	files := r.step(t).Expire.Files
	require.Len(t, r.step(t).Expire.Snapshots, 490)
	require.Equal(t, 489, files.ContentFiles)
	require.Equal(t, files.Planned, files.Deleted)
	reads := map[string]int{}
	for _, q := range w.s3.Requests() {
		if q.Method == "GET" && strings.HasSuffix(q.Path, ".avro") {
			reads[q.Path]++
		}
	}
	require.Greater(t, len(reads), 900)
	for path, n := range reads {
		require.Equal(t, 1, n, path)
	}
	deletes := w.s3.Count(func(q testenv.Request) bool { return q.Method == "DELETE" || q.Method == "POST" })
	require.LessOrEqual(t, deletes, 6, "%d files in batches", files.Deleted)
	require.Equal(t, rows, tabletest.Rows(t, w.load()))
	w.onlyLiveObjects()
}

// appendMany commits n snapshots of one small file each, many per request.
func appendMany(t *testing.T, tbl *table.Table, n int) *table.Table {
	t.Helper()
	ctx := context.Background()
	first := len(snapshotIDs(tbl)) * 1000
	for n > 0 {
		tx := tbl.NewTransaction()
		for range min(n, 50) {
			file := tabletest.WriteFile(t, tbl, tabletest.IDs(first, 1))
			require.NoError(t, tx.AddDataFiles(ctx, []iceberg.DataFile{file}, nil, table.WithoutAutoNameMapping(), table.WithoutDuplicateCheck()))
			first++
			n--
		}
		next, err := tx.Commit(ctx)
		require.NoError(t, err)
		tbl = next
	}

	return tbl
}

// With --snapshot-id exactly the named ones go; one that a ref points at is
// refused.
func TestExpireNamedSnapshots(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.Fragment(t, w.create(), 5, 2)
	chain := history(tbl)
	r := w.do("expire", "--snapshot-id", fmt.Sprint(chain[1]), "--snapshot-id", fmt.Sprint(chain[2]))
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	require.ElementsMatch(t, []int64{chain[0], chain[3], chain[4]}, snapshotIDs(w.load()))
	require.Equal(t, tabletest.Rows(t, tbl), tabletest.Rows(t, w.load()))
	require.Equal(t, 3, w.do("expire", "--snapshot-id", fmt.Sprint(chain[4])).code)
	require.Equal(t, 3, w.do("expire", "--snapshot-id", "4711").code)
	require.Equal(t, 2, w.do("expire", "--snapshot-id", "4711", "--older-than", "1d").code)
}

func TestExpireKeepFilesDeletesNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.Fragment(t, w.create(), 4, 2)
	require.Equal(t, 0, w.compact("--min-input-files", "2").code)
	objects := w.objects()
	r := w.do("expire", "--older-than", "0s", "--keep-files")
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	require.Len(t, snapshotIDs(w.load()), 1)
	require.Subset(t, w.objects(), objects)
	require.Equal(t, "nothing-to-do", w.do("expire", "--older-than", "0s", "--keep-files").step(t).Status)
}

// Schemas and specs that nothing uses any more go when that is asked for, and
// only those.
func TestExpireCleansMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.Append(t, w.createPartitioned(), `[{"id":1,"s":"x","p":"a"},{"id":2,"s":"y","p":"b"}]`)
	tx := tbl.NewTransaction()
	require.NoError(t, tx.UpdateSchema(true, false).AddColumn([]string{"q"}, iceberg.PrimitiveTypes.String, "", false, nil).Commit())
	tbl, err := tx.Commit(context.Background())
	require.NoError(t, err)
	for _, change := range []func(*table.UpdateSpec){
		func(u *table.UpdateSpec) { u.AddField("p", iceberg.IdentityTransform{}, "p_id") },
		func(u *table.UpdateSpec) { u.AddField("s", iceberg.IdentityTransform{}, "s_id") },
	} {
		tx = tbl.NewTransaction()
		spec := tx.UpdateSpec(true)
		change(spec)
		require.NoError(t, spec.Commit())
		tbl, err = tx.Commit(context.Background())
		require.NoError(t, err)
	}
	tbl = tabletest.Append(t, tbl, `[{"id":3,"s":"x","p":"a","q":null}]`)
	rows := tabletest.Rows(t, tbl)
	require.Len(t, tbl.Metadata().Schemas(), 2)
	require.Len(t, tbl.Metadata().PartitionSpecs(), 3)
	step := w.do("expire", "--older-than", "0s", "--clean-expired-metadata").step(t)
	require.Len(t, step.Expire.Schemas, 1)
	require.Equal(t, []int{1}, step.Expire.Specs, "spec 0 is that of the first append, spec 2 the current one")
	after := w.load()
	require.Len(t, after.Metadata().Schemas(), 1)
	require.Len(t, after.Metadata().PartitionSpecs(), 2)
	require.Equal(t, rows, tabletest.Rows(t, after))
	require.Equal(t, "nothing-to-do", w.do("expire", "--older-than", "0s", "--clean-expired-metadata").step(t).Status)
}
