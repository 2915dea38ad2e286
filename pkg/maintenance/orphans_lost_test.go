package maintenance

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// change commits updates past the program.
func (w *world) change(updates ...table.Update) {
	w.t.Helper()
	_, _, err := w.cat.Catalog.CommitTable(context.Background(), w.ident, nil, updates)
	require.NoError(w.t, err)
}

// removed is a snapshot and what alone it leads to.
type removed struct {
	id   int64
	list string
}

func dropTag() table.Update { return table.NewRemoveSnapshotRefUpdate("audit") }

func (r removed) tag(maxAge int64) table.Update {
	return table.NewSetSnapshotRefUpdate("audit", r.id, table.TagRef, maxAge, 0, 0)
}

func (r removed) drop() table.Update { return table.NewRemoveSnapshotsUpdate([]int64{r.id}, false) }

// A tag that disappears together with its snapshot was lost, unless it was past
// its age; one that was dropped before was not. While the snapshot's manifest
// list exists its files stay, until the loss is accepted or the tag is made anew.
func TestOrphansKeepTheFilesOfALostTag(t *testing.T) {
	for name, c := range map[string]struct {
		do      func(w *world, r removed)
		accept  []string
		refused bool
	}{
		"lost": {refused: true, do: func(w *world, r removed) {
			w.change(r.tag(0))
			w.change(dropTag(), r.drop())
		}},
		"lost some commits ago": {refused: true, do: func(w *world, r removed) {
			w.change(r.tag(0))
			w.change(dropTag(), r.drop())
			w.change(table.NewSetPropertiesUpdate(map[string]string{"a": "b"}))
			w.change(table.NewSetPropertiesUpdate(map[string]string{"a": "c"}))
		}},
		"lost, another one is accepted": {refused: true, accept: []string{"main"}, do: func(w *world, r removed) {
			w.change(r.tag(0))
			w.change(dropTag(), r.drop())
		}},
		"lost and accepted": {accept: []string{"audit"}, do: func(w *world, r removed) {
			w.change(r.tag(0))
			w.change(dropTag(), r.drop())
		}},
		"lost and made anew": {do: func(w *world, r removed) {
			w.change(r.tag(0))
			w.change(dropTag(), r.drop())
			head := w.load().CurrentSnapshot().SnapshotID
			w.change(removed{id: head}.tag(0))
			w.change(dropTag())
		}},
		"lost, and nothing is left to read": {do: func(w *world, r removed) {
			w.change(r.tag(0))
			w.change(dropTag(), r.drop())
			require.NoError(w.t, os.Remove(strings.TrimPrefix(r.list, "file://")))
		}},
		"past its age": {do: func(w *world, r removed) {
			w.change(r.tag(1))
			w.change(dropTag(), r.drop())
		}},
		"dropped before": {do: func(w *world, r removed) {
			w.change(r.tag(0))
			w.change(dropTag())
			w.change(r.drop())
		}},
		"in a state that is gone": {do: func(w *world, r removed) {
			w.change(r.tag(0))
			tagged := w.load().MetadataLocation()
			w.change(dropTag(), r.drop())
			require.NoError(w.t, os.Remove(strings.TrimPrefix(tagged, "file://")))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, worldOptions{})
			tbl := w.expirable(4)
			snap := tbl.Metadata().Snapshots()[0]
			r := removed{id: snap.SnapshotID, list: snap.ManifestList}
			c.do(w, r)
			require.Nil(t, w.load().SnapshotByID(r.id))
			w.old()
			stray := w.plant(tbl.Location(), "data/stray.parquet", tenDays)
			before, claims := w.everything(), w.claim.acquired
			rep, err := w.orphans(OrphanOptions{AcceptLostRefs: c.accept})
			if c.refused {
				require.ErrorIs(t, err, ErrRefused)
				require.Contains(t, rep.Reason, "tag audit")
				w.gone(before)
				require.Equal(t, claims, w.claim.acquired, "it is seen before the claim is taken")

				return
			}
			require.NoError(t, err)
			require.Equal(t, StatusDone, rep.Status)
			require.NoFileExists(t, stray)
			require.NoFileExists(t, strings.TrimPrefix(r.list, "file://"))
		})
	}
}

// A tag that is lost while the orphans wait for the claim is seen under it.
func TestOrphansSeeATagThatIsLostWhileTheyWait(t *testing.T) {
	w := newWorld(t, worldOptions{})
	tbl := w.expirable(4)
	snap := tbl.Metadata().Snapshots()[0]
	r := removed{id: snap.SnapshotID}
	w.old()
	w.plant(tbl.Location(), "data/stray.parquet", tenDays)
	before := w.everything()
	w.m.Claimer = hookedClaimer{handClaim: w.claim, before: func() {
		w.change(r.tag(0))
		w.change(dropTag(), r.drop())
	}}
	rep, err := w.orphans(OrphanOptions{})
	require.ErrorIs(t, err, ErrRefused)
	require.Contains(t, rep.Reason, "tag audit")
	w.gone(before)
}
