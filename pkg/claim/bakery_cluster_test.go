package claim_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/claim"
	"compactor/pkg/claim/bakery"
)

// cluster is a mesh of servers of their own, with a proxy in every link.
type cluster struct {
	servers []*testenv.PostgresServer
	plan    bakery.Plan
	// links[to][from] carries the subscription of node to at node from.
	links [][]*testenv.TCPProxy
}

// newCluster starts n servers, joins them, leads every subscription through a proxy of its own, and has the nodes write down what they do.
func newCluster(tb testing.TB, n, major int) *cluster {
	tb.Helper()
	c := &cluster{}
	for i := range n {
		s := testenv.NewPostgres(tb, testenv.PostgresOptions{Major: major, Settings: map[string]string{"log_min_messages": "log"}})
		c.servers = append(c.servers, s)
		c.plan.Nodes = append(c.plan.Nodes, bakery.Node{Name: fmt.Sprintf("n%d", i+1), DSN: s.DSN("postgres")})
	}
	_, err := bakery.Install(tb.Context(), c.plan)
	require.NoError(tb, err)
	for to := range n {
		c.exec(tb, to, "UPDATE bakery.self SET tracing = true")
		c.links = append(c.links, make([]*testenv.TCPProxy, n))
		for from := range n {
			if to != from {
				c.links[to][from] = c.lead(tb, to, from)
			}
		}
	}
	return c
}

// lead puts a proxy into the link by which node to receives from node from.
func (c *cluster) lead(tb testing.TB, to, from int) *testenv.TCPProxy {
	tb.Helper()
	dsn, err := url.Parse(c.plan.Nodes[from].DSN)
	require.NoError(tb, err)
	proxy := testenv.NewTCPProxy(tb, dsn.Host)
	dsn.Host = proxy.Addr
	c.exec(tb, to, fmt.Sprintf("ALTER SUBSCRIPTION bakery_main_%d_from_%d CONNECTION '%s'", to+1, from+1, dsn))
	return proxy
}

// dsns lists how writers reach the nodes.
func (c *cluster) dsns() []string {
	var dsns []string
	for _, n := range c.plan.Nodes {
		dsns = append(dsns, n.DSN)
	}
	return dsns
}

// exec runs a statement on a node (counted from 0), again if the node is just coming back.
func (c *cluster) exec(tb testing.TB, node int, sql string) {
	tb.Helper()
	var err error
	within(tb, forEver, sql, func() bool {
		err = c.try(node, sql)
		return err == nil
	}, func() string { return fmt.Sprint(err) })
}

// try runs a statement on a node once.
func (c *cluster) try(node int, sql string) error {
	conn, err := pgx.Connect(context.Background(), c.plan.Nodes[node].DSN)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background()) //nolint:errcheck // The session is not used again.
	_, err = conn.Exec(context.Background(), sql)
	return err
}

// rows reads one text column on a node; an error is a row too, for polls while the node is away.
func (c *cluster) rows(node int, sql string) []string {
	conn, err := pgx.Connect(context.Background(), c.plan.Nodes[node].DSN)
	if err != nil {
		return []string{err.Error()}
	}
	defer conn.Close(context.Background()) //nolint:errcheck // The session is not used again.
	found, err := conn.Query(context.Background(), sql)
	if err != nil {
		return []string{err.Error()}
	}
	texts, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return []string{err.Error()}
	}
	return texts
}

// cut stalls the links between two nodes, in both directions.
func (c *cluster) cut(a, b int) {
	c.links[a][b].Stall()
	c.links[b][a].Stall()
}

// heal lets all links flow again.
func (c *cluster) heal() {
	for _, row := range c.links {
		for _, link := range row {
			if link != nil {
				link.Resume()
			}
		}
	}
}

// requireEmpty waits until a claim and release of each node have swept what faults left, and no row is left anywhere.
func (c *cluster) requireEmpty(tb testing.TB, key claim.Key, window time.Duration) {
	tb.Helper()
	for _, dsn := range c.dsns() {
		ctx, cancel := context.WithTimeout(context.Background(), forEver)
		claimer, err := claim.Open(ctx, claim.Config{Mode: claim.ModeBakery, DSN: dsn, Window: window})
		require.NoError(tb, err)
		held, err := claimer.Acquire(ctx, key, claim.AcquireOptions{})
		require.NoError(tb, err)
		require.NoError(tb, held.Release(ctx))
		require.NoError(tb, claimer.Close())
		cancel()
	}
	const left = `SELECT 'claim ' || c::text FROM bakery.claims c UNION ALL SELECT 'ack ' || a::text FROM bakery.acks a`
	for i := range c.servers {
		within(tb, forEver, fmt.Sprintf("node %d has no claim or ack left", i+1), func() bool { return len(c.rows(i, left)) == 0 },
			func() string { return strings.Join(c.rows(i, left), "\n") })
	}
}

// within polls until done is true, and says more when it never is.
func within(tb testing.TB, limit time.Duration, what string, done func() bool, more func() string) {
	tb.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			tb.Fatalf("not within %s: %s\n%s", limit, what, more())
		}
	}
}

// signal sends a signal to a server's postmaster and all its processes.
func (c *cluster) signal(tb testing.TB, node int, sig syscall.Signal) {
	tb.Helper()
	root := c.servers[node].Pid()
	require.Positive(tb, root, "node %d runs", node+1) // Zero would be everybody.
	for _, pid := range append([]int{root}, children(root)...) {
		_ = syscall.Kill(pid, sig) // A backend may have ended meanwhile.
	}
}

// children lists the processes that a postmaster has forked.
func children(parent int) []int {
	var pids []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
