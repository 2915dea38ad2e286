package maintenance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	icebergcatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/store"
	"compactor/internal/store/storetest"
	"compactor/internal/tabletest"
)

const tenDays = 240 * time.Hour

// make creates a table in the world's catalog, with properties in pairs.
func (w *world) make(ident table.Identifier, opts ...icebergcatalog.CreateTableOpt) *table.Table {
	w.t.Helper()
	direct := w.open(nil)
	tabletest.Create(direct.Context(context.Background()), w.t, direct.Client(), ident, tabletest.Schema(), opts...)
	tbl, err := direct.LoadTable(context.Background(), ident)
	require.NoError(w.t, err)

	return tbl
}

func withProps(kv ...string) icebergcatalog.CreateTableOpt {
	p := iceberg.Properties{}
	for i := 0; i+1 < len(kv); i += 2 {
		p[kv[i]] = kv[i+1]
	}

	return icebergcatalog.WithProperties(p)
}

// plant writes a file below the folder, as old as age, and returns its path.
func (w *world) plant(folder, relative string, age time.Duration) string {
	w.t.Helper()
	p := strings.TrimPrefix(folder, "file://") + "/" + relative
	require.NoError(w.t, os.MkdirAll(filepath.Dir(p), 0o755))
	require.NoError(w.t, os.WriteFile(p, []byte("stray"), 0o600))
	w.age(p, age)

	return p
}

func (w *world) age(p string, age time.Duration) {
	w.t.Helper()
	at := time.Now().Add(-age)
	require.NoError(w.t, os.Chtimes(p, at, at))
}

// everything lists all files of the world but the catalog's database.
func (w *world) everything() []string {
	w.t.Helper()
	var out []string
	require.NoError(w.t, filepath.WalkDir(w.dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.Contains(filepath.Base(p), "catalog.db") {
			out = append(out, p)
		}

		return err
	}))

	return out
}

// old makes every file of the world ten days old, so that only references
// keep the live ones.
func (w *world) old() {
	for _, p := range w.everything() {
		w.age(p, tenDays)
	}
}

func (w *world) orphans(o OrphanOptions) (StepReport, error) {
	w.t.Helper()
	if o.OlderThan == 0 && !o.RiskInFlight {
		o.OlderThan = 72 * time.Hour
	}
	look, err := w.cat.LoadTable(context.Background(), w.ident)
	require.NoError(w.t, err)

	return w.m.Orphans(context.Background(), look, o)
}

// gone holds the world to have lost exactly the given files.
func (w *world) gone(before []string, want ...string) {
	w.t.Helper()
	now := w.everything()
	var lost []string
	for _, p := range before {
		if !slices.Contains(now, p) {
			lost = append(lost, p)
		}
	}
	require.ElementsMatch(w.t, want, lost)
	require.False(w.t, w.claim.held, "the claim is free")
}

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

// What is not committed yet is protected by the floor; a file without a time
// is kept.
func TestCase_C12_inFlight(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tbl := w.fragment(2)
	w.old()
	var uncommitted []string
	for i := range 4 {
		uncommitted = append(uncommitted, w.plant(tbl.Location(), fmt.Sprintf("data/in-flight-%d.parquet", i), time.Hour))
	}
	before := w.everything()
	for _, age := range []time.Duration{time.Nanosecond, time.Hour, 23 * time.Hour} {
		rep, err := w.orphans(OrphanOptions{OlderThan: age})
		require.ErrorIs(t, err, ErrRefused)
		require.Contains(t, rep.Reason, "24h")
		w.gone(before)
	}
	rep, err := w.orphans(OrphanOptions{OlderThan: 72 * time.Hour})
	require.NoError(t, err)
	require.Equal(t, StatusNothing, rep.Status)
	require.Equal(t, 4, rep.Orphans.Kept.Young)
	w.gone(before)
	_, err = w.orphans(OrphanOptions{RiskInFlight: true, OlderThan: 30 * time.Minute})
	require.NoError(t, err)
	w.gone(before, uncommitted...)
}

// shiftTimes changes what a listing tells about times.
type shiftTimes struct {
	store.Backend
	change func(*store.Object)
}

