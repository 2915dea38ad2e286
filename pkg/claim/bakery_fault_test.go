package claim_test

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/pkg/claim"
)

// fault is something that happens to a mesh while its writers work.
type fault struct {
	name string
	// strike brings the fault about and returns when it is over.
	strike func(t *testing.T, c *cluster)
	// hit lists the nodes whose writers may stand still while it lasts; all others go on within twice the window.
	hit []int
	// stalls says that everybody may stand still until the fault is over.
	stalls bool
	// way is the longest time that a compare-and-swap takes.
	way time.Duration
}

const faultWindow = 4 * time.Second

func TestBakerySurvives(t *testing.T) {
	faults := []fault{
		{name: "terminated backends", strike: terminateBackends, way: 20 * time.Millisecond},
		{name: "killed backend", strike: killBackend, hit: []int{1}},
		{name: "killed node that returns", strike: killNode, hit: []int{2}},
		{name: "stopped node", strike: stopNode, hit: []int{2}, way: 300 * time.Millisecond},
		{name: "stopped apply worker", strike: stopApplyWorker, hit: []int{0, 1}},
		{name: "isolated node", strike: isolateNode, hit: []int{0}, way: 300 * time.Millisecond},
		{name: "one broken link", strike: breakLink, hit: []int{0, 1}},
		{name: "one-way stall", strike: breakOneWay, hit: []int{0, 1}},
		{name: "clocks five minutes apart", strike: skewClocks},
	}
	for _, major := range []int{15, 18} {
		t.Run(fmt.Sprintf("PostgreSQL %d", major), func(t *testing.T) {
			c := newCluster(t, 3, major)
			for i, f := range faults {
				t.Run(f.name, func(t *testing.T) { c.survive(t, f, "t"+strconv.Itoa(i)) })
			}
		})
	}
}

// survive runs two writers on every node through a fault and a while beyond.
func (c *cluster) survive(t *testing.T, f fault, table string) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	key := claim.Key{Realm: "lake", Namespace: []string{"s"}, Table: table}
	writers, h := newWriters(t, c.dsns(), 2, faultWindow)
	for _, w := range writers {
		w.key, w.stubborn, w.way = key, true, f.way
	}
	done := make(chan error, 1)
	go func() { done <- runWriters(ctx, 1<<30, writers) }()
	pause(ctx, time.Second)
	started := time.Now()
	f.strike(t, c)
	lasted := time.Since(started)
	within(t, 4*faultWindow, "every writer is granted a claim after the fault", func() bool {
		return h.since(started.Add(lasted), len(writers))
	}, func() string { return fmt.Sprint(h.grants) })
	stop()
	require.NoError(t, <-done)
	torn := h.requireSound(t)
	c.requireEmpty(t, key, faultWindow)
	gap := h.longestGap()
	t.Logf("%d commits, %d torn in flight, longest gap %s of a fault of %s", len(h.commits), torn, gap, lasted)
	if !f.stalls {
		require.Less(t, gap, 2*faultWindow+faultWindow/2, "survivors go on")
	}
}

// terminateBackends ends a random claim's session every 100 ms.
func terminateBackends(t *testing.T, c *cluster) {
	for i := range 50 {
		c.exec(t, i%3, `SELECT pg_terminate_backend(pid) FROM (SELECT c.pid FROM bakery.claims c JOIN bakery.self s ON s.node = c.node
			ORDER BY random() LIMIT 1) v`)
		pause(t.Context(), 100*time.Millisecond)
	}
}

// killBackend kills one session's process, after which the whole server restarts.
func killBackend(t *testing.T, c *cluster) {
	for range 2 {
		for _, pid := range c.rows(1, "SELECT pid::text FROM pg_stat_activity WHERE query LIKE '%bakery.%' AND backend_type = 'client backend' AND pid <> pg_backend_pid() LIMIT 1") {
			if number, err := strconv.Atoi(pid); err == nil {
				require.NoError(t, syscall.Kill(number, syscall.SIGKILL))
			}
		}
		pause(t.Context(), 2*time.Second)
	}
}

func killNode(t *testing.T, c *cluster) {
	c.servers[2].Kill9(t)
	pause(t.Context(), 2*faultWindow)
	c.servers[2].Start(t)
}

func stopNode(t *testing.T, c *cluster) {
	c.signal(t, 2, syscall.SIGSTOP)
	pause(t.Context(), 2*faultWindow)
	c.signal(t, 2, syscall.SIGCONT)
}

// stopApplyWorker stops the process by which node 1 receives from node 2.
func stopApplyWorker(t *testing.T, c *cluster) {
	pids := c.rows(0, "SELECT pid::text FROM pg_stat_subscription WHERE subname = 'bakery_main_1_from_2' AND pid IS NOT NULL")
	require.Len(t, pids, 1)
	pid, err := strconv.Atoi(pids[0])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	pause(t.Context(), 2*faultWindow)
	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
}

func isolateNode(t *testing.T, c *cluster) {
	c.cut(0, 1)
	c.cut(0, 2)
	pause(t.Context(), 2*faultWindow)
	c.heal()
}

func breakLink(t *testing.T, c *cluster) {
	c.cut(0, 1)
	pause(t.Context(), 2*faultWindow)
	c.heal()
}

func breakOneWay(t *testing.T, c *cluster) {
	c.links[1][0].Stall()
	pause(t.Context(), 2*faultWindow)
	c.heal()
}

// skewClocks sets the clocks that tickets are drawn from five minutes back and forth.
func skewClocks(t *testing.T, c *cluster) {
	const clock = `CREATE OR REPLACE FUNCTION bakery._clock_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
		$$ SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint - 1577836800000 + %d $$`
	for node, skew := range []int{300000, -300000, 0} {
		c.exec(t, node, fmt.Sprintf(clock, skew))
	}
	pause(t.Context(), 5*time.Second)
	for node := range c.servers {
		c.exec(t, node, fmt.Sprintf(clock, 0))
	}
	pause(t.Context(), time.Second)
}
