package claim_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/claim"
)

// faultWindow is the window of the tests with faults: short, so that they end, and long enough for a busy machine.
const faultWindow = 4 * time.Second

// forEver is how long something may take that has to happen at all.
const forEver = 3 * time.Minute

// siege is a mesh whose writers work while something happens to it.
type siege struct {
	*cluster
	key    claim.Key
	window time.Duration
	head   *head
	// hit lists the nodes whose writers may stand still while the fault lasts.
	hit    []int
	struck time.Time

	writers []*writer
	stop    context.CancelFunc
	done    chan error
	address remoteHead

	mu        sync.Mutex
	processes []*writerProcess
}

// besiege sets writers on every node to work on a table and returns when each has had it once: two of them, or one where they hold it
// for long.
func (c *cluster) besiege(t *testing.T, table string, window time.Duration, p pace, hit ...int) *siege {
	t.Helper()
	s := &siege{cluster: c, key: faultKey(table), window: window, hit: hit, done: make(chan error, 1)}
	perNode := 2
	if p.Hold > time.Second {
		perNode = 1
	}
	s.writers, s.head = newWriters(t, c.dsns(), perNode, window)
	for _, w := range s.writers {
		w.key, w.stubborn, w.pace = s.key, true, p
	}
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	t.Cleanup(stop)
	go func() { s.done <- runWriters(ctx, 1<<30, s.writers) }()
	s.await(t, "every writer begins", time.Time{}, nil)
	s.struck = time.Now()
	return s
}

// await waits until every writer of this process on a node that is not in except has been granted a claim after that moment.
func (s *siege) await(t *testing.T, what string, moment time.Time, except []int) {
	t.Helper()
	within(t, forEver, what, func() bool {
		in := s.head.since(moment)
		return !slices.ContainsFunc(s.writers, func(w *writer) bool { return !slices.Contains(except, w.node) && !in[w.name] })
	}, func() string { return fmt.Sprint("granted since: ", s.head.since(moment)) })
}

// last keeps the fault up for two windows, and until those who are not hit by it have gone on after the first.
func (s *siege) last(t *testing.T) {
	t.Helper()
	pause(t.Context(), 2*s.window)
	s.await(t, "survivors go on", s.struck.Add(s.window), s.hit)
}

// lift ends the fault and the work, and checks what is left: nothing rejected, nobody waiting for ever, a history that follows the
// rules, and no row. It returns how long the survivors had to wait for one of them to get in.
func (s *siege) lift(t *testing.T) time.Duration {
	t.Helper()
	over := time.Now()
	s.await(t, "every writer is granted a claim after the fault", over, nil)
	for _, p := range s.processes {
		within(t, forEver, p.spec.Name+" is granted a claim after the fault", func() bool { return s.head.since(over)[p.spec.Name] }, func() string { return "" })
	}
	s.stop()
	require.NoError(t, <-s.done)
	for _, p := range s.processes {
		p.finish(t)
	}
	torn := s.head.requireSound(t)
	s.requireEmpty(t, s.key, s.window)
	s.requireHistory(t)
	waited := s.head.longestWait(s.survivors(), s.struck, over)
	t.Logf("%d commits, %d rejected for a claim ended in flight; fault of %s", s.head.count(), torn, over.Sub(s.struck).Round(time.Millisecond))
	if len(s.survivors()) > 0 {
		t.Logf("survivors waited %s, %.1f windows", waited.Round(time.Millisecond), waited.Seconds()/s.window.Seconds())
	}
	return waited
}

// survivors lists the nodes that are not hit.
func (s *siege) survivors() (nodes []int) {
	for n := range s.servers {
		if !slices.Contains(s.hit, n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// recruit starts a writer in a process of its own, which reaches its node directly or, if one is given, through a proxy.
func (s *siege) recruit(t *testing.T, name string, node int, lease time.Duration, way ...*testenv.TCPProxy) *writerProcess {
	t.Helper()
	if s.address == "" {
		s.address = s.head.serve(t)
	}
	spec := writerSpec{Name: name, DSN: s.plan.Nodes[node].DSN, Head: string(s.address), Node: node, Key: s.key,
		Window: s.window, Lease: lease, Pace: s.writers[0].pace, Seed: newSeed(t)}
	for _, proxy := range way {
		spec.DSN = through(t, spec.DSN, proxy.Addr)
	}
	p := startWriter(t, spec)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = append(s.processes, p)
	return p
}

// dismiss kills a writer's process.
func (s *siege) dismiss(p *writerProcess) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = slices.DeleteFunc(s.processes, func(other *writerProcess) bool { return other == p })
	p.kill()
}

// state says what the node of a writer's process knows of its claim: "entered", "waiting", or nothing.
func (s *siege) state(p *writerProcess) string {
	found := s.rows(p.spec.Node, fmt.Sprintf("SELECT CASE WHEN entered_at IS NULL THEN 'waiting' ELSE 'entered' END FROM bakery.claims WHERE holder = '%s'", p.spec.Name))
	if len(found) != 1 {
		return ""
	}
	return found[0]
}
