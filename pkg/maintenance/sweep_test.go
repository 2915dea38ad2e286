package maintenance

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"compactor/internal/store/storetest"
	"compactor/internal/tabletest"
)

// Every call to the store fails once, in a run of its own. Whatever fails, the
// table reads back the same rows, no live file is gone, the claim is free, and
// a run without a fault then does the work.
func TestEveryStoreCallMayFail(t *testing.T) {
	for n := 0; ; n++ {
		var armed atomic.Bool
		var seen, failed atomic.Int64
		faults := storetest.New(func(c storetest.Call) storetest.Fault {
			if !armed.Load() || seen.Add(1) != int64(n+1) {
				return storetest.Fault{}
			}
			failed.Store(1)
			t.Logf("call %d: %s %s", n, c.Op, c.Path[strings.LastIndex(c.Path, "/")+1:])

			return storetest.Fault{Err: storetest.ErrInjected}
		})
		w := newWorld(t, worldOptions{wrap: faults.Wrap})
		tbl := w.fragment(5)
		rows, files := tabletest.Rows(t, tbl), w.files()
		armed.Store(true)
		rep, err := w.compact(CompactOptions{Verify: true})
		armed.Store(false)
		require.False(t, w.claim.held, "call %d: the claim is free", n)
		now := w.load()
		require.Equal(t, rows, tabletest.Rows(t, now), "call %d", n)
		require.Subset(t, w.files(), files, "call %d: an input is gone", n)
		if failed.Load() == 0 {
			require.NoError(t, err)
			require.Greater(t, n, 20, "the sweep reached the end")

			return
		}
		if err != nil && now.MetadataLocation() == tbl.MetadataLocation() {
			left := slices.DeleteFunc(w.files(), func(p string) bool { return slices.Contains(rep.Kept, "file://"+p) })
			require.Equal(t, files, left, "call %d: %s: a failed run left files it did not name (%v)", n, rep.Status, err)
			require.True(t, rep.Status == StatusAmbiguous || len(rep.Kept) == 0, "call %d: %s kept files", n, rep.Status)
			_, err = w.compact(CompactOptions{})
			require.NoError(t, err, "call %d: the next run", n)
		}
		require.Len(t, tabletest.Files(t, w.load()), 1, "call %d", n)
		require.Equal(t, rows, tabletest.Rows(t, w.load()), "call %d", n)
	}
}
