package claim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"compactor/pkg/claim"
)

// controlWindow leaves a busy machine enough time: half of it is the lease.
const controlWindow = 5 * time.Second

// TestBakeryClientProtectionsAreNeeded plays one partition for each rule that the client follows: with the rule nothing goes wrong,
// and without it something does, which shows that the scenario can see the fault. The rules that live in the database have the same in
// package claim/bakery.
func TestBakeryClientProtectionsAreNeeded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 15)
	for i, control := range []struct {
		name string
		// sound plays the scenario and tells whether no two writers were inside at once and tickets were in order.
		sound func(t *testing.T, c *cluster, table, without string) bool
	}{
		{"majority", isolatedNodeStaysOut},
		{"lease", heldWhileIsolated},
		{"agreement", brokenLink},
		{"resync", lateClockAfterIsolation},
		{"commit in flight", commitInFlight},
		{"verify before the commit", commitAfterALoss},
	} {
		t.Run(control.name, func(t *testing.T) {
			require.True(t, control.sound(t, c, fmt.Sprintf("with%d", i), ""), "with the protection")
			wrong := false
			for try := 0; try < 3 && !wrong; try++ { // A pause of a busy machine can keep a fault from showing.
				wrong = !control.sound(t, c, fmt.Sprintf("without%d, %d", i, try), control.name)
			}
			require.True(t, wrong, "without it the scenario goes wrong")
		})
	}
}

// claimerOn opens a claimer on a node, without one protection if it is named.
func (c *cluster) claimerOn(t *testing.T, node int, without string) claim.Claimer {
	t.Helper()
	opened, err := claim.Open(t.Context(), claim.Config{Mode: claim.ModeBakery, DSN: c.plan.Nodes[node].DSN,
		Holder: "writer on n" + strconv.Itoa(node+1), Window: controlWindow, Logger: zerolog.New(zerolog.NewTestWriter(t)).With().Timestamp().Logger()})
	require.NoError(t, err)
	if without != "" && without != "verify before the commit" { // That one is the writer's own.
		claim.WithoutProtection(t, opened, without)
	}
	t.Cleanup(func() { _ = opened.Close() })
	return opened
}

// tryWithin tries to get the claim for a while.
func tryWithin(t *testing.T, c claim.Claimer, table string, limit time.Duration) *claim.Claim {
	t.Helper()
	held, err := c.Acquire(t.Context(), claim.Key{Realm: "lake", Namespace: []string{"s"}, Table: table}, claim.AcquireOptions{Timeout: limit})
	if err != nil {
		require.ErrorIs(t, err, claim.ErrHeld)
		return nil
	}
	return held
}

// ours tells whether the holder would commit now.
func ours(t *testing.T, held *claim.Claim) bool {
	t.Helper()
	if held == nil {
		return false
	}
	_, err := held.Verify(context.WithoutCancel(t.Context()))
	return err == nil
}

// giveBack ends a scenario.
func (c *cluster) giveBack(t *testing.T, claims ...*claim.Claim) {
	t.Helper()
	c.heal()
	for _, held := range claims {
		if held != nil {
			require.NoError(t, held.Release(t.Context()))
		}
	}
}

// heldWhileIsolated: a holder is cut off from everybody for longer than a window; the others go on, and it must not commit any more.
func heldWhileIsolated(t *testing.T, c *cluster, table, without string) bool {
	a, b := c.claimerOn(t, 0, without), c.claimerOn(t, 1, without)
	first := tryWithin(t, a, table, forEver)
	require.NotNil(t, first)
	c.cut(0, 1)
	c.cut(0, 2)
	second := tryWithin(t, b, table, forEver)
	require.NotNil(t, second, "the majority goes on")
	sound := !ours(t, first) || !ours(t, second)
	c.giveBack(t, first, second)
	return sound
}

// isolatedNodeStaysOut: a node that hears nobody does not get in.
func isolatedNodeStaysOut(t *testing.T, c *cluster, table, without string) bool {
	a := c.claimerOn(t, 0, without)
	c.cut(0, 1)
	c.cut(0, 2)
	got := tryWithin(t, a, table, 2*controlWindow)
	c.giveBack(t, got)
	return got == nil
}

// brokenLink: nodes 1 and 2 do not hear each other, and node 3 hears both. Neither may skip the other.
func brokenLink(t *testing.T, c *cluster, table, without string) bool {
	a, b := c.claimerOn(t, 0, without), c.claimerOn(t, 1, without)
	first := tryWithin(t, a, table, forEver)
	require.NotNil(t, first)
	c.cut(0, 1)
	second := tryWithin(t, b, table, 2*controlWindow)
	sound := !ours(t, first) || !ours(t, second)
	c.giveBack(t, first, second)
	return sound
}

// lateClockAfterIsolation: node 1, whose clock is late, hears nobody while the others commit without it; the ticket that it draws then
// must stand behind theirs.
func lateClockAfterIsolation(t *testing.T, c *cluster, table, without string) bool {
	const clock = `CREATE OR REPLACE FUNCTION bakery._clock_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
		$$ SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint - 1577836800000 - %d $$`
	c.exec(t, 0, fmt.Sprintf(clock, 300000))
	defer c.exec(t, 0, fmt.Sprintf(clock, 0))
	a, b := c.claimerOn(t, 0, without), c.claimerOn(t, 1, without)
	c.links[0][1].Stall()
	c.links[0][2].Stall()
	second := tryWithin(t, b, table, forEver)
	require.NotNil(t, second, "the majority goes on")
	got := make(chan *claim.Claim, 1)
	go func() { got <- tryWithin(t, a, table, forEver) }()
	asked := fmt.Sprintf("SELECT '' FROM bakery.claims WHERE table_name = '%[1]s' AND node = 1 UNION ALL SELECT '' FROM bakery.hellos WHERE table_name = '%[1]s' AND node = 1",
		faultKey(table))
	within(t, forEver, "node 1 asks", func() bool { return slices.Equal(c.rows(0, asked), []string{""}) }, func() string { return "" })
	require.NoError(t, second.Release(t.Context()))
	c.heal()
	first := <-got
	require.NotNil(t, first)
	early, late := ticketOf(t, second), ticketOf(t, first)
	c.giveBack(t, first)
	return late > early
}

// commitAfterALoss: the session of a writer is ended while it works. Another gets in and commits, and the first must not.
func commitAfterALoss(t *testing.T, c *cluster, table, without string) bool {
	a, b := c.claimerOn(t, 0, without), c.claimerOn(t, 1, without)
	h := &head{}
	first := &writer{name: "first", claimer: a, key: faultKey(table), head: h, careless: without != ""}
	second := &writer{name: "second", claimer: b, key: faultKey(table), head: h, random: rand.New(rand.NewPCG(1, 1))}
	held := tryWithin(t, a, table, forEver)
	require.NotNil(t, held)
	parent, err := h.read(t.Context())
	require.NoError(t, err)
	c.exec(t, 0, "SELECT pg_terminate_backend(pid) FROM bakery.claims WHERE ticket = "+held.Ticket())
	require.NoError(t, second.round(t.Context()))
	require.NoError(t, first.commit(t.Context(), held, parent))
	c.giveBack(t, held)
	return len(h.rejected) == 0
}
