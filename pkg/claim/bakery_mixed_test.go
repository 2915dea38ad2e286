package claim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBakerySurvivesMixedFaults: faults of all kinds come and go at random, two at a time.
func TestBakerySurvivesMixedFaults(t *testing.T) {
	t.Parallel()
	newCluster(t, 3, 18).mix(t, 30*time.Second, faultWindow)
}

// storm strikes a siege at random. A node that is down is not struck again before it is back.
type storm struct {
	*siege
	nodes  [3]sync.Mutex
	mu     sync.Mutex
	random *rand.Rand
	log    []string
}

// mix runs writers, some of them processes of their own, through random faults for a while.
func (c *cluster) mix(t *testing.T, lasts, window time.Duration) {
	seed := newSeed(t)
	s := c.besiege(t, "mixed", window, pace{Hold: 50 * time.Millisecond, Way: 300 * time.Millisecond, Slow: 10, Rest: 100 * time.Millisecond}, everybody()...)
	storm := &storm{siege: s, random: rand.New(rand.NewPCG(seed, 0))}
	for node := range c.servers {
		s.recruit(t, fmt.Sprintf("process on n%d", node+1), node, window)
	}
	ctx, stop := context.WithTimeout(t.Context(), lasts)
	defer stop()
	var strikers sync.WaitGroup
	for range 2 {
		strikers.Go(func() {
			for ctx.Err() == nil {
				storm.strike(ctx, t)
			}
		})
	}
	strikers.Wait()
	t.Logf("seed %d: %v", seed, storm.log)
	s.lift(t)
	require.GreaterOrEqual(t, len(storm.log), int(lasts/(6*window)), "faults happened")
}

// strike picks a fault, lets it last for up to one and a half windows if it is one that lasts, and mends it.
func (s *storm) strike(ctx context.Context, t *testing.T) {
	name, node, b, lasts := s.pick() //nolint:contextcheck // What starts a server bounds it itself.
	if node >= 0 {
		s.nodes[node].Lock()
		defer s.nodes[node].Unlock()
	}
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	s.log = append(s.log, fmt.Sprintf("%s %s at %s", name, lasts.Round(time.Millisecond), time.Since(s.struck).Round(time.Millisecond)))
	s.mu.Unlock()
	mend := b(t, s.siege)
	pause(ctx, lasts)
	mend()
}

// pick draws a fault. node is the server that must not be struck by another meanwhile, -1 for none.
func (s *storm) pick() (name string, node int, b blow, lasts time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.random.IntN(3)
	other := (n + 1 + s.random.IntN(2)) % 3
	lasts = time.Duration(s.random.Int64N(int64(s.window + s.window/2)))
	skew := time.Duration(s.random.IntN(601)-300) * time.Second
	blows := []struct {
		name string
		node int
		blow blow
	}{
		{fmt.Sprintf("kill node %d", n+1), n, killNode(n)},
		{fmt.Sprintf("stop node %d", n+1), n, stopNode(n)},
		{fmt.Sprintf("stop the worker of %d from %d", n+1, other+1), n, stopApplyWorker(n, other)},
		{fmt.Sprintf("skew %d by %s", n+1, skew), n, skewClock(n, skew)},
		{fmt.Sprintf("isolate %d", n+1), -1, isolate(n)},
		{fmt.Sprintf("break the link of %d and %d", n+1, other+1), -1, breakLink(n, other)},
		{fmt.Sprintf("stall %d to %d", n+1, other+1), -1, stallStream(other, n)},
		{fmt.Sprintf("kill the process on %d", n+1), -1, killClient(n)},
		{fmt.Sprintf("stop the process on %d", n+1), -1, pauseClient(n)},
	}
	switch s.random.IntN(len(blows) + 2) {
	case 0:
		return fmt.Sprintf("kill a backend of %d", n+1), n, killBackend(n), 0
	case 1:
		return fmt.Sprintf("terminate a backend of %d", n+1), n, terminateBackend(n), 0
	}
	drawn := blows[s.random.IntN(len(blows))]
	return drawn.name, drawn.node, drawn.blow, lasts
}

// processOn finds the writer's process of a node.
func (s *siege) processOn(node int) *writerProcess {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		if p.spec.Node == node {
			return p
		}
	}
	return nil
}

// killClient kills the writer's process of a node; another takes its place.
func killClient(node int) blow {
	return func(t *testing.T, s *siege) func() {
		p := s.processOn(node)
		if p == nil {
			return func() {} // The other striker has just killed it.
		}
		s.dismiss(p)
		return func() { s.recruit(t, p.spec.Name, node, p.spec.Lease) }
	}
}

// pauseClient stops the writer's process of a node.
func pauseClient(node int) blow {
	return func(_ *testing.T, s *siege) func() {
		p := s.processOn(node)
		if p == nil {
			return func() {}
		}
		_ = p.cmd.Process.Signal(syscall.SIGSTOP) // It may just have been killed.
		return func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }
	}
}
