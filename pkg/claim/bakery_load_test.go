package claim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBakeryLoadRejectsNothing: six writers on three nodes who all want one table, with a commit that is long on its way now and then.
func TestBakeryLoadRejectsNothing(t *testing.T) {
	t.Parallel()
	for _, major := range []int{15, 18} {
		t.Run(fmt.Sprintf("PostgreSQL %d", major), func(t *testing.T) {
			t.Parallel()
			var dsns []string
			for _, db := range bakeryMesh(t, 3, major) {
				dsns = append(dsns, db.DSN)
			}
			writers, h := newWriters(t, dsns, 2, 20*time.Second)
			for _, w := range writers {
				w.pace.Way, w.pace.Slow = 300*time.Millisecond, 50
			}
			started := time.Now()
			require.NoError(t, runWriters(t.Context(), 334, writers))
			t.Logf("%d commits, %.0f a second", h.count(), float64(h.count())/time.Since(started).Seconds())
			require.Zero(t, h.requireSound(t))
			require.GreaterOrEqual(t, h.count(), 2000)
		})
	}
}
