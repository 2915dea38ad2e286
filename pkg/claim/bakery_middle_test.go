package claim_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/pkg/claim"
)

// TestBakeryContactLostAndFoundInTheMiddleOfAClaim has a node lose its peers and find them again while somebody holds the table.
func TestBakeryContactLostAndFoundInTheMiddleOfAClaim(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 15)
	t.Run("the commit's answer ends its time", func(t *testing.T) { c.commitAnswered(t, "answered") })
	t.Run("an isolated node comes back", func(t *testing.T) { c.comeBack(t, "back") })
}

// loseContact has a holder verify its claim for as long as it can while its node is cut off, and then connects the node again. It returns
// the holder, the last deadline that a commit was given, and what the next writer, on another node, gets.
func (c *cluster) loseContact(t *testing.T, table, without string) (first *claim.Claim, deadline time.Time, next <-chan *claim.Claim) {
	a, b := c.claimerOn(t, 0, without), c.claimerOn(t, 1, without)
	first = tryWithin(t, a, table, forEver)
	require.NotNil(t, first)
	next = acquireBeside(t, b, table)
	c.cut(0, 1)
	c.cut(0, 2)
	deadline = verifyUntilLost(t, first)
	c.heal()
	return first, deadline, next
}

// commitInFlight: a node loses its majority right after its writer has verified the claim and sent the commit, and finds the others again
// at once. The writer learns that the claim is lost, but the claim itself stays where it is until the time is over that was promised to
// the commit: whoever got the table before would read a head that the commit is about to move.
func commitInFlight(t *testing.T, c *cluster, table, without string) bool {
	first, deadline, next := c.loseContact(t, table, without)
	second := <-next
	require.NotNil(t, second)
	c.giveBack(t, first, second)
	return !second.AcquiredAt().Before(deadline)
}

// commitAnswered: the same, but the commit is answered and the claim released before its time is over.
func (c *cluster) commitAnswered(t *testing.T, table string) {
	first, _, next := c.loseContact(t, table, "")
	_, err := first.Verify(t.Context())
	require.ErrorIs(t, err, claim.ErrLost, "the verdict stays")
	released := time.Now()
	require.NoError(t, first.Release(t.Context()))
	second := <-next
	require.NotNil(t, second)
	require.False(t, second.AcquiredAt().Before(released))
	c.giveBack(t, second)
}

// comeBack: of two writers that wait, the first is cut off; the second goes on without it, and while it works the first comes back.
func (c *cluster) comeBack(t *testing.T, table string) {
	key := faultKey(table).String()
	first := tryWithin(t, c.claimerOn(t, 2, ""), table, forEver)
	require.NotNil(t, first)
	seen := func(node, of int, but string) []string {
		return c.rows(node, fmt.Sprintf("SELECT ticket::text FROM bakery.claims WHERE table_name = '%s' AND node = %d AND ticket <> %s", key, of+1, but))
	}
	cutOff := acquireBeside(t, c.claimerOn(t, 0, ""), table)
	within(t, forEver, "the claim of node 1 is known", func() bool { return len(seen(1, 0, "0")) == 1 && len(seen(2, 0, "0")) == 1 }, func() string { return "" })
	early := seen(1, 0, "0")[0]
	goesOn := acquireBeside(t, c.claimerOn(t, 1, ""), table)
	within(t, forEver, "the claim of node 2 is known", func() bool { return len(seen(0, 1, "0")) == 1 && len(seen(2, 1, "0")) == 1 }, func() string { return "" })
	c.cut(0, 1)
	c.cut(0, 2)
	require.NoError(t, first.Release(t.Context()))
	second := <-goesOn
	require.NotNil(t, second)
	c.heal()
	within(t, forEver, "node 1 asks again", func() bool { return len(seen(1, 0, early)) == 1 }, func() string { return fmt.Sprint(seen(1, 0, "0")) })
	pause(t.Context(), controlWindow/4)
	require.True(t, ours(t, second), "the holder is not disturbed")
	require.Empty(t, cutOff, "the node that is back waits")
	released := time.Now()
	require.NoError(t, second.Release(t.Context()))
	third := <-cutOff
	require.NotNil(t, third)
	require.False(t, third.AcquiredAt().Before(released))
	require.Greater(t, ticketOf(t, third), ticketOf(t, second))
	c.giveBack(t, third)
}

// acquireBeside takes a claim in the background, or nil when that fails.
func acquireBeside(t *testing.T, c claim.Claimer, table string) <-chan *claim.Claim {
	granted := make(chan *claim.Claim, 1)
	go func() {
		held, err := c.Acquire(context.WithoutCancel(t.Context()), faultKey(table), claim.AcquireOptions{Timeout: forEver})
		if err != nil {
			t.Errorf("acquire beside: %v", err)
		}
		granted <- held
	}()
	return granted
}

// ticketOf is the number of a claim.
func ticketOf(t *testing.T, held *claim.Claim) int64 {
	t.Helper()
	ticket, err := strconv.ParseInt(held.Ticket(), 10, 64)
	require.NoError(t, err)
	return ticket
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
