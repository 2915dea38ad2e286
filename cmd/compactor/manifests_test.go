package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/apache/iceberg-go"
	icebergcatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/internal/testenv"
)

func manifestsOf(t *testing.T, tbl *table.Table) []iceberg.ManifestFile {
	t.Helper()
	fio, err := tbl.FS(context.Background())
	require.NoError(t, err)
	list, err := tbl.CurrentSnapshot().Manifests(fio)
	require.NoError(t, err)

	return list
}

// entriesOf describes every live entry: what a reader needs of it.
func entriesOf(t *testing.T, tbl *table.Table) []string {
	t.Helper()
	fio, err := tbl.FS(context.Background())
	require.NoError(t, err)
	var out []string
	for _, m := range manifestsOf(t, tbl) {
		for e, err := range m.Entries(fio, true) {
			require.NoError(t, err)
			f, row := e.DataFile(), "none"
			if id := f.FirstRowID(); id != nil {
				row = fmt.Sprint(*id)
			}
			out = append(out, fmt.Sprint(f.FilePath(), f.ContentType(), e.SequenceNum(), *e.FileSequenceNum(), e.SnapshotID(),
				f.Partition(), f.Count(), row, f.LowerBoundValues()))
		}
	}
	slices.Sort(out)

	return out
}

// Small manifests of data files and of delete files are merged, each spec by
// itself; nothing else about the table changes, in every format version.
func TestManifestsAreMerged(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2", "3"} {
		t.Run("format "+version, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1000, Name: "p", Transform: iceberg.IdentityTransform{}})
			tbl := w.createPartitioned(icebergcatalog.WithPartitionSpec(&spec),
				props(table.PropertyFormatVersion, version, table.WriteDeleteModeKey, table.WriteModeMergeOnRead))
			for i := range 8 {
				tbl = tabletest.Append(t, tbl, fmt.Sprintf(`[{"id":%d,"s":"x","p":"a"},{"id":%d,"s":"w","p":"a"},{"id":%d,"s":"y","p":"b"},{"id":%d,"s":"z","p":null}]`, 4*i, 4*i+1, 4*i+2, 4*i+3))
			}
			want := map[iceberg.ManifestContent]int{iceberg.ManifestContentData: 1}
			for i := range 4 {
				if version != "2" {
					break // The server takes no deletion vectors.
				}
				want[iceberg.ManifestContentDeletes] = 1
				tbl = tabletest.DeleteWhere(t, tbl, iceberg.EqualTo(iceberg.Reference("id"), int64(4*i)))
			}
			rows, entries, before := tabletest.Rows(t, tbl), entriesOf(t, tbl), manifestsOf(t, tbl)
			parent := tbl.CurrentSnapshot()
			objects := w.objects()

			plan := w.do("manifests", "--dry-run").step(t)
			require.Equal(t, "planned", plan.Status)
			require.Equal(t, objects, w.objects(), "a dry run writes nothing")
			r := w.do("rewrite-manifests")
			require.Equal(t, 0, r.code, r.stdout+r.stderr)
			step := r.step(t)
			require.Equal(t, "done", step.Status)
			require.Equal(t, plan.Manifests.Groups, step.Manifests.Groups, "the run takes exactly what the dry run said")
			require.Equal(t, len(before), step.Manifests.Before)

			after := w.load()
			require.Equal(t, rows, tabletest.Rows(t, after))
			require.Equal(t, entries, entriesOf(t, after), "every entry keeps its sequence numbers, statistics and row ids")
			list := manifestsOf(t, after)
			require.Equal(t, step.Manifests.After, len(list))
			contents := map[iceberg.ManifestContent]int{}
			for _, m := range list {
				contents[m.ManifestContent()]++
			}
			require.Equal(t, want, contents)
			snap := after.CurrentSnapshot()
			require.Equal(t, table.OpReplace, snap.Summary.Operation)
			require.Equal(t, parent.SnapshotID, *snap.ParentSnapshotID)
			require.Equal(t, parent.Summary.Properties["total-records"], snap.Summary.Properties["total-records"])
			require.Equal(t, 1, w.commits())
			require.True(t, w.claimFree())

			location := after.MetadataLocation()
			require.Equal(t, "nothing-to-do", w.do("manifests").step(t).Status)
			require.Equal(t, location, w.load().MetadataLocation(), "the second run commits nothing")
			tbl = tabletest.Append(t, after, `[{"id":1000,"s":"x","p":"a"}]`)
			require.Len(t, tabletest.Rows(t, tbl), len(rows)+1, "other writers go on")
		})
	}
}

