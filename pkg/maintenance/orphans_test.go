package maintenance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
)

func TestOrphansRemovesExactlyTheStrays(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tbl := w.fragment(5)
	rows := tabletest.Rows(t, tbl)
	w.old()
	loc := tbl.Location()
	var strays []string
	for _, name := range []string{
		"data/stray.parquet", "data/p=a%2Fb/x y.parquet", "data/a+b&c=d.parquet", "data/käse 🧀.parquet", "data/%zz.parquet",
		"metadata/stray.avro", "metadata/snap-1.avro", "stray", "data/deep/er/and/deeper/x.bin", "data/a#b?c.parquet",
	} {
		strays = append(strays, w.plant(loc, name, tenDays))
	}
	for _, name := range []string{
		"data/_temporary/x.parquet", "data/.hidden", "_SUCCESS", "metadata/v9.metadata.json", "metadata/version-hint.text",
		"metadata/1.gz.metadata.json", "data/not-a-table.metadata.json",
	} {
		w.plant(loc, name, tenDays)
	}
	w.plant(loc, "data/young.parquet", 71*time.Hour)
	w.plant(strings.TrimSuffix(loc, "/")+"2", "data/neighbour.parquet", tenDays)
	before := w.everything()

	dry, err := w.orphans(OrphanOptions{DryRun: true})
	require.NoError(t, err)
	require.Equal(t, StatusPlanned, dry.Status)
	w.gone(before)
	require.Zero(t, w.claim.acquired, "a dry run takes no claim")
	planned := make([]string, 0, len(dry.Orphans.Files))
	for _, f := range dry.Orphans.Files {
		planned = append(planned, strings.TrimPrefix(f.Path, "file://"))
		require.EqualValues(t, len("stray"), f.Bytes)
	}
	require.ElementsMatch(t, strays, planned)
	require.Equal(t, OrphansKept{Young: 1, Hidden: 3, Metadata: 4}, dry.Orphans.Kept)

	rep, err := w.orphans(OrphanOptions{})
	require.NoError(t, err)
	require.Equal(t, StatusDone, rep.Status)
	w.gone(before, strays...)
	require.Equal(t, len(strays), rep.Orphans.Deleted)
	require.EqualValues(t, len(strays)*len("stray"), rep.Orphans.Bytes)
	require.Equal(t, 1, w.claim.acquired)
	require.Zero(t, w.cat.commits, "no commit")
	require.Equal(t, rows, tabletest.Rows(t, w.load()))

	again, err := w.orphans(OrphanOptions{})
	require.NoError(t, err)
	require.Equal(t, StatusNothing, again.Status)
	require.Equal(t, 1, w.claim.acquired, "nothing to do takes no claim")
}

// Files of older snapshots, of tags, and statistics files are referenced.
func TestOrphansKeepsTheFilesOfEverySnapshot(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.fragment(5)
	before, err := w.compact(CompactOptions{})
	require.NoError(t, err)
	require.NotNil(t, before.SnapshotAfter)
	stats := w.plant(w.load().Location(), "metadata/stats.puffin", tenDays)
	_, _, err = w.cat.Catalog.CommitTable(context.Background(), w.ident, nil, []table.Update{
		table.NewSetStatisticsUpdate(table.StatisticsFile{
			SnapshotID: *before.SnapshotAfter, StatisticsPath: "file://" + stats, FileSizeInBytes: 5, FileFooterSizeInBytes: 1,
		}),
	})
	require.NoError(t, err)
	w.old()
	files := w.everything()
	rep, err := w.orphans(OrphanOptions{})
	require.NoError(t, err)
	require.Equal(t, StatusNothing, rep.Status)
	w.gone(files)
}

// One claim is not held longer than asked for, and max_rounds bounds the claims.
func TestOrphansDeletesInRounds(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tbl := w.fragment(2)
	for i := range 2500 {
		w.plant(tbl.Location(), fmt.Sprintf("data/stray-%04d.parquet", i), tenDays)
	}
	rep, err := w.orphans(OrphanOptions{MaxHold: time.Nanosecond, MaxRounds: 1, MaxShare: 1})
	require.NoError(t, err)
	require.Equal(t, []int{1000, 1500}, []int{rep.Orphans.Deleted, rep.Orphans.Left})
	require.Contains(t, rep.Reason, "1500 left")
	rep, err = w.orphans(OrphanOptions{MaxHold: time.Nanosecond, MaxShare: 1})
	require.NoError(t, err)
	require.Equal(t, 1500, rep.Orphans.Deleted)
	require.Len(t, rep.Rounds, 2)
	require.Equal(t, 3, w.claim.acquired)
}

// When most of a folder looks like orphans something else is wrong.
func TestOrphansStopsAtAShare(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tbl := w.fragment(2)
	for i := range 99 {
		w.plant(tbl.Location(), fmt.Sprintf("data/stray-%04d.parquet", i), tenDays)
	}
	rep, err := w.orphans(OrphanOptions{DryRun: true})
	require.NoError(t, err, "fewer than a hundred are no sign")
	require.Equal(t, 99, rep.Orphans.Found)
	w.plant(tbl.Location(), "data/stray-last.parquet", tenDays)
	before := w.everything()
	rep, err = w.orphans(OrphanOptions{})
	require.ErrorIs(t, err, ErrRefused)
	require.Contains(t, rep.Reason, "share")
	w.gone(before)
	rep, err = w.orphans(OrphanOptions{MaxShare: 0.99})
	require.NoError(t, err)
	require.Equal(t, 100, rep.Orphans.Deleted)
}

// A memory budget that is too small for the list is refused with the value it
// would need.
func TestOrphansNamesTheMemoryItNeeds(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tbl := w.fragment(2)
	for i := range 50 {
		w.plant(tbl.Location(), fmt.Sprintf("data/stray-%04d.parquet", i), tenDays)
	}
	rep, err := w.orphans(OrphanOptions{Memory: 4000})
	require.ErrorIs(t, err, ErrRefused)
	require.Contains(t, rep.Reason, "memory budget")
}
