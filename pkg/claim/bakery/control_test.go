package bakery_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// control is one protection of the protocol: a scenario that it keeps from going wrong, and how to take it away. The scenario is run
// on the real schema, where it must hold, and on the weakened one, where it must not: that shows that the test can see the fault.
type control struct {
	name string
	// function is weakened by replacing old with weak in its source.
	function, old, weak string
	// holds plays the scenario on a fresh table and tells whether it went well.
	holds func(t *testing.T, m *mesh, table string) bool
}

func TestEveryProtectionIsNeeded(t *testing.T) {
	controls := []control{
		{name: "node-local lock", function: "claim(text,text)", old: "PERFORM pg_advisory_lock(bakery._owner_key(p_table));", weak: "NULL;", holds: oneWriterPerNode},
		// Raising the floor waits for the row that a draw in progress has locked, a second guard that has to go as well.
		{name: "gate around the decision", function: "_decide(bakery.claims,integer)", old: "PERFORM pg_advisory_xact_lock(bakery._gate_key(p_claim.table_name));\n" +
			"  PERFORM bakery._raise_floor(p_claim.table_name, p_claim.ticket);", weak: "NULL;", holds: decisionSeesADrawInProgress},
		{name: "reaper on insert", function: "claim(text,text)", old: "PERFORM bakery._reap(p_table, v_me);", weak: "NULL;", holds: nodeRecoversFromADeadWriter},
		{name: "reaper on apply", function: "_decide(bakery.claims,integer)", old: "PERFORM bakery._reap(p_claim.table_name, p_me);", weak: "NULL;", holds: peerRecoversFromADeadWriter},
		{name: "poke", function: "poke(bigint)", old: "poke = poke + 1", weak: "poke = poke", holds: peerRecoversFromADeadWriter},
		{name: "floor", function: "_draw(text,integer)", old: "(v_seen >> 22) + 1", weak: "0", holds: ticketsFollowTheAcks},
		{name: "persistent floor", function: "_draw(text,integer)", old: "(SELECT f.ticket FROM bakery.floors f WHERE f.table_name = p_table)", weak: "0", holds: ticketsFollowReleasedOnes},
		{name: "floors in answers", function: "_apply_answer()", old: "PERFORM bakery._raise_floor(NEW.table_name, NEW.floor);", weak: "NULL;", holds: helloRaisesTheFloor},
		{name: "holder defers", function: "_ack_all(text,integer)", old: "o.entered_at IS NOT NULL OR", weak: "", holds: holderDefersASmallerTicket},
		{name: "receipt refreshes", function: "enter(bigint,integer[],text[])", old: "AND s.heartbeat = h.heartbeat", weak: "", holds: skippedPeerIsHeardAgain},

		{name: "release forwards", function: "release(text,bigint)", old: "PERFORM bakery._ack_all(p_table, v_me);", weak: "NULL;", holds: releaseForwards},
	}
	majors(t, func(t *testing.T, m *mesh) {
		for _, c := range controls {
			t.Run(c.name, func(t *testing.T) {
				require.True(t, c.holds(t, m, c.name+", intact"), "with the protection")
				restore := m.weaken(t, c)
				defer restore()
				require.False(t, c.holds(t, m, c.name+", weakened"), "without the protection the scenario goes wrong")
			})
		}
	})
}

// weaken changes one function on every node.
func (m *mesh) weaken(t *testing.T, c control) (restore func()) {
	t.Helper()
	var undo []func()
	for i := range m.plan.Nodes {
		conn := m.session(t, i)
		source := get[string](t, conn, "SELECT pg_get_functiondef(('bakery.' || $1)::regprocedure)", c.function)
		require.Contains(t, source, c.old)
		run(t, conn, strings.ReplaceAll(source, c.old, c.weak))
		undo = append(undo, func() { run(t, conn, source) })
	}
	return func() {
		for _, u := range undo {
			u()
		}
	}
}

// soon waits a while for something that a healthy mesh does in milliseconds.
func soon(t *testing.T, done func() bool) bool {
	t.Helper()
	deadline := time.NewTimer(3 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if done() {
			return true
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return false
		}
	}
}

// claimed inserts a claim; entered waits until it enters, or not.
func claimed(t *testing.T, conn *pgx.Conn, table, holder string) int64 {
	t.Helper()
	return get[int64](t, conn, "SELECT bakery.claim($1, $2)", table, holder)
}

func entered(t *testing.T, conn *pgx.Conn, ticket int64) bool {
	t.Helper()
	return soon(t, func() bool { return enters(t, conn, ticket) })
}

// acks counts the acks that have arrived for a ticket.
func acks(t *testing.T, conn *pgx.Conn, ticket int64) int {
	t.Helper()
	return get[int](t, conn, "SELECT count(*)::int FROM bakery.acks WHERE ticket = $1", ticket)
}

// arrived waits until a claim has been applied on a node; the decision on it is made in the same transaction.
func (m *mesh) arrived(t *testing.T, node int, ticket int64) {
	t.Helper()
	conn := m.session(t, node)
	require.True(t, soon(t, func() bool {
		return get[bool](t, conn, "SELECT EXISTS (SELECT FROM bakery.claims WHERE ticket = $1)", ticket)
	}))
}

// end releases and closes the sessions of a scenario.
func end(t *testing.T, table string, conns ...*pgx.Conn) {
	t.Helper()
	for _, conn := range conns {
		_, _ = conn.Exec(context.Background(), "ROLLBACK")
		_, _ = conn.Exec(context.Background(), "SELECT bakery.release($1, ticket) FROM bakery.claims WHERE table_name = $1 AND pid = pg_backend_pid()", table)
		_ = conn.Close(context.Background())
	}
}

// skewed sets a node's clock back, for tickets only.
func (m *mesh) skewed(t *testing.T, node int, ms int64) (restore func()) {
	t.Helper()
	return m.weakenOne(t, node, "_clock_ms()", "- 1577836800000", "- 1577836800000 + ("+itoa(ms)+")")
}

// weakenOne changes a function on one node.
func (m *mesh) weakenOne(t *testing.T, node int, function, old, weak string) (restore func()) {
	t.Helper()
	one := &mesh{server: m.server}
	one.plan.Nodes = m.plan.Nodes[node : node+1]
	return one.weaken(t, control{function: function, old: old, weak: weak})
}

// deaf stops a node from receiving another's rows until the returned function is called.
func (m *mesh) deaf(t *testing.T, node, from int) (hear func()) {
	t.Helper()
	conn := m.session(t, node)
	name := "bakery_main_" + itoa(int64(node+1)) + "_from_" + itoa(int64(from+1))
	run(t, conn, "ALTER SUBSCRIPTION "+name+" DISABLE")
	require.True(t, soon(t, func() bool {
		return get[bool](t, conn, "SELECT NOT EXISTS (SELECT FROM pg_stat_subscription WHERE subname = $1 AND pid IS NOT NULL)", name)
	}))
	return func() { run(t, conn, "ALTER SUBSCRIPTION "+name+" ENABLE") }
}