// Outputs have the target size and cover one partition after the other.
func TestManifestsHaveTheTargetSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1000, Name: "p", Transform: iceberg.IdentityTransform{}})
	tbl := w.createPartitioned(icebergcatalog.WithPartitionSpec(&spec))
	tx := tbl.NewTransaction()
	for i := range 6 {
		var files []iceberg.DataFile
		for j := range 200 {
			b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, fmt.Sprintf("%s/data/p=%03d/%d.parquet", tbl.Location(), j, i),
				iceberg.ParquetFile, map[int]any{1000: fmt.Sprintf("%03d", j)}, nil, nil, 1, 1000)
			require.NoError(t, err)
			files = append(files, b.Build())
		}
		require.NoError(t, tx.AddDataFiles(context.Background(), files, nil, table.WithoutAutoNameMapping()))
	}
	tbl, err := tx.Commit(context.Background())
	require.NoError(t, err)
	var bytes int64
	for _, m := range manifestsOf(t, tbl) {
		bytes += m.Length()
	}
	target := fmt.Sprint(bytes / 4)
	r := w.do("manifests", "--target-size", target)
	require.Equal(t, "nothing-to-do", r.step(t).Status, "six of two thirds of the target would become five: not worth a snapshot")
	target = fmt.Sprint(bytes / 3)
	r = w.do("manifests", "--target-size", target)
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	list := manifestsOf(t, w.load())
	require.Less(t, len(list), 5)
	var high []byte
	for _, m := range list {
		low := *m.Partitions()[0].LowerBound
		require.LessOrEqual(t, string(high), string(low), "partitions are in order")
		high = *m.Partitions()[0].UpperBound
	}
	require.Equal(t, "nothing-to-do", w.do("manifests", "--target-size", target).step(t).Status)
}

// A run takes compact, manifests, expire and orphans in this order, each on the table
// as the one before left it.
func TestRunTakesEveryStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.Fragment(t, w.create(), 6, 2)
	tbl = appendMany(t, tbl, 1)
	rows := tabletest.Rows(t, tbl)
	w.writeConfig("advisory", "defaults:\n  expire: {enabled: true, older_than: 0s}\n  orphans: {enabled: true}\n")

	dry := w.do("run", "--min-input-files", "2", "--dry-run").steps(t)
	require.Equal(t, []string{"compact", "manifests", "expire", "orphans"}, []string{dry[0].Step, dry[1].Step, dry[2].Step, dry[3].Step})
	require.NotContains(t, dry[0].Reason, "comes first")
	require.Contains(t, dry[1].Reason, "compact comes first")
	require.Contains(t, dry[2].Reason, "compact comes first")
	require.Zero(t, w.commits())

	r := w.do("run", "--min-input-files", "2")
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	steps := r.steps(t)
	require.Equal(t, "done", steps[0].Status)
	require.Equal(t, "done", steps[2].Status)
	require.Equal(t, rows, tabletest.Rows(t, w.load()))
	require.Len(t, snapshotIDs(w.load()), 1)
	w.onlyLiveObjects()
	for _, st := range w.do("run", "--min-input-files", "2").steps(t) {
		require.Equal(t, "nothing-to-do", st.Status, st.Step)
	}
}

// After a conflict no further step touches the table.
func TestRunStopsAfterAConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.Fragment(t, w.create(), 6, 2)
	w.writeConfig("advisory", "defaults:\n  expire: {enabled: true, older_than: 0s}\n")
	match := w.isCommit()
	w.catalog.Handle(testenv.Rule{
		Match: func(r *http.Request) bool { return match(r.Method, r.URL.Path) }, Times: 1,
		Action: testenv.AnswerWithoutForward(409, `{"error":{"message":"conflict","type":"CommitFailedException","code":409}}`),
	})
	r := w.do("run", "--min-input-files", "2")
	require.Equal(t, 4, r.code, r.stdout+r.stderr)
	require.Len(t, r.steps(t), 1)
	require.Equal(t, 1, w.commits())
	require.Len(t, snapshotIDs(w.load()), 6)
}

// A step that the policy leaves out says so.
func TestRunNamesStepsThatThePolicyLeavesOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.Fragment(t, w.create(), 2, 2)
	steps := w.do("run").steps(t)
	require.Len(t, steps, 4)
	for _, st := range steps[2:] {
		require.Contains(t, st.Reason, "policy", st.Step)
	}
	require.Len(t, snapshotIDs(w.load()), 2)
}
