package main

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/internal/testenv"
	"compactor/pkg/claim"
	"compactor/pkg/claim/bakery"
)

// joined is a mesh whose nodes are databases of one server.
type joined []*testenv.Database

func newMesh(t *testing.T) joined {
	t.Helper()
	server := testenv.NewPostgres(t, testenv.PostgresOptions{Major: 18})
	var nodes joined
	var plan bakery.Plan
	for i := range 3 {
		db := server.Database(t)
		nodes = append(nodes, db)
		plan.Nodes = append(plan.Nodes, bakery.Node{Name: fmt.Sprintf("n%d", i+1), DSN: db.DSN})
	}
	_, err := bakery.Install(context.Background(), plan)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, n := range plan.Nodes {
			require.NoError(t, bakery.Uninstall(context.Background(), n, true))
		}
	})

	return nodes
}

// inMesh is a world with a table of its own whose claims are taken in the mesh; the program's node is the first.
func (m joined) inMesh(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.mode = claim.ModeBakery
	w.writeConfig(string(w.mode), "")
	w.onNode(m[0])

	return w
}

// onNode leads the program and the test's own claims to a node.
func (w *world) onNode(db *testenv.Database) {
	w.db = db
	w.env["COMPACTOR_CLAIM_POSTGRES"] = db.DSN
}

// awaitFree waits until a writer of another node gets the table's claim.
func (m joined) awaitFree(w *world) {
	w.t.Helper()
	held, err := w.openClaimerOn(m[1]).Acquire(context.Background(), w.key(), claim.AcquireOptions{Timeout: 2 * time.Minute})
	require.NoError(w.t, err)
	require.NoError(w.t, held.Release(context.Background()))
}

// awaitClaims waits until the program's node has that many claims on the table, entered or not.
func (w *world) awaitClaims(n int, entered bool) {
	w.t.Helper()
	conn := w.db.Conn(w.t)
	require.Eventually(w.t, func() bool {
		var found int
		err := conn.QueryRow(context.Background(), `SELECT count(*) FROM bakery.claims
			WHERE table_name = $1 AND node = (SELECT node FROM bakery.self) AND (entered_at IS NOT NULL) = $2`, w.key().String(), entered).Scan(&found)

		return err == nil && found == n
	}, time.Minute, 20*time.Millisecond)
}

// The claim is lost in the middle of the work, or the program ends there: never a commit, and the table is free for the other nodes.
func TestCase_C20_claimLostInAMesh(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	t.Run("faults of one session", func(t *testing.T) {
		for name, end := range map[string]func(t *testing.T, p *paused) (code int){
			"backend terminated": func(t *testing.T, p *paused) int {
				m[0].Exec(t, fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM bakery.claims WHERE table_name = '%s'", p.w.key()))

				return 11
			},
			"claim deleted by an operator": func(t *testing.T, p *paused) int {
				m[0].Exec(t, fmt.Sprintf("SELECT bakery.release_force(ticket) FROM bakery.claims WHERE table_name = '%s'", p.w.key()))

				return 11
			},
			"SIGTERM": func(t *testing.T, p *paused) int {
				require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))

				return 143
			},
			"SIGKILL": func(t *testing.T, p *paused) int {
				require.NoError(t, p.cmd.Process.Kill())

				return -1
			},
			"SIGSTOP until another has had the table": func(t *testing.T, p *paused) int {
				require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
				m.awaitFree(p.w)
				p.resume() // The upload is answered while the program is stopped.
				require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))

				return 11
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := m.inMesh(t)
				p := w.pauseInRewrite(false)
				w.awaitClaims(1, true)
				code := end(t, p)
				require.Equal(t, code, p.wait(2*time.Minute), p.stderr)
				m.awaitFree(w)
				p.resume()
				require.Len(t, w.load().Metadata().Snapshots(), 1, "no snapshot of the program")
				require.Zero(t, w.commits())
				if code != -1 {
					p.nothingHappened()
				}
				require.Equal(t, 0, w.compact().code, "the next run does the work")
				require.Equal(t, p.rows, tabletest.Rows(t, w.load()))
			})
		}
	})
	t.Run("node out of contact", func(t *testing.T) { m.outOfContact(t) })
}

// outOfContact stops all streams to and from the program's node: half a window later the claim is lost.
func (m joined) outOfContact(t *testing.T) {
	w := m.inMesh(t)
	w.writeConfig(string(w.mode), "  window: 4s\n")
	p := w.pauseInRewrite(false)
	w.awaitClaims(1, true)
	turn := func(how string) {
		for node, from := range map[int][]int{0: {2, 3}, 1: {1}, 2: {1}} {
			for _, peer := range from {
				m[node].Exec(t, fmt.Sprintf("ALTER SUBSCRIPTION bakery_main_%d_from_%d %s", node+1, peer, how))
			}
		}
	}
	turn("DISABLE")
	require.Equal(t, 11, p.wait(2*time.Minute), p.stderr)
	require.Contains(t, p.stderr.String(), "out of contact with a majority")
	turn("ENABLE")
	m.awaitFree(w)
	p.resume()
	p.nothingHappened()
}

// A commit that lands while the program waits for a holder on another node is no conflict: the table is loaded after the claim was
// granted.
func TestCase_X10_commitWhileQueuedInAMesh(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	w := m.inMesh(t)
	tabletest.FragmentAtOnce(t, w.create(), 20, 2)
	held, err := w.openClaimerOn(m[1]).Acquire(context.Background(), w.key(), claim.AcquireOptions{})
	require.NoError(t, err)
	p := w.start(w.compactArgs()...)
	w.awaitClaims(1, false)
	appended := tabletest.Append(t, w.load(), `[{"id":1000,"s":"while queued"}]`)
	require.NoError(t, held.Release(context.Background()))
	r := p.result(time.Minute)
	require.Equal(t, 0, r.code, r.stderr)
	require.Equal(t, 21, r.step(t).Rewritten.FilesIn)
	after := w.load()
	require.Equal(t, appended.CurrentSnapshot().SnapshotID, *after.CurrentSnapshot().ParentSnapshotID, "one snapshot on top of the append")
	require.Len(t, tabletest.Rows(t, after), 41)
	require.Equal(t, 1, w.commits())
}