func (b shiftTimes) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		for o, err := range b.Backend.List(ctx, prefix) {
			if err == nil {
				b.change(&o)
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// The age is the difference of two times of the store's own clock; where the
// store does not tell one of them the file stays.
func TestOrphanAgesAreByTheStoresClock(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*store.Object)
		kept   OrphansKept
	}{
		"no time":                             {func(o *store.Object) { o.ModTime = time.Time{} }, OrphansKept{UnknownAge: 1}},
		"no clock":                            {func(o *store.Object) { o.Listed = time.Time{} }, OrphansKept{UnknownAge: 1}},
		"a clock nine and a half days behind": {func(o *store.Object) { o.Listed = o.Listed.Add(-228 * time.Hour) }, OrphansKept{Young: 1}},
		"written in the future":               {func(o *store.Object) { o.ModTime = o.Listed.Add(time.Hour) }, OrphansKept{Young: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, worldOptions{wrap: func(b store.Backend) store.Backend { return shiftTimes{b, c.change} }})
			tbl := w.fragment(2)
			w.plant(tbl.Location(), "data/stray.parquet", tenDays)
			before := w.everything()
			rep, err := w.orphans(OrphanOptions{})
			require.NoError(t, err)
			require.Equal(t, c.kept, rep.Orphans.Kept)
			w.gone(before)
		})
	}
}

// Deletes that the store refuses are counted and named; the next run removes
// the rest.
func TestCase_C19_deleteDenied(t *testing.T) {
	for _, denied := range []int{3, 10} {
		t.Run(fmt.Sprintf("%d of 10", denied), func(t *testing.T) {
			refuse := true
			w := newWorld(t, worldOptions{wrap: func(b store.Backend) store.Backend {
				return denyDeletes{b, func(p string) bool {
					return refuse && strings.Contains(p, "stray-") && p[len(p)-len("0.parquet")] < byte('0'+denied)
				}}
			}})
			tbl := w.fragment(2)
			var strays []string
			for i := range 10 {
				strays = append(strays, w.plant(tbl.Location(), fmt.Sprintf("data/stray-%d.parquet", i), tenDays))
			}
			before := w.everything()
			rep, err := w.orphans(OrphanOptions{})
			require.ErrorIs(t, err, ErrPartial)
			require.Equal(t, StatusPartial, rep.Status)
			require.Equal(t, []int{10, 10 - denied, denied, 0},
				[]int{rep.Orphans.Found, rep.Orphans.Deleted, rep.Orphans.Failed, rep.Orphans.Left})
			require.Len(t, rep.Failed, denied)
			w.gone(before, strays[denied:]...)
			refuse = false
			rep, err = w.orphans(OrphanOptions{})
			require.NoError(t, err)
			require.Equal(t, denied, rep.Orphans.Deleted)
			w.gone(before, strays...)
		})
	}
}

type denyDeletes struct {
	store.Backend
	deny func(path string) bool
}

func (b denyDeletes) Delete(ctx context.Context, paths []string) []store.DeleteFailure {
	var failed []store.DeleteFailure
	var rest []string
	for _, p := range paths {
		if b.deny(p) {
			failed = append(failed, store.DeleteFailure{Path: p, Err: os.ErrPermission})
		} else {
			rest = append(rest, p)
		}
	}

	return append(failed, b.Backend.Delete(ctx, rest)...)
}

// hookedClaimer runs something while the claim is waited for.
type hookedClaimer struct {
	*handClaim
	before, after func()
}

func (h hookedClaimer) Acquire(ctx context.Context, ident table.Identifier) (Claim, error) {
	if h.before != nil {
		h.before()
	}
	c, err := h.handClaim.Acquire(ctx, ident)
	if h.after != nil {
		h.after()
	}

	return c, err
}

// A file that was an orphan when the folders were listed and was committed
// since is live: the metadata is read again under the claim.
func TestOrphansKeepsWhatWasCommittedSinceTheListing(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tbl := w.fragment(3)
	rows := tabletest.Rows(t, tbl)
	// An old file that is a good data file, and that nobody references.
	live := strings.TrimPrefix(tabletest.Files(t, tbl)[0], "file://")
	raw, err := os.ReadFile(live)
	require.NoError(t, err)
	late := w.plant(tbl.Location(), "data/late.parquet", tenDays)
	require.NoError(t, os.WriteFile(late, raw, 0o600))
	w.age(late, tenDays)
	stray := w.plant(tbl.Location(), "data/stray.parquet", tenDays)
	before := w.everything()
	w.m.Claimer = hookedClaimer{handClaim: w.claim, before: func() {
		tx := w.load().NewTransaction()
		require.NoError(t, tx.AddFiles(context.Background(), []string{"file://" + late}, nil, false))
		_, err := tx.Commit(context.Background())
		require.NoError(t, err)
	}}
	rep, err := w.orphans(OrphanOptions{})
	require.NoError(t, err)
	require.Equal(t, 1, rep.Orphans.Rescued)
	require.Equal(t, 1, rep.Orphans.Deleted)
	w.gone(before, stray)
	require.Len(t, tabletest.Rows(t, w.load()), len(rows)+3)
}

