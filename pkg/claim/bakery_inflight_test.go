package claim_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/pkg/claim"
)

// TestBakeryCommitInFlightKeepsItsClaim: a node loses its majority right after its writer has verified the claim and sent the commit,
// and finds the others again at once. The writer learns that the claim is lost, but the claim itself stays where it is until the time
// is over that was promised to the commit: whoever got the table before would read a head that the commit is about to move.
func TestBakeryCommitInFlightKeepsItsClaim(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 15)
	a, b := c.claimerOn(t, 0, ""), c.claimerOn(t, 1, "")
	for _, end := range []struct {
		name string
		// done ends the wait for the commit's answer and returns when the next writer may get in.
		done func(t *testing.T, first *claim.Claim, deadline time.Time) time.Time
	}{
		{"until the deadline", func(_ *testing.T, _ *claim.Claim, deadline time.Time) time.Time { return deadline }},
		{"until it is released", func(t *testing.T, first *claim.Claim, _ time.Time) time.Time {
			_, err := first.Verify(t.Context())
			require.ErrorIs(t, err, claim.ErrLost, "the verdict stays")
			released := time.Now()
			require.NoError(t, first.Release(t.Context()))
			return released
		}},
	} {
		t.Run(end.name, func(t *testing.T) {
			first := tryWithin(t, a, end.name, 20*time.Second)
			require.NotNil(t, first)
			granted := make(chan *claim.Claim, 1)
			go func() { granted <- tryWithin(t, b, end.name, 10*controlWindow) }()
			c.cut(0, 1)
			c.cut(0, 2)
			deadline := verifyUntilLost(t, first)
			c.heal()
			free := end.done(t, first, deadline)
			second := <-granted
			require.NotNil(t, second)
			require.False(t, second.AcquiredAt().Before(free), "granted %s before the commit's time was over", free.Sub(second.AcquiredAt()))
			c.giveBack(t, first, second)
		})
	}
}

// verifyUntilLost asks again and again, as for a commit each time, and returns the last deadline that was given.
func verifyUntilLost(t *testing.T, held *claim.Claim) (deadline time.Time) {
	t.Helper()
	for {
		until, err := held.Verify(context.WithoutCancel(t.Context()))
		if err != nil {
			require.ErrorIs(t, err, claim.ErrLost)
			require.False(t, deadline.IsZero(), "verified at least once")
			return deadline
		}
		deadline = until
		pause(held.Context(), controlWindow/50)
	}
}
