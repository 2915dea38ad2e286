package maintenance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/store"
	"compactor/internal/store/storetest"
	"compactor/internal/tabletest"
)

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
