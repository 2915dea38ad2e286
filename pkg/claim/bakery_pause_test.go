package claim_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/pkg/claim"
)

// TestBakeryAcquireSurvivesAPauseAtAnyMoment: the process stands still for a window, at every point of an Acquire in turn where it looks at
// its clock. Whatever it had by then it gives up and asks for again.
func TestBakeryAcquireSurvivesAPauseAtAnyMoment(t *testing.T) {
	t.Parallel()
	const window = 20 * time.Second
	dbs := bakeryMesh(t, 3, 18)
	for moment := int64(1); ; moment++ {
		var looks, offset atomic.Int64
		clock := func() time.Time {
			if looks.Add(1) == moment {
				offset.Store(int64(window))
			}
			return time.Now().Add(time.Duration(offset.Load()))
		}
		c := open(t, claim.Config{Mode: claim.ModeBakery, DSN: dbs[0].DSN, Window: window, Now: clock})
		looks.Store(0)
		held, err := c.Acquire(t.Context(), faultKey("paused"), claim.AcquireOptions{})
		require.NoError(t, err, "pause at look %d", moment)
		paused := offset.Load() > 0
		_, err = held.Verify(t.Context())
		if err != nil { // The pause came when the claim was there.
			require.ErrorIs(t, err, claim.ErrLost, "pause at look %d", moment)
		}
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, c.Close())
		if !paused {
			require.Greater(t, moment, int64(10), "an Acquire looks at its clock more often")
			return
		}
	}
}
