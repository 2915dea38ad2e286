package maintenance

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	icebergcatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
)

// Tables whose collection is switched off are refused, dry run or not.
func TestCase_C6_collectionOff(t *testing.T) {
	for _, v := range []string{"false", "FALSE", "no"} {
		for _, dry := range []bool{true, false} {
			w := newWorld(t, worldOptions{})
			tbl := w.make(w.ident, withProps("gc.enabled", v))
			tabletest.Fragment(t, tbl, 3, 2)
			w.plant(tbl.Location(), "data/stray.parquet", tenDays)
			before := w.everything()
			rep, err := w.orphans(OrphanOptions{DryRun: dry})
			require.ErrorIs(t, err, ErrRefused)
			require.Equal(t, StatusRefused, rep.Status)
			require.Contains(t, rep.Reason, "gc.enabled")
			w.gone(before)
			require.Zero(t, w.claim.acquired)
		}
	}
}

// Data that lies outside of the table's location is neither lost nor listed
// unasked, and a report names the folders that were not listed.
func TestCase_C7_dataOutside(t *testing.T) {
	for _, objectStorage := range []string{"false", "true"} {
		t.Run("object storage "+objectStorage, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			elsewhere := "file://" + filepath.Join(w.dir, "elsewhere", "t1")
			tbl := w.make(w.ident, withProps(table.WriteDataPathKey, elsewhere, table.ObjectStoreEnabledKey, objectStorage))
			tbl = tabletest.Fragment(t, tbl, 3, 2)
			rows := tabletest.Rows(t, tbl)
			require.Contains(t, tabletest.Files(t, tbl)[0], elsewhere)
			w.old()
			inside := w.plant(tbl.Location(), "data/stray.parquet", tenDays)
			outside := w.plant(elsewhere, "0101/stray.parquet", tenDays)
			w.plant(elsewhere+"0", "neighbour.parquet", tenDays)
			before := w.everything()

			rep, err := w.orphans(OrphanOptions{})
			require.NoError(t, err)
			w.gone(before, inside)
			require.Equal(t, []string{elsewhere}, rep.Orphans.Unlisted)
			require.Contains(t, rep.Reason, elsewhere, "the message names the folder that was not listed")

			rep, err = w.orphans(OrphanOptions{Locations: []string{elsewhere + "/"}})
			require.NoError(t, err)
			w.gone(before, inside, outside)
			require.Empty(t, rep.Orphans.Unlisted)
			require.Equal(t, rows, tabletest.Rows(t, w.load()))
		})
	}
}

// Folders that have nothing to do with the table, or hold more than it, are
// refused.
func TestOrphansRefusesForeignLocations(t *testing.T) {
	w := newWorld(t, worldOptions{})
	elsewhere := "file://" + filepath.Join(w.dir, "elsewhere", "t1")
	tbl := tabletest.Fragment(t, w.make(w.ident, withProps(table.WriteDataPathKey, elsewhere)), 3, 2)
	w.plant("file://"+w.dir, "other/file.parquet", tenDays)
	before := w.everything()
	for _, l := range []string{
		"file://" + filepath.Join(w.dir, "other"), filepath.Dir(elsewhere), "file://" + filepath.Join(w.dir, "elsewhere"),
		"file://" + w.dir, "file:///", "/", "s3://bucket", "s3://bucket/other", filepath.Dir(strings.TrimPrefix(tbl.Location(), "file://")),
	} {
		rep, err := w.orphans(OrphanOptions{Locations: []string{l}})
		require.ErrorIs(t, err, ErrRefused, l)
		require.Equal(t, StatusRefused, rep.Status, l)
		w.gone(before)
	}
}

// A table below the table is skipped and named; one in the same folder is a
// reason to do nothing.
func TestCase_C8_nestedTables(t *testing.T) {
	t.Run("below", func(t *testing.T) {
		w := newWorld(t, worldOptions{})
		a := tabletest.Fragment(t, w.make(w.ident), 2, 2)
		b := tabletest.Fragment(t, w.make(table.Identifier{"ns", "b"}, icebergcatalog.WithLocation(a.Location()+"/b")), 3, 2)
		w.old()
		stray := w.plant(a.Location(), "data/stray.parquet", tenDays)
		w.plant(b.Location(), "data/stray.parquet", tenDays)
		before := w.everything()
		rep, err := w.orphans(OrphanOptions{})
		require.NoError(t, err)
		w.gone(before, stray)
		require.Len(t, rep.Orphans.Skipped, 1)
		require.Equal(t, b.Location(), rep.Orphans.Skipped[0].What)
		require.Contains(t, rep.Reason, b.Location())
		require.Positive(t, rep.Orphans.Kept.OtherTables)
	})
	t.Run("same location", func(t *testing.T) {
		w := newWorld(t, worldOptions{})
		a := tabletest.Fragment(t, w.make(w.ident), 2, 2)
		b := tabletest.Fragment(t, w.make(table.Identifier{"ns", "b"}, icebergcatalog.WithLocation(a.Location())), 3, 2)
		w.old()
		w.plant(a.Location(), "data/stray.parquet", tenDays)
		before := w.everything()
		rep, err := w.orphans(OrphanOptions{})
		require.ErrorIs(t, err, ErrRefused)
		require.Contains(t, rep.Reason, "shared location")
		require.Contains(t, rep.Reason, b.Metadata().TableUUID().String())
		w.gone(before)
	})
	t.Run("metadata of the other table in a folder of its own", func(t *testing.T) {
		w := newWorld(t, worldOptions{})
		a := tabletest.Fragment(t, w.make(w.ident), 2, 2)
		b := tabletest.Fragment(t, w.make(table.Identifier{"ns", "b"}, icebergcatalog.WithLocation(a.Location()+"/b"),
			withProps(table.WriteMetadataPathKey, a.Location()+"/z-meta")), 3, 2)
		w.old()
		before := w.everything()
		rep, err := w.orphans(OrphanOptions{})
		require.NoError(t, err)
		w.gone(before)
		require.Contains(t, rep.Reason, b.Location(), "the location is read from the other table's metadata")
	})
}

// Rewritten files go where the table's new files go, so that a later removal of
// orphans finds them where it looks.
func TestCase_C7_rewrittenFilesGoToTheDataPath(t *testing.T) {
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "b", Transform: iceberg.BucketTransform{NumBuckets: 2}})
	for name, c := range map[string]struct {
		objectStorage string
		opts          []icebergcatalog.CreateTableOpt
	}{
		"plain": {"false", nil}, "object storage": {"true", nil},
		"partitioned":                 {"false", []icebergcatalog.CreateTableOpt{icebergcatalog.WithPartitionSpec(&spec)}},
		"partitioned, object storage": {"true", []icebergcatalog.CreateTableOpt{icebergcatalog.WithPartitionSpec(&spec)}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			elsewhere := "file://" + filepath.Join(w.dir, "elsewhere", "t1")
			tbl := w.make(w.ident, append(c.opts, withProps(table.WriteDataPathKey, elsewhere, table.ObjectStoreEnabledKey, c.objectStorage))...)
			tbl = tabletest.Fragment(t, tbl, 6, 6)
			rows := tabletest.Rows(t, tbl)
			rep, err := w.compact(CompactOptions{})
			require.NoError(t, err)
			require.Equal(t, StatusDone, rep.Status)
			for _, f := range tabletest.Files(t, w.load()) {
				require.True(t, placeOf(f).below(folderOf(elsewhere)), f)
			}
			require.Equal(t, rows, tabletest.Rows(t, w.load()))
		})
	}
}
