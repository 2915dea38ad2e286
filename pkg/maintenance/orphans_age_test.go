package maintenance

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/store"
)

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
