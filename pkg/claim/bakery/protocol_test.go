package bakery_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"compactor/pkg/claim/bakery"
)

func TestProtocol(t *testing.T) {
	majors(t, func(t *testing.T, m *mesh) {
		for name, test := range map[string]func(*testing.T, *mesh){
			"a writer enters when every peer has acked":        testAcks,
			"status names holder, waiter and missing acks":     testStatus,
			"a second node reads the first one's registration": testRegistry,
			"a writer in plain SQL":                            testPlainSQL,
			"a lease in plain SQL is lost for good":            testPlainLease,
			"tables do not wait for each other":                testTables,
			"a forced release lets the next writer in":         testForce,
			"a session claims a table once":                    testTwice,
			"isolation other than READ COMMITTED is refused":   testIsolation,
			"the apply worker does not wait for a stuck gate":  testStuckGate,
			"grants": testGrants,
			"steps":  testTrace,
		} {
			t.Run(name, func(t *testing.T) { test(t, m) })
		}
		m.requireEmpty(t)
	})
}

func testAcks(t *testing.T, m *mesh) {
	a, b := m.session(t, 0), m.session(t, 1)
	first := acquire(t, a, "t", "first")
	require.True(t, get[bool](t, a, "SELECT bakery.holding($1)", first))
	require.False(t, get[bool](t, b, "SELECT bakery.holding($1)", first), "another session does not hold it")
	second := get[int64](t, b, "SELECT bakery.claim('t', 'second')")
	require.Greater(t, second, first)
	require.False(t, enters(t, b, second))
	require.True(t, get[bool](t, a, "SELECT bakery.release('t', $1)", first))
	require.False(t, get[bool](t, a, "SELECT bakery.release('t', $1)", first), "it is gone")
	eventually(t, "the second enters", func() bool { return enters(t, b, second) })
	require.True(t, get[bool](t, b, "SELECT bakery.release('t', $1)", second))
}

func testStatus(t *testing.T, m *mesh) {
	a, b := m.session(t, 0), m.session(t, 1)
	held := acquire(t, a, "status", "compactor@a")
	waits := get[int64](t, b, "SELECT bakery.claim('status', 'writer@b')")
	c := m.session(t, 2)
	var seen []bakery.Claim
	eventually(t, "node 3 knows all", func() bool {
		var err error
		seen, err = bakery.Status(t.Context(), c, "status")
		require.NoError(t, err)
		return len(seen) == 2 && seen[0].Entered && len(seen[0].Missing) == 0 && len(seen[1].Missing) == 1
	})
	for i := range seen {
		require.Less(t, seen[i].Age, time.Minute)
		seen[i].Age, seen[i].HeldFor = 0, 0
	}
	require.Equal(t, []bakery.Claim{
		{Table: "status", Ticket: held, Node: "n1", Entered: true, Holder: "compactor@a", Pid: int(a.PgConn().PID())},
		{Table: "status", Ticket: waits, Node: "n2", Holder: "writer@b", Pid: int(b.PgConn().PID()),
			Missing: []bakery.MissingAck{{Node: "n1", Behind: held, Holder: "compactor@a"}}},
	}, seen)
	end(t, "status", a, b)
}

func testRegistry(t *testing.T, m *mesh) {
	a, b := m.session(t, 0), m.session(t, 1)
	first := acquire(t, a, "lake.t", "a")
	second := get[int64](t, b, "SELECT bakery.claim('lake.t', 'b')")
	fresh, err := bakery.Register(t.Context(), m.session(t, 0), first, "public.t")
	require.NoError(t, err)
	require.True(t, fresh)
	_, err = bakery.Register(t.Context(), b, second, "public.other")
	require.ErrorContains(t, err, "not an entered claim", "nothing is registered by a writer that waits")
	run(t, a, "SELECT bakery.release('lake.t', $1)", first)
	eventually(t, "b enters", func() bool { return enters(t, b, second) })
	_, err = bakery.Register(t.Context(), b, second, "public.other")
	require.ErrorContains(t, err, "registered as public.t already")
	fresh, err = bakery.Register(t.Context(), b, second, "public.t")
	require.NoError(t, err)
	require.False(t, fresh)
	run(t, b, "SELECT bakery.release('lake.t', $1)", second)
	found, err := bakery.Registry(t.Context(), b)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, bakery.Registration{Table: "lake.t", Relation: "public.t", Node: 1, NodeName: "n1", RegisteredAt: found[0].RegisteredAt}, found[0])
}

