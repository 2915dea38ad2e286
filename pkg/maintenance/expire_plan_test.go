package maintenance

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
)

// snapshotsAt builds a table's metadata by hand: snapshots 1..n, a day apart,
// the last one of this moment. A snapshot listed in parents has that parent,
// others follow the one before.
func snapshotsAt(t *testing.T, now time.Time, n int, parents map[int64]int64, refs map[string]table.SnapshotRef, props iceberg.Properties) table.Metadata { //nolint:revive // A table in one line.
	t.Helper()
	meta, err := table.NewMetadata(tabletest.Schema(), iceberg.UnpartitionedSpec, table.UnsortedSortOrder, "file:///t", props)
	require.NoError(t, err)
	b, err := table.MetadataBuilderFromBase(meta, "")
	require.NoError(t, err)
	schema := 0
	for id := int64(1); id <= int64(n); id++ {
		s := &table.Snapshot{
			SnapshotID: id, SequenceNumber: id, ManifestList: fmt.Sprintf("file:///t/metadata/snap-%d.avro", id), SchemaID: &schema,
			TimestampMs: now.Add(-time.Duration(int64(n)-id) * 24 * time.Hour).UnixMilli(),
			Summary:     &table.Summary{Operation: table.OpAppend, Properties: iceberg.Properties{}},
		}
		parent, set := parents[id]
		if !set {
			parent = id - 1
		}
		if parent > 0 {
			s.ParentSnapshotID = &parent
		}
		require.NoError(t, b.AddSnapshot(s))
	}
	// The library wants main last: it takes the time of the table from it.
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(refs)), func(n string) bool { return n == table.MainBranch })
	for _, refName := range append(names, table.MainBranch) {
		r := refs[refName]
		require.NoError(t, table.NewSetSnapshotRefUpdate(refName, r.SnapshotID, r.SnapshotRefType,
			valueOf(r.MaxRefAgeMs), valueOf(r.MaxSnapshotAgeMs), valueOf(r.MinSnapshotsToKeep)).Apply(b))
	}
	out, err := b.Build()
	require.NoError(t, err)

	return out
}

func ptr[T any](v T) *T { return &v }

const day = 24 * time.Hour

func TestRetentionRules(t *testing.T) {
	t.Parallel()
	now := time.Now().Add(30 * day) // A new table takes no snapshot from before its own time.
	branch := func(id int64) table.SnapshotRef {
		return table.SnapshotRef{SnapshotID: id, SnapshotRefType: table.BranchRef}
	}
	tag := func(id int64) table.SnapshotRef {
		return table.SnapshotRef{SnapshotID: id, SnapshotRefType: table.TagRef}
	}
	ms := func(d time.Duration) *int64 { return ptr(d.Milliseconds()) }
	main := map[string]table.SnapshotRef{"main": branch(8)}
	with := func(more map[string]table.SnapshotRef) map[string]table.SnapshotRef {
		all := maps.Clone(main)
		maps.Copy(all, more)

		return all
	}
	for name, c := range map[string]struct {
		parents map[int64]int64
		refs    map[string]table.SnapshotRef
		props   iceberg.Properties
		o       ExpireOptions
		expired []int64
		removed []string
	}{
		"by age":                       {refs: main, o: ExpireOptions{OlderThan: 3 * day}, expired: []int64{1, 2, 3, 4}},
		"everything but the head":      {refs: main, o: ExpireOptions{}, expired: []int64{1, 2, 3, 4, 5, 6, 7}},
		"retain last":                  {refs: main, o: ExpireOptions{RetainLast: 3}, expired: []int64{1, 2, 3, 4, 5}},
		"young and many":               {refs: main, o: ExpireOptions{OlderThan: 30 * day, RetainLast: 1}},
		"a tag keeps its snapshot":     {refs: with(map[string]table.SnapshotRef{"v1": tag(2)}), expired: []int64{1, 3, 4, 5, 6, 7}},
		"a branch keeps its head":      {refs: with(map[string]table.SnapshotRef{"audit": branch(4)}), expired: []int64{1, 2, 3, 5, 6, 7}},
		"a branch's own number":        {refs: with(map[string]table.SnapshotRef{"audit": {SnapshotID: 4, SnapshotRefType: table.BranchRef, MinSnapshotsToKeep: ptr(2)}}), expired: []int64{1, 2, 5, 6, 7}},
		"a branch's own age":           {refs: with(map[string]table.SnapshotRef{"audit": {SnapshotID: 4, SnapshotRefType: table.BranchRef, MaxSnapshotAgeMs: ms(6 * day)}}), expired: []int64{1, 5, 6, 7}},
		"main's own age wins":          {refs: map[string]table.SnapshotRef{"main": {SnapshotID: 8, SnapshotRefType: table.BranchRef, MaxSnapshotAgeMs: ms(2 * day)}}, o: ExpireOptions{OlderThan: 30 * day}, expired: []int64{1, 2, 3, 4, 5}},
		"main's own number wins":       {refs: map[string]table.SnapshotRef{"main": {SnapshotID: 8, SnapshotRefType: table.BranchRef, MinSnapshotsToKeep: ptr(4)}}, o: ExpireOptions{RetainLast: 1}, expired: []int64{1, 2, 3, 4}},
		"a ref past its own age":       {refs: with(map[string]table.SnapshotRef{"v1": {SnapshotID: 2, SnapshotRefType: table.TagRef, MaxRefAgeMs: ms(5 * day)}}), expired: []int64{1, 2, 3, 4, 5, 6, 7}, removed: []string{"v1"}},
		"a ref younger than its age":   {refs: with(map[string]table.SnapshotRef{"v1": {SnapshotID: 2, SnapshotRefType: table.TagRef, MaxRefAgeMs: ms(7 * day)}}), expired: []int64{1, 3, 4, 5, 6, 7}},
		"refs past the table's age":    {refs: with(map[string]table.SnapshotRef{"v1": tag(2), "audit": branch(7)}), props: iceberg.Properties{propMaxRefAge: "259200000"}, expired: []int64{1, 2, 3, 4, 5, 6}, removed: []string{"v1"}},
		"main has no age as a ref":     {refs: map[string]table.SnapshotRef{"main": {SnapshotID: 3, SnapshotRefType: table.BranchRef, MaxRefAgeMs: ms(day)}}, o: ExpireOptions{}, expired: []int64{1, 2, 4, 5, 6, 7}},
		"unreferenced and young stays": {refs: map[string]table.SnapshotRef{"main": branch(4)}, o: ExpireOptions{OlderThan: 2 * day}, expired: []int64{1, 2, 3, 5}},
		"reached and unneeded goes, though a sibling of its age stays": {
			parents: map[int64]int64{7: 5, 8: 6}, refs: map[string]table.SnapshotRef{"main": {SnapshotID: 8, SnapshotRefType: table.BranchRef, MaxSnapshotAgeMs: ms(time.Millisecond)}},
			o: ExpireOptions{OlderThan: 30 * day}, expired: []int64{1, 2, 3, 4, 5, 6},
		},
		"named": {refs: main, o: ExpireOptions{SnapshotIDs: []int64{3, 2, 3}}, expired: []int64{2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			meta := snapshotsAt(t, now, 8, c.parents, c.refs, c.props)
			plan, err := planExpiry(meta, c.o, now)
			require.NoError(t, err)
			require.Equal(t, c.expired, append([]int64(nil), plan.ids()...))
			require.Equal(t, c.removed, plan.refs)
		})
	}
}