// Under a lost claim nothing more is deleted.
func TestOrphansStopsWhenTheClaimIsLost(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"context ends":    func(w *world) { w.claim.lose(errors.New("session gone")) },
		"verify says no":  func(w *world) { w.claim.verify = ErrClaimLost },
		"while deleting":  nil,
		"claim not given": nil,
	} {
		t.Run(name, func(t *testing.T) {
			var w *world
			w = newWorld(t, worldOptions{wrap: storetest.New(func(c storetest.Call) storetest.Fault {
				if name == "while deleting" && c.Op == storetest.Delete {
					w.claim.lose(errors.New("session gone"))

					return storetest.Fault{Delay: time.Minute}
				}

				return storetest.Fault{}
			}).Wrap})
			tbl := w.fragment(2)
			w.plant(tbl.Location(), "data/stray.parquet", tenDays)
			before := w.everything()
			if lose != nil {
				w.m.Claimer = hookedClaimer{handClaim: w.claim, after: func() { lose(w) }}
			}
			want := ErrClaimLost
			if name == "claim not given" {
				want = ErrClaimHeld
				w.claim.held = true
			}
			rep, err := w.orphans(OrphanOptions{})
			w.claim.held = false
			require.ErrorIs(t, err, want)
			require.Equal(t, 1, rep.Orphans.Left)
			require.Zero(t, rep.Orphans.Deleted)
			w.gone(before)
		})
	}
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

// Every read that planning needs may fail once: then nothing is deleted.
func TestOrphansEveryReadMayFail(t *testing.T) {
	for n := 0; ; n++ {
		armed, seen, failed := false, 0, false
		w := newWorld(t, worldOptions{wrap: storetest.New(func(c storetest.Call) storetest.Fault {
			if !armed || c.Op == storetest.Delete {
				return storetest.Fault{}
			}
			seen++
			if seen-1 != n {
				return storetest.Fault{}
			}
			failed = true

			return storetest.Fault{Err: storetest.ErrInjected}
		}).Wrap})
		tbl := w.fragment(3)
		w.old()
		stray := w.plant(tbl.Location(), "data/stray.parquet", tenDays)
		before := w.everything()
		look, err := w.cat.LoadTable(context.Background(), w.ident)
		require.NoError(t, err)
		armed = true
		_, err = w.m.Orphans(context.Background(), look, OrphanOptions{OlderThan: 72 * time.Hour})
		armed = false
		if !failed {
			require.NoError(t, err)
			require.Greater(t, n, 8, "the sweep reached the end")
			w.gone(before, stray)

			return
		}
		require.Error(t, err, "call %d", n)
		w.gone(before)
		_, err = w.orphans(OrphanOptions{})
		require.NoError(t, err)
		w.gone(before, stray)
	}
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

// forgetful is a catalog whose answers leave out all snapshots but the head.
type forgetful struct{ *hookedCatalog }

func (f forgetful) LoadTable(ctx context.Context, ident table.Identifier) (*table.Table, error) {
	tbl, err := f.hookedCatalog.LoadTable(ctx, ident)
	if err != nil {
		return nil, err
	}
	b, err := table.MetadataBuilderFromBase(tbl.Metadata(), tbl.MetadataLocation())
	if err != nil {
		return nil, err
	}
	var others []int64
	for _, s := range tbl.Metadata().Snapshots() {
		if s.SnapshotID != tbl.CurrentSnapshot().SnapshotID {
			others = append(others, s.SnapshotID)
		}
	}
	if err := b.RemoveSnapshots(others, false); err != nil {
		return nil, err
	}
	meta, err := b.Build()
	if err != nil {
		return nil, err
	}

	return table.New(tbl.Identifier(), meta, tbl.MetadataLocation(), tbl.FS, f), nil
}

// The metadata file counts, whatever the catalog's answer leaves out.
func TestOrphansDoesNotTrustAnAnswerWithoutSnapshots(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.fragment(5)
	_, err := w.compact(CompactOptions{})
	require.NoError(t, err)
	w.old()
	stray := w.plant(w.load().Location(), "data/stray.parquet", tenDays)
	before := w.everything()
	cat := forgetful{w.cat}
	w.m.Catalog = cat
	look, err := cat.LoadTable(context.Background(), w.ident)
	require.NoError(t, err)
	require.Len(t, look.Metadata().Snapshots(), 1)
	_, err = w.m.Orphans(context.Background(), look, OrphanOptions{OlderThan: 72 * time.Hour})
	require.NoError(t, err)
	w.gone(before, stray)
}