func testPlainSQL(t *testing.T, m *mesh) {
	a, b := m.session(t, 0), m.session(t, 1)
	const call = "CALL bakery.acquire('sql', 'writer', NULL, interval '5 s', interval '4 s')"
	ticket := get[int64](t, a, call)
	require.True(t, get[bool](t, a, "SELECT bakery.holding($1) AND bakery.keep($1, interval '4 s')", ticket))
	var code *pgconn.PgError
	_, err := b.Exec(t.Context(), "CALL bakery.acquire('sql', 'writer', NULL, interval '1 s', interval '4 s')")
	require.ErrorAs(t, err, &code)
	require.Equal(t, "BK009", code.Code)
	require.Zero(t, get[int](t, b, "SELECT count(*)::int FROM bakery.claims WHERE table_name = 'sql' AND node = 2"), "a timeout leaves no claim")
	require.True(t, get[bool](t, a, "SELECT bakery.release('sql', $1)", ticket))
	ticket = get[int64](t, b, call)
	require.True(t, get[bool](t, b, "SELECT bakery.release('sql', $1)", ticket))
}

func testPlainLease(t *testing.T, m *mesh) {
	a := m.session(t, 0)
	ticket := get[int64](t, a, "CALL bakery.acquire('lease', 'writer', NULL, interval '5 s', interval '1 s')")
	eventually(t, "the lease runs out while nobody keeps it", func() bool {
		return get[bool](t, a, "SELECT clock_timestamp() - claimed_at > interval '0.7 s' FROM bakery.claims WHERE ticket = $1", ticket)
	})
	require.False(t, get[bool](t, a, "SELECT bakery.keep($1, interval '1 s')", ticket))
	require.False(t, get[bool](t, a, "SELECT bakery.holding($1)", ticket), "it stays lost")
	require.False(t, get[bool](t, a, "SELECT bakery.keep($1, interval '1 s')", ticket))
	run(t, a, "SELECT bakery.release('lease', $1)", ticket)
}

func testTables(t *testing.T, m *mesh) {
	a := m.session(t, 0)
	acquire(t, a, "one", "a")
	acquire(t, a, "two", "a")
	end(t, "one", m.session(t, 1))
	run(t, a, "SELECT bakery.release(table_name, ticket) FROM bakery.claims WHERE pid = pg_backend_pid()")
}

func testForce(t *testing.T, m *mesh) {
	a, b := m.session(t, 0), m.session(t, 1)
	held := acquire(t, a, "force", "stuck")
	waits := get[int64](t, b, "SELECT bakery.claim('force', 'next')")
	found, err := bakery.ReleaseForce(t.Context(), m.session(t, 1), held)
	require.NoError(t, err)
	require.False(t, found, "only the claim's own node can")
	found, err = bakery.ReleaseForce(t.Context(), m.session(t, 0), held)
	require.NoError(t, err)
	require.True(t, found)
	require.False(t, get[bool](t, a, "SELECT bakery.holding($1)", held))
	eventually(t, "the next enters", func() bool { return enters(t, b, waits) })
	end(t, "force", a, b)
}

func testTwice(t *testing.T, m *mesh) {
	a := m.session(t, 0)
	acquire(t, a, "twice", "a")
	_, err := a.Exec(t.Context(), "SELECT bakery.claim('twice', 'a')")
	require.ErrorContains(t, err, "already")
	end(t, "twice", a)
}

