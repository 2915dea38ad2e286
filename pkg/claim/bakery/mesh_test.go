package bakery_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/claim/bakery"
)

// mesh is a set of databases that Install joined.
type mesh struct {
	server *testenv.PostgresServer
	dbs    []*testenv.Database
	plan   bakery.Plan
}

// newMesh joins n fresh databases of one server of their own. That is quicker to start than n servers and runs the same protocol;
// package claim has the tests that need servers which can be lost one by one.
func newMesh(tb testing.TB, n, major int) *mesh {
	tb.Helper()
	m := freshNodes(tb, n, major)
	_, err := bakery.Install(tb.Context(), m.plan)
	require.NoError(tb, err)
	return m
}

// freshNodes makes n databases and a plan for them, which is not carried out.
func freshNodes(tb testing.TB, n, major int) *mesh {
	tb.Helper()
	settings := map[string]string{
		"max_slot_wal_keep_size": "1GB", "max_replication_slots": "40", "max_wal_senders": "40",
		"max_logical_replication_workers": "30", "max_worker_processes": "40",
	}
	if major >= 18 {
		settings["max_active_replication_origins"] = "40"
	}
	m := &mesh{server: testenv.NewPostgres(tb, testenv.PostgresOptions{Major: major, Settings: settings})}
	for i := range n {
		m.addNode(tb, fmt.Sprintf("n%d", i+1))
	}
	return m
}

// addNode makes one more database and names it in the plan.
func (m *mesh) addNode(tb testing.TB, name string) {
	tb.Helper()
	db := m.server.Database(tb)
	m.dbs = append(m.dbs, db)
	node := bakery.Node{Name: name, DSN: db.DSN}
	m.plan.Nodes = append(m.plan.Nodes, node)
	tb.Cleanup(func() { require.NoError(tb, bakery.Uninstall(context.Background(), node, true)) })
}

// session opens a session on a node (counted from 0), as a writer has it.
func (m *mesh) session(tb testing.TB, node int) *pgx.Conn {
	tb.Helper()
	return open(tb, m.plan.Nodes[node].DSN)
}

func open(tb testing.TB, dsn string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), dsn)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// get runs a query that returns one value.
func get[T any](tb testing.TB, conn *pgx.Conn, sql string, args ...any) T {
	tb.Helper()
	var value T
	require.NoError(tb, conn.QueryRow(context.Background(), sql, args...).Scan(&value), sql)
	return value
}

// run runs a statement.
func run(tb testing.TB, conn *pgx.Conn, sql string, args ...any) {
	tb.Helper()
	_, err := conn.Exec(context.Background(), sql, args...)
	require.NoError(tb, err, sql)
}

// list runs a query that returns one text column.
func list(tb testing.TB, conn *pgx.Conn, sql string, args ...any) []string {
	tb.Helper()
	rows, err := conn.Query(context.Background(), sql, args...)
	require.NoError(tb, err, sql)
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(tb, err, sql)
	return texts
}

// eventually polls until done is true.
func eventually(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	within(tb, 20*time.Second, what, done)
}

func within(tb testing.TB, limit time.Duration, what string, done func() bool) {
	tb.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			tb.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// acquire takes a claim in the simplest way a writer can: insert, then try to enter until it works.
func acquire(tb testing.TB, conn *pgx.Conn, table, holder string) int64 {
	tb.Helper()
	ticket := get[int64](tb, conn, "SELECT bakery.claim($1, $2)", table, holder)
	eventually(tb, holder+" enters "+table, func() bool { return enters(tb, conn, ticket) })
	return ticket
}

func enters(tb testing.TB, conn *pgx.Conn, ticket int64) bool {
	tb.Helper()
	return get[bool](tb, conn, "SELECT bakery.enter($1)", ticket)
}

// requireEmpty waits until no row of a claim is left on any node.
func (m *mesh) requireEmpty(tb testing.TB) {
	tb.Helper()
	for i := range m.plan.Nodes {
		conn := m.session(tb, i)
		left := func() []string {
			return list(tb, conn, `SELECT 'claim ' || c::text FROM bakery.claims c UNION ALL SELECT 'ack ' || a::text FROM bakery.acks a
				UNION ALL SELECT 'hello ' || h::text FROM bakery.hellos h UNION ALL SELECT 'answer ' || w.about FROM bakery.answers w`)
		}
		var rows []string
		defer func() {
			if tb.Failed() {
				tb.Logf("node %d: %v", i+1, rows)
			}
		}()
		eventually(tb, fmt.Sprintf("node %d has no row left", i+1), func() bool { rows = left(); return len(rows) == 0 })
	}
}

// majors are the versions that every test of the protocol runs on.
func majors(t *testing.T, test func(t *testing.T, m *mesh)) {
	for _, major := range []int{15, 18} {
		t.Run(fmt.Sprintf("PostgreSQL %d", major), func(t *testing.T) { test(t, newMesh(t, 3, major)) })
	}
}
