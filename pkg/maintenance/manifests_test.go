package maintenance

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/apache/iceberg-go"
	icebergcatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/catalog"
	"compactor/internal/store/storetest"
	"compactor/internal/tabletest"
)

func (w *world) manifests(o ManifestsOptions) (StepReport, error) {
	w.t.Helper()
	look, err := w.cat.LoadTable(context.Background(), w.ident)
	if err != nil {
		return StepReport{}, err
	}

	return w.m.RewriteManifests(context.Background(), look, o)
}

// scattered makes a table of n snapshots with a small manifest each.
func (w *world) scattered(n int) []string {
	w.t.Helper()
	direct := w.open(nil)
	tabletest.Create(direct.Context(context.Background()), w.t, direct.Client(), w.ident, tabletest.Schema())

	return tabletest.Rows(w.t, tabletest.Fragment(w.t, w.load(), n, 3))
}

// Every call to the store fails once while manifests are merged. Nothing is
// lost, and what was written and not committed is gone or named.
func TestEveryStoreCallOfAManifestRewriteMayFail(t *testing.T) {
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
		rows, before := w.scattered(4), w.files()
		location := w.load().MetadataLocation()
		armed.Store(true)
		rep, err := w.manifests(ManifestsOptions{})
		armed.Store(false)
		require.False(t, w.claim.held, "call %d: the claim is free", n)
		require.Equal(t, rows, tabletest.Rows(t, w.load()), "call %d", n)
		require.Subset(t, w.files(), before, "call %d", n)
		if seen.Load() <= int64(n) {
			require.NoError(t, err)
			require.Greater(t, n, 10, "the sweep reached the end")

			return
		}
		if w.load().MetadataLocation() != location {
			continue
		}
		left := slices.DeleteFunc(w.files(), func(p string) bool { return slices.Contains(rep.Kept, "file://"+p) })
		require.Equal(t, before, left, "call %d: %s: a failed run left files it did not name (%v)", n, rep.Status, err)
		_, err = w.manifests(ManifestsOptions{})
		require.NoError(t, err, "call %d: the next run", n)
		require.Equal(t, rows, tabletest.Rows(t, w.load()), "call %d", n)
	}
}

func TestConflictOnAManifestRewrite(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.scattered(4)
	files := w.files()
	w.cat.before = func() { tabletest.Append(t, w.load(), `[{"id":999,"s":"foreign"}]`) }
	rep, err := w.manifests(ManifestsOptions{})
	require.ErrorIs(t, err, ErrConflict)
	require.Equal(t, StatusConflict, rep.Status)
	require.Len(t, w.files(), len(files)+3, "the foreign data file, manifest and list, and nothing of ours")
	require.Len(t, tabletest.Rows(t, w.load()), 13)
}

// The commit of a manifest rewrite is told from a round of a compaction of the
// same run.
func TestLostAnswerToAManifestRewrite(t *testing.T) {
	w := newWorld(t, worldOptions{})
	direct := w.open(nil)
	tabletest.Create(direct.Context(context.Background()), t, direct.Client(), w.ident, tabletest.Schema())
	tabletest.Fragment(t, w.load(), 3, 3)
	_, err := w.compact(CompactOptions{Plan: planSmall()})
	require.NoError(t, err)
	tabletest.Fragment(t, w.load(), 3, 3)
	lost := &catalog.CommitError{Answer: catalog.Unknown, Status: http.StatusGatewayTimeout, Sent: true, Err: fmt.Errorf("gateway")}
	w.cat.answer = func(error) error { return lost }
	rep, err := w.manifests(ManifestsOptions{})
	require.NoError(t, err)
	require.True(t, rep.Rounds[0].Found)
	require.Equal(t, w.load().CurrentSnapshot().SnapshotID, *rep.SnapshotAfter)
	require.Equal(t, roundManifests, w.load().CurrentSnapshot().Summary.Properties[SummaryRound])
}