func testIsolation(t *testing.T, m *mesh) {
	a := m.session(t, 0)
	run(t, a, "SET default_transaction_isolation = 'repeatable read'")
	for _, sql := range []string{"SELECT bakery.claim('i', '')", "SELECT bakery.enter(1)", "SELECT bakery.release('i', 1)", "SELECT bakery.lock('i')"} {
		_, err := a.Exec(t.Context(), sql)
		require.ErrorContains(t, err, "READ COMMITTED", sql)
	}
}

// testStuckGate holds a gate for longer than the apply worker waits: the stream goes on, and the next poke decides.
func testStuckGate(t *testing.T, m *mesh) {
	a, b, c := m.session(t, 0), m.session(t, 0), m.session(t, 1)
	run(t, a, "BEGIN")
	run(t, a, "SELECT pg_advisory_xact_lock(bakery._gate_key('stuck'))")
	stuck := get[int64](t, c, "SELECT bakery.claim('stuck', 'c')")
	other := acquire(t, m.session(t, 1), "flows", "c")
	require.Positive(t, other, "the stream from node 2 to node 1 flows")
	require.False(t, enters(t, c, stuck))
	run(t, a, "ROLLBACK")
	eventually(t, "a poke heals", func() bool {
		run(t, c, "SELECT bakery.poke($1)", stuck)
		return enters(t, c, stuck)
	})
	end(t, "stuck", c, a)
	require.NoError(t, b.Close(context.Background()))
	heir := m.session(t, 1)
	eventually(t, "the other claim can be released", func() bool {
		return get[int](t, heir, "SELECT count(*)::int FROM bakery.claims WHERE table_name = 'flows'") == 1
	})
	run(t, heir, "SELECT bakery.release_force($1)", other)
}

// testGrants: bakery_writer alone is enough, and nothing less is.
func testGrants(t *testing.T, m *mesh) {
	writer := open(t, m.dbs[0].Role(t, "writer", "bakery_writer"))
	ticket := acquire(t, writer, "grants", "writer")
	require.True(t, get[bool](t, writer, "SELECT bakery.release('grants', $1)", ticket))
	for _, sql := range []string{"SELECT bakery.release_force(1)", "SELECT * FROM bakery.claims", "INSERT INTO bakery.acks VALUES (2, 1, 1)", "SELECT bakery._reap('t', 1)"} {
		_, err := writer.Exec(t.Context(), sql)
		require.ErrorContains(t, err, "permission denied", sql)
	}
	nobody := open(t, m.dbs[0].Role(t, "nobody"))
	_, err := nobody.Exec(t.Context(), "SELECT bakery.claim('grants', 'nobody')")
	require.ErrorContains(t, err, "permission denied for schema bakery")
	require.NoError(t, nobody.Close(context.Background()))
	require.NoError(t, writer.Close(context.Background()))
}

// testTrace: with tracing on, each node writes down what it does, in order.
func testTrace(t *testing.T, m *mesh) {
	var conns []*pgx.Conn
	for i := range m.plan.Nodes {
		conn := m.session(t, i)
		run(t, conn, "UPDATE bakery.self SET tracing = true")
		conns = append(conns, conn)
	}
	ticket := acquire(t, conns[0], "traced", "a")
	run(t, conns[0], "SELECT bakery.release('traced', $1)", ticket)
	require.Equal(t, []string{"claim", "enter", "release"}, list(t, conns[0], "SELECT event FROM bakery.trace WHERE ticket = $1 ORDER BY step", ticket))
	require.Equal(t, []string{"ack 1"}, list(t, conns[1], "SELECT event || ' ' || peer FROM bakery.trace WHERE ticket = $1 ORDER BY step", ticket))
	for _, conn := range conns {
		run(t, conn, "UPDATE bakery.self SET tracing = false")
		run(t, conn, "TRUNCATE bakery.trace")
	}
}
