package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/apache/iceberg-go"
	icebergcatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/internal/testenv"
)

// withoutPostgres points the program at a server that is stopped. The function
// it returns starts that server again.
func (w *world) withoutPostgres() (start func()) {
	w.t.Helper()
	server := testenv.NewPostgres(w.t, testenv.PostgresOptions{Major: 15})
	w.env["COMPACTOR_CLAIM_POSTGRES"] = server.DSN("postgres")
	server.Stop(w.t, testenv.StopFast)

	return func() { w.t.Helper(); server.Start(w.t) }
}

// dryRun runs a command with --dry-run and holds it to have written nothing:
// no request to either server that could change anything, no other object, and
// the same metadata.
func (w *world) dryRun(command string, flags ...string) result {
	w.t.Helper()
	objects, location := w.objects(), w.load().MetadataLocation()
	w.s3.ResetRequests()
	w.catalog.ResetRequests()
	r := w.do(command, append([]string{"--dry-run"}, flags...)...)
	require.Equal(w.t, 0, r.code, r.stdout+r.stderr)
	require.NotEmpty(w.t, w.s3.Requests())
	for _, q := range w.s3.Requests() {
		require.Contains(w.t, []string{"GET", "HEAD"}, q.Method, "a dry run writes nothing to the store: %s %s", q.Method, q.Path)
	}
	for _, q := range w.catalog.Requests() {
		if q.Path != "/v1/oauth/tokens" {
			require.Contains(w.t, []string{"GET", "HEAD"}, q.Method, "a dry run changes nothing in the catalog: %s %s", q.Method, q.Path)
		}
	}
	require.Equal(w.t, objects, w.objects())
	require.Equal(w.t, location, w.load().MetadataLocation())

	return r
}

// lost lists the objects of before that are gone.
func (w *world) lost(before []string) []string {
	w.t.Helper()
	now := map[string]bool{}
	for _, p := range w.objects() {
		now[p] = true
	}

	return slices.DeleteFunc(slices.Clone(before), func(p string) bool { return now[p] })
}

func orphanPaths(st stepDoc) []string {
	var paths []string
	for _, f := range st.Orphans.Files {
		paths = append(paths, f.Path)
	}

	return paths
}

// A compaction takes exactly the groups of its dry run, in that order.
func TestCompactDryRunTellsTheTruth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1000, Name: "p", Transform: iceberg.IdentityTransform{}})
	tbl := w.createPartitioned(icebergcatalog.WithPartitionSpec(&spec))
	for i := range 6 {
		tbl = tabletest.Append(t, tbl, fmt.Sprintf(`[{"id":%d,"s":"x","p":"a"},{"id":%d,"s":"y","p":"b"},{"id":%d,"s":"z","p":null}]`, 3*i, 3*i+1, 3*i+2))
	}
	start := w.withoutPostgres()
	plan := w.dryRun("compact").step(t).Plan
	require.NotNil(t, plan)
	require.Len(t, plan.Groups, 3)
	require.Equal(t, tbl.CurrentSnapshot().SnapshotID, plan.SnapshotID)

	start()
	r := w.compact("--max-hold", "1ms")
	require.Equal(t, 0, r.code, r.stderr)
	step := r.step(t)
	require.Len(t, step.Rounds, 3)
	after := w.load()
	for i, g := range plan.Groups {
		require.ElementsMatch(t, g.Files, removedBy(t, after, *step.Rounds[i].Snapshot), "round %d takes exactly group %d of the plan", i+1, i+1)
	}
}

// removedBy lists the data files that a snapshot removed, sorted as the plan
// lists them.
func removedBy(t *testing.T, tbl *table.Table, id int64) []string {
	t.Helper()
	fio, err := tbl.FS(context.Background())
	require.NoError(t, err)
	manifests, err := tbl.SnapshotByID(id).Manifests(fio)
	require.NoError(t, err)
	var removed []string
	for _, m := range manifests {
		if m.SnapshotID() != id {
			continue
		}
		for e, err := range m.Entries(fio, false) {
			require.NoError(t, err)
			if e.Status() == iceberg.EntryStatusDELETED {
				removed = append(removed, e.DataFile().FilePath())
			}
		}
	}
	slices.Sort(removed)

	return removed
}

// The dry run needs no PostgreSQL and names exactly what the run after it
// expires and deletes.
func TestExpireDryRunTellsTheTruth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.Fragment(t, w.create(), 6, 2)
	require.Equal(t, 0, w.compact("--min-input-files", "2").code)
	start := w.withoutPostgres()
	before := w.objects()
	plan := w.dryRun("expire", "--older-than", "0s", "--retain-last", "2").step(t)
	require.Equal(t, "planned", plan.Status)
	require.Len(t, plan.Expire.Snapshots, 5)
	require.Len(t, plan.Expire.Files.Paths, plan.Expire.Files.Planned)

	start()
	r := w.do("expire", "--older-than", "0s", "--retain-last", "2")
	require.Equal(t, 0, r.code, r.stderr)
	require.Equal(t, plan.Expire.Snapshots, r.step(t).Expire.Snapshots)
	require.ElementsMatch(t, plan.Expire.Files.Paths, w.lost(before))
	require.Equal(t, 1, w.commits())
}