// A difference in one entry, or a missing one, stops the commit.
func TestManifestsAreComparedBeforeTheCommit(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.scattered(4)
	ctx, tbl := context.Background(), w.load()
	plan, err := planManifests(ctx, tbl, DefaultManifestSize)
	require.NoError(t, err)
	r, err := newManifestRewrite(ctx, w.m, tbl, ManifestsOptions{TargetSize: DefaultManifestSize, Memory: 1 << 30})
	require.NoError(t, err)
	require.NoError(t, r.rewrite(ctx, plan))
	require.NoError(t, r.prove(ctx))
	whole := r.written
	r.written = nil
	require.ErrorIs(t, r.prove(ctx), ErrHalt, "a manifest is missing")
	r.written = slices.Concat(whole, whole)
	require.ErrorIs(t, r.prove(ctx), ErrHalt, "a manifest is there twice")
}

func TestPartitionValuesAreOrdered(t *testing.T) {
	t.Parallel()
	for _, list := range [][]any{
		{nil, int32(-1), int32(2), int32(10)}, {nil, int64(-5), int64(7)}, {nil, "a", "b"},
		{nil, iceberg.Date(1), iceberg.Date(20)}, {nil, iceberg.Timestamp(3), iceberg.Timestamp(200)}, {nil, false, true},
	} {
		for i := range list {
			for j := range list {
				require.Equal(t, i < j, compareValues(list[i], list[j]) < 0, "%v %v", list[i], list[j])
				require.Equal(t, i == j, compareValues(list[i], list[j]) == 0, "%v %v", list[i], list[j])
			}
		}
	}
}

// Deletion vectors and row ids of format version 3 come through.
func TestManifestsOfFormatVersion3(t *testing.T) {
	w := newWorld(t, worldOptions{})
	direct := w.open(nil)
	tabletest.Create(direct.Context(context.Background()), t, direct.Client(), w.ident, tabletest.Schema(),
		icebergcatalog.WithProperties(iceberg.Properties{table.PropertyFormatVersion: "3"}))
	tbl := tabletest.Fragment(t, w.load(), 5, 3)
	for i := range 4 {
		tbl = tabletest.DeleteWhere(t, tbl, iceberg.EqualTo(iceberg.Reference("id"), int64(3*i)))
	}
	rows, before := tabletest.Rows(t, tbl), digestOf(t, tbl)
	require.Len(t, rows, 11)
	require.Equal(t, int64(9), before.n)
	rep, err := w.manifests(ManifestsOptions{})
	require.NoError(t, err)
	require.Len(t, rep.Manifests.Groups, 2)
	require.Equal(t, 2, rep.Manifests.After)
	require.Equal(t, before, digestOf(t, w.load()))
	require.Equal(t, rows, tabletest.Rows(t, w.load()))
	tbl = tabletest.Append(t, w.load(), tabletest.IDs(100, 3))
	require.Len(t, tabletest.Rows(t, tbl), 14)
}

func digestOf(t *testing.T, tbl *table.Table) digest {
	t.Helper()
	fio, err := tbl.FS(context.Background())
	require.NoError(t, err)
	manifests, err := tbl.CurrentSnapshot().Manifests(fio)
	require.NoError(t, err)
	var d digest
	for _, m := range manifests {
		for e, err := range m.Entries(fio, true) {
			require.NoError(t, err)
			d.add(e)
		}
	}

	return d
}

// Manifests of a spec with two decimals can be read and not written.
func TestManifestsThatCannotBeWrittenAgainAreLeft(t *testing.T) {
	sc := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "a", Type: iceberg.DecimalTypeOf(9, 2)},
		iceberg.NestedField{ID: 2, Name: "b", Type: iceberg.DecimalTypeOf(18, 4)})
	for name, c := range map[string]struct {
		second iceberg.Transform
		want   bool
	}{"two decimals": {iceberg.IdentityTransform{}, false}, "a decimal and its bucket": {iceberg.BucketTransform{NumBuckets: 4}, true}} {
		t.Run(name, func(t *testing.T) {
			spec := iceberg.NewPartitionSpec(
				iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "x", Transform: iceberg.IdentityTransform{}},
				iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1001, Name: "y", Transform: c.second})
			meta, err := table.NewMetadata(sc, &spec, table.UnsortedSortOrder, "file:///nowhere", nil)
			require.NoError(t, err)
			tbl := table.New(table.Identifier{"db", "t"}, meta, "", nil, nil)
			require.Equal(t, c.want, mergeable(tbl, iceberg.NewManifestFile(2, "m.avro", 100, int32(spec.ID()), 1).Build()))
		})
	}
}