func TestRetentionRefusals(t *testing.T) {
	t.Parallel()
	now := time.Now().Add(30 * day)
	refs := map[string]table.SnapshotRef{
		"main": {SnapshotID: 3, SnapshotRefType: table.BranchRef}, "v1": {SnapshotID: 1, SnapshotRefType: table.TagRef},
	}
	for name, c := range map[string]struct {
		o     ExpireOptions
		props iceberg.Properties
		text  string
	}{
		"named and tagged":    {o: ExpireOptions{SnapshotIDs: []int64{1}}, text: "tag v1"},
		"named and the head":  {o: ExpireOptions{SnapshotIDs: []int64{3}}, text: "branch main"},
		"named and missing":   {o: ExpireOptions{SnapshotIDs: []int64{9}}, text: "not in the table"},
		"unreadable property": {props: iceberg.Properties{propMaxRefAge: "a week"}, text: propMaxRefAge},
	} {
		_, err := planExpiry(snapshotsAt(t, now, 3, nil, refs, c.props), c.o, now)
		require.ErrorIs(t, err, ErrRefused, name)
		require.ErrorContains(t, err, c.text, name)
	}
	require.ErrorIs(t, refuseCollection(iceberg.Properties{table.GCEnabledKey: "off"}), ErrRefused)
	require.NoError(t, refuseCollection(iceberg.Properties{table.GCEnabledKey: "TRUE"}))
	require.NoError(t, refuseCollection(nil))
}

func TestUpdatesAnExpiryMaySend(t *testing.T) {
	t.Parallel()
	ok := []table.Update{
		table.NewRemoveSnapshotsUpdate([]int64{1}, false), table.NewRemoveSnapshotRefUpdate("v1"), table.NewRemoveStatisticsUpdate(1),
		table.NewRemovePartitionStatisticsUpdate(1), table.NewRemoveSchemasUpdate([]int{1}), table.NewRemoveSpecUpdate([]int{1}),
	}
	kept, err := permitted(ok, expiryChange{})
	require.NoError(t, err)
	require.Equal(t, ok, kept)
	for _, u := range []table.Update{
		table.NewSetPropertiesUpdate(iceberg.Properties{"a": "b"}), table.NewSetSnapshotRefUpdate("main", 1, table.BranchRef, 0, 0, 0),
		table.NewSetLocationUpdate("x"), table.NewRemovePropertiesUpdate([]string{"a"}),
	} {
		_, err := permitted([]table.Update{u}, expiryChange{})
		require.ErrorIs(t, err, ErrHalt, u.Action())
	}
}

// One object has one key, however it is spelled; two objects have two.
func TestSpellingsOfOneObject(t *testing.T) {
	t.Parallel()
	for want, spellings := range map[string][]string{
		"s3://b/t/x":     {"s3://b/t/x", "s3a://b/t/x", "S3N://b/t/x"},
		"s3://b/t//x":    {"s3://b/t//x", "s3a://b/t//x"},
		"s3://b/t/a%20b": {"s3://b/t/a%20b"},
		"file:///t/x":    {"file:///t/x", "file:/t/x", "/t/x", "file://localhost/t/x", "/t//x", "file:///t/./x"},
		"gs://b/x":       {"gs://b/x"},
	} {
		for _, s := range spellings {
			require.Equal(t, want, objectKey(s), s)
		}
	}
}