// The dry run needs no PostgreSQL and names exactly the manifests that the run
// after it replaces.
func TestManifestsDryRunTellsTheTruth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.Fragment(t, w.create(), 6, 2)
	start := w.withoutPostgres()
	plan := w.dryRun("manifests").step(t)
	require.Equal(t, "planned", plan.Status)
	require.Equal(t, tbl.CurrentSnapshot().SnapshotID, *plan.SnapshotBefore)
	require.Len(t, plan.Manifests.Groups, 1)
	require.Len(t, plan.Manifests.Groups[0].Manifests, 6)
	before := map[string]bool{}
	for _, m := range manifestsOf(t, tbl) {
		before[m.FilePath()] = true
	}

	start()
	r := w.do("manifests")
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	require.Equal(t, plan.Manifests.Groups, r.step(t).Manifests.Groups)
	for _, m := range manifestsOf(t, w.load()) {
		require.NotContains(t, before, m.FilePath())
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(before)), plan.Manifests.Groups[0].Manifests)
	require.Equal(t, 1, w.commits())
}

// The dry run needs no PostgreSQL and names exactly the files that the run
// after it deletes.
func TestOrphansDryRunTellsTheTruth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.Fragment(t, w.create(), 3, 2)
	strays := []string{tbl.Location() + "/data/a b.parquet", tbl.Location() + "/data/stray.parquet", tbl.Location() + "/metadata/stray.avro"}
	w.put(strays...)
	w.ageEverything()
	before := w.objects()
	start := w.withoutPostgres()
	plan := w.dryRun("orphans").step(t)
	require.Equal(t, "planned", plan.Status)
	require.Equal(t, strays, orphanPaths(plan))

	start()
	r := w.do("orphans")
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	require.Equal(t, len(strays), r.step(t).Orphans.Deleted)
	require.Equal(t, strays, w.lost(before))
	require.Zero(t, w.commits())
}

// A dry run of all steps needs no PostgreSQL. The first step that has work does
// exactly what was planned; a later one does that and what the steps before it
// have made possible.
func TestRunDryRunTellsTheTruth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.Fragment(t, w.create(), 6, 2)
	stray := tbl.Location() + "/data/stray.parquet"
	w.put(stray)
	w.ageEverything()
	w.writeConfig("advisory", "defaults:\n  manifests: {enabled: false}\n  expire: {enabled: true, older_than: 0s}\n  orphans: {enabled: true}\n")
	start := w.withoutPostgres()
	before := w.objects()
	dry := w.dryRun("run", "--min-input-files", "2").steps(t)
	require.Len(t, dry, 4)
	require.Equal(t, "nothing-to-do", dry[1].Status)
	require.Len(t, dry[0].Plan.Groups, 1)
	require.ElementsMatch(t, tabletest.Files(t, tbl), dry[0].Plan.Groups[0].Files)
	require.Len(t, dry[2].Expire.Snapshots, 5)
	require.Equal(t, []string{stray}, orphanPaths(dry[3]))
	require.Contains(t, dry[3].Reason, "compact comes first")

	start()
	r := w.do("run", "--min-input-files", "2")
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	steps := r.steps(t)
	require.Len(t, steps, 4)
	require.Len(t, steps[0].Rounds, 1)
	require.Equal(t, len(dry[0].Plan.Groups[0].Files), steps[0].Rewritten.FilesIn)
	require.Equal(t, dry[2].Expire.Snapshots, steps[2].Expire.Snapshots[:5], "what was planned")
	require.Len(t, steps[2].Expire.Snapshots, 6, "and the snapshot that the compaction replaced")
	require.Equal(t, tbl.CurrentSnapshot().SnapshotID, steps[2].Expire.Snapshots[5].ID)
	require.Equal(t, 1, steps[3].Orphans.Deleted)
	lost := w.lost(before)
	require.Subset(t, lost, dry[0].Plan.Groups[0].Files)
	require.Subset(t, lost, dry[2].Expire.Files.Paths)
	require.Contains(t, lost, stray)
	w.onlyLiveObjects()
}

// Where only the steps that delete have work, a run deletes exactly the files
// that its dry run named.
func TestRunDryRunNamesEveryDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.Fragment(t, w.create(), 5, 2)
	stray := tbl.Location() + "/data/stray.parquet"
	w.put(stray)
	w.ageEverything()
	w.writeConfig("advisory", "defaults:\n  compact: {min_input_files: 1000}\n  manifests: {enabled: false}\n"+
		"  expire: {enabled: true, older_than: 0s, retain_last: 2}\n  orphans: {enabled: true}\n")
	start := w.withoutPostgres()
	before := w.objects()
	dry := w.dryRun("run").steps(t)
	require.Equal(t, "nothing-to-do", dry[0].Status)
	require.Len(t, dry[2].Expire.Snapshots, 3)
	planned := slices.Concat(dry[2].Expire.Files.Paths, orphanPaths(dry[3]))
	require.Contains(t, planned, stray)
	require.Contains(t, dry[3].Reason, "expire comes first")

	start()
	r := w.do("run")
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	steps := r.steps(t)
	require.Equal(t, dry[2].Expire.Snapshots, steps[2].Expire.Snapshots)
	require.ElementsMatch(t, planned, w.lost(before))
	require.Equal(t, 1, w.commits())
	require.Len(t, snapshotIDs(w.load()), 2)
}
