package claim_test

import (
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
)

// blow damages a mesh and returns what mends it.
type blow func(t *testing.T, s *siege) (mend func())

// struckBy is a fault that lasts as long as one blow is not mended.
func struckBy(b blow) func(t *testing.T, s *siege) {
	return func(t *testing.T, s *siege) {
		mend := b(t, s)
		defer mend()
		s.last(t)
	}
}

func killNode(node int) blow {
	return func(t *testing.T, s *siege) func() {
		s.servers[node].Kill9(t)
		return func() { s.servers[node].Start(t) }
	}
}

func stopNode(node int) blow {
	return func(t *testing.T, s *siege) func() {
		s.signal(t, node, syscall.SIGSTOP)
		return func() { s.signal(t, node, syscall.SIGCONT) }
	}
}

// stopApplyWorker stops the process by which node to receives from node from.
func stopApplyWorker(to, from int) blow {
	return func(t *testing.T, s *siege) func() {
		var pid int
		within(t, forEver, "the apply worker runs", func() bool {
			pids := s.rows(to, fmt.Sprintf("SELECT pid::text FROM pg_stat_subscription WHERE subname = 'bakery_main_%d_from_%d' AND pid IS NOT NULL", to+1, from+1))
			if len(pids) != 1 {
				return false
			}
			number, err := strconv.Atoi(pids[0])
			pid = number
			return err == nil
		}, func() string { return "" })
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		return func() { _ = syscall.Kill(pid, syscall.SIGCONT) } // Its server may have ended it.
	}
}

// stall holds back what the given links carry.
func stall(links ...*testenv.TCPProxy) func() {
	for _, link := range links {
		link.Stall()
	}
	return func() {
		for _, link := range links {
			link.Resume()
		}
	}
}

// stallStream stops what node from writes on its way to node to.
func stallStream(to, from int) blow {
	return func(_ *testing.T, s *siege) func() { return stall(s.links[to][from]) }
}

func breakLink(a, b int) blow {
	return func(_ *testing.T, s *siege) func() { return stall(s.links[a][b], s.links[b][a]) }
}

// deafen stops what others write on its way to a node, mute what the node writes on its way to others.
func deafen(node int) blow {
	return func(_ *testing.T, s *siege) func() { return stall(s.around(node, true, false)...) }
}

func mute(node int) blow {
	return func(_ *testing.T, s *siege) func() { return stall(s.around(node, false, true)...) }
}

func isolate(node int) blow {
	return func(_ *testing.T, s *siege) func() { return stall(s.around(node, true, true)...) }
}

// around lists the links to and from a node.
func (c *cluster) around(node int, to, from bool) (links []*testenv.TCPProxy) {
	for other := range c.servers {
		if other != node && to {
			links = append(links, c.links[node][other])
		}
		if other != node && from {
			links = append(links, c.links[other][node])
		}
	}
	return links
}

// skewClock sets the clock that a node draws tickets from.
func skewClock(node int, by time.Duration) blow {
	const clock = `CREATE OR REPLACE FUNCTION bakery._clock_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
		$$ SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint - 1577836800000 + (%d) $$`
	return func(t *testing.T, s *siege) func() {
		s.exec(t, node, fmt.Sprintf(clock, by.Milliseconds()))
		return func() { s.exec(t, node, fmt.Sprintf(clock, 0)) }
	}
}

// skewClocks sets two nodes five minutes forth and back, and has everybody go on with that and after it.
func skewClocks(t *testing.T, s *siege) {
	forth, back := skewClock(0, 5*time.Minute)(t, s), skewClock(1, -5*time.Minute)(t, s)
	s.await(t, "everybody goes on with skewed clocks", time.Now(), nil)
	pause(t.Context(), s.window/2)
	forth()
	back()
	s.await(t, "everybody goes on after that", time.Now(), nil)
}

// terminateBackend ends the session of a random claim of a node.
func terminateBackend(node int) blow {
	return func(t *testing.T, s *siege) func() {
		s.exec(t, node, `SELECT pg_terminate_backend(pid) FROM (SELECT c.pid FROM bakery.claims c JOIN bakery.self s ON s.node = c.node
			ORDER BY random() LIMIT 1) v`)
		return func() {}
	}
}

// terminateBackends does it every 100 ms.
func terminateBackends(t *testing.T, s *siege) {
	for i := range 50 {
		terminateBackend(i%3)(t, s)
		pause(t.Context(), 100*time.Millisecond)
	}
}

// killBackend kills the process of one session, after which the whole server restarts.
func killBackend(node int) blow {
	return func(t *testing.T, s *siege) func() {
		const backends = `SELECT pid::text FROM pg_stat_activity WHERE query LIKE '%bakery.%' AND backend_type = 'client backend' AND pid <> pg_backend_pid() LIMIT 1`
		within(t, forEver, "a backend is killed", func() bool {
			for _, pid := range s.rows(node, backends) {
				if number, err := strconv.Atoi(pid); err == nil && syscall.Kill(number, syscall.SIGKILL) == nil {
					return true
				}
			}
			return false
		}, func() string { return "" })
		return func() {
			within(t, forEver, "the server is back", func() bool { return len(s.rows(node, "SELECT '' WHERE false")) == 0 }, func() string { return "" })
		}
	}
}

func killBackends(t *testing.T, s *siege) {
	for range 2 {
		killBackend(1)(t, s)()
		s.await(t, "everybody goes on", time.Now(), nil)
	}
}

// killClients kills writers' processes in the middle of a claim, three that hold and three that wait.
func killClients(t *testing.T, s *siege) {
	left := map[string]int{"entered": 3, "waiting": 3}
	for i := 0; left["entered"] > 0 || left["waiting"] > 0; i++ {
		p := s.recruit(t, fmt.Sprintf("process %d", i), i%3, 0)
		within(t, forEver, "the process is killed", func() bool {
			state := s.state(p)
			if left[state] == 0 {
				return false
			}
			left[state]--
			s.dismiss(p)
			return true
		}, func() string { return fmt.Sprint("left: ", left) })
	}
}

// stopClient stops a writer's process while it holds the table, for twice the time after which the server ends its session, and until
// everybody else goes on. What it was about to commit must not come when it is continued.
func stopClient(lease time.Duration) func(t *testing.T, s *siege) {
	return func(t *testing.T, s *siege) {
		p := s.recruit(t, "process", 0, lease)
		within(t, forEver, "the process is stopped", func() bool {
			if s.state(p) != "entered" {
				return false
			}
			require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
			return true
		}, func() string { return "" })
		stopped := time.Now()
		s.await(t, "the others go on", stopped.Add(lease), nil)
		pause(t.Context(), time.Until(stopped.Add(2*lease)))
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
		within(t, forEver, "the process goes on", func() bool { return s.head.since(time.Now().Add(-time.Second))[p.spec.Name] }, func() string { return "" })
	}
}

// stallClient cuts a writer's process off from its server while it holds the table, for twice the time after which the server ends the
// session, and until everybody else goes on.
func stallClient(lease time.Duration) func(t *testing.T, s *siege) {
	return func(t *testing.T, s *siege) {
		way := testenv.NewTCPProxy(t, address(s.servers[0]))
		p := s.recruit(t, "process", 0, lease, way)
		within(t, forEver, "the way is stalled", func() bool {
			if s.state(p) != "entered" {
				return false
			}
			way.Stall()
			return true
		}, func() string { return "" })
		stalled := time.Now()
		s.await(t, "the others go on", stalled.Add(lease), nil)
		pause(t.Context(), time.Until(stalled.Add(2*lease)))
		way.Resume()
	}
}
