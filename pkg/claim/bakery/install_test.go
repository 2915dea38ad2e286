package bakery_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/claim/bakery"
)

// codes lists the codes of the findings of one node.
func codes(tb testing.TB, n bakery.Node) []string {
	tb.Helper()
	found, err := bakery.Doctor(tb.Context(), n)
	require.NoError(tb, err)
	var list []string
	for _, f := range found {
		list = append(list, f.Code)
		require.NotEmpty(tb, f.Remedy, f.Text)
	}
	return list
}

// healthy waits until the doctor finds nothing on a node: links that were changed
// or mended start their workers again.
func healthy(tb testing.TB, n bakery.Node) {
	tb.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		found := codes(tb, n)
		if len(found) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			require.Empty(tb, found, n.Name)
		}
	}
}

// works takes a claim on one node and waits for it on another.
func (m *mesh) works(tb testing.TB, table string) {
	tb.Helper()
	for i := range m.plan.Nodes {
		conn := m.session(tb, i)
		ticket := acquire(tb, conn, table, m.plan.Nodes[i].Name)
		require.True(tb, get[bool](tb, conn, "SELECT bakery.release($1, $2)", table, ticket))
		require.NoError(tb, conn.Close(context.Background()))
	}
}

func TestInstallGrowsAndShrinksALiveMesh(t *testing.T) {
	m := freshNodes(t, 4, 15)
	all := m.plan.Nodes
	for n := 1; n <= 4; n++ {
		m.plan.Nodes = all[:n]
		report, err := bakery.Install(t.Context(), m.plan)
		require.NoError(t, err)
		require.Equal(t, []string{all[n-1].Name}, report.Added)
		require.EqualValues(t, n, report.Membership)
		m.works(t, fmt.Sprintf("of %d", n))
		again, err := bakery.Install(t.Context(), m.plan)
		require.NoError(t, err)
		require.Empty(t, again.Added, "a second run changes nothing")
		require.Empty(t, again.Upgraded)
		require.EqualValues(t, n, again.Membership)
	}
	for _, node := range all {
		healthy(t, node)
	}
	first := m.session(t, 0)
	run(t, first, "INSERT INTO bakery.registry (table_name, node, relation) VALUES ('x', 4, 'public.x')")
	report, err := bakery.Remove(t.Context(), m.plan, "n4")
	require.NoError(t, err)
	require.EqualValues(t, 5, report.Membership)
	require.Equal(t, 1, get[int](t, first, "SELECT node FROM bakery.registry WHERE table_name = 'x'"), "registrations of a removed node are inherited")
	leaver := open(t, all[3].DSN)
	_, err = leaver.Exec(t.Context(), "SELECT bakery.claim('x', 'leaver')")
	require.ErrorContains(t, err, "leaving")
	require.NoError(t, bakery.Uninstall(t.Context(), all[3], false))
	m.plan.Nodes = all[:3]
	m.works(t, "of 3 again")
	for _, node := range m.plan.Nodes {
		healthy(t, node)
	}
}

func TestInstallRefusesBeforeItChangesAnything(t *testing.T) {
	server := testenv.NewPostgres(t, testenv.PostgresOptions{Settings: map[string]string{"wal_level": "replica", "max_replication_slots": "1"}})
	bad := server.Database(t)
	good := testenv.Postgres(t)
	_, err := bakery.Install(t.Context(), bakery.Plan{Nodes: []bakery.Node{{Name: "good", DSN: good.DSN}, {Name: "bad", DSN: bad.DSN}}})
	var failed *bakery.CheckError
	require.ErrorAs(t, err, &failed)
	require.ErrorContains(t, err, "ALTER SYSTEM SET wal_level = 'logical'; then restart the server.")
	require.ErrorContains(t, err, "ALTER SYSTEM SET max_replication_slots = '10'; then restart the server.")
	require.False(t, get[bool](t, good.Conn(t), "SELECT to_regnamespace('bakery') IS NOT NULL"), "the node that passed is untouched")
	for name, plan := range map[string]bakery.Plan{
		"at least one node": {},
		"named twice":       {Nodes: []bakery.Node{{Name: "a", DSN: good.DSN}, {Name: "a", DSN: good.DSN}}},
		"connection string": {Nodes: []bakery.Node{{Name: "a", DSN: "port=x"}}},
		"mesh name":         {Mesh: "Bad-Name", Nodes: []bakery.Node{{Name: "a", DSN: good.DSN}}},
	} {
		_, err := bakery.Install(t.Context(), plan)
		require.ErrorContains(t, err, name)
	}
}

func TestInstallNeedsASuperuserBefore16AndSaysSo(t *testing.T) {
	db := testenv.Postgres(t)
	dsn := db.Role(t, "installer", "CREATE ON DATABASE "+db.Name)
	_, err := bakery.Install(t.Context(), bakery.Plan{Nodes: []bakery.Node{{Name: "a", DSN: dsn}}})
	require.ErrorContains(t, err, "only a superuser may create subscriptions")
}

func TestInstallRefusesALeakingIsolation(t *testing.T) {
	db := testenv.Postgres(t)
	db.Exec(t, "ALTER DATABASE "+db.Name+" SET default_transaction_isolation = 'repeatable read'")
	_, err := bakery.Install(t.Context(), bakery.Plan{Nodes: []bakery.Node{{Name: "a", DSN: db.DSN}}})
	require.ErrorContains(t, err, "ALTER DATABASE "+db.Name+" RESET default_transaction_isolation;")
}

func TestInstallNamesAMemberThatThePlanLeavesOut(t *testing.T) {
	m := newMesh(t, 2, 15)
	short := m.plan
	short.Nodes = short.Nodes[:1]
	_, err := bakery.Install(t.Context(), short)
	require.ErrorContains(t, err, "peer n2")
	require.ErrorIs(t, bakery.Uninstall(t.Context(), m.plan.Nodes[1], false), bakery.ErrMember)
}

func TestInstallGoesOnAfterACrash(t *testing.T) {
	m := freshNodes(t, 2, 18)
	both := m.plan.Nodes
	m.plan.Nodes = both[:1]
	_, err := bakery.Install(t.Context(), m.plan)
	require.NoError(t, err)
	// What a crash leaves after the announcement: the new node has its number and its peers, nothing else.
	steps, err := bakery.Migrations()
	require.NoError(t, err)
	conn := open(t, both[1].DSN)
	_, _, err = bakery.Migrate(t.Context(), conn, steps)
	require.NoError(t, err)
	run(t, conn, "INSERT INTO bakery.self (mesh, node, name, state, membership) VALUES ('main', 2, 'n2', 'joining', 2)")
	_, err = conn.Exec(t.Context(), "SELECT bakery.claim('t', 'too early')")
	require.ErrorContains(t, err, "joining")
	m.plan.Nodes = both
	report, err := bakery.Install(t.Context(), m.plan)
	require.NoError(t, err)
	require.EqualValues(t, 2, report.Membership)
	m.works(t, "t")
}

func TestInstallMendsALinkWhoseSlotIsLost(t *testing.T) {
	m := newMesh(t, 3, 15)
	a, b := m.session(t, 0), m.session(t, 1)
	// Node 2 is away while node 1 releases a claim, and the slot that would have told it is gone: a stale row is left.
	held := acquire(t, a, "stale", "a")
	eventually(t, "node 2 knows the claim", func() bool { return get[int](t, b, "SELECT count(*)::int FROM bakery.claims") == 1 })
	run(t, b, "ALTER SUBSCRIPTION bakery_main_2_from_1 DISABLE")
	eventually(t, "the slot can be dropped", func() bool {
		_, err := a.Exec(t.Context(), "SELECT pg_drop_replication_slot('bakery_main_2_from_1')")
		return err == nil
	})
	run(t, a, "SELECT bakery.release('stale', $1)", held)
	require.Subset(t, codes(t, m.plan.Nodes[0]), []string{"slot_missing", "no_answer"})
	require.Subset(t, codes(t, m.plan.Nodes[1]), []string{"subscription_disabled"})
	_, err := bakery.Install(t.Context(), m.plan)
	require.NoError(t, err)
	eventually(t, "the stale claim is gone", func() bool { return get[int](t, b, "SELECT count(*)::int FROM bakery.claims") == 0 })
	m.works(t, "stale")
	m.requireEmpty(t)
	healthy(t, m.plan.Nodes[1])
}

func TestSchemaIsUpgradedOnALiveMesh(t *testing.T) {
	m := newMesh(t, 2, 18)
	holder := m.session(t, 0)
	held := acquire(t, holder, "t", "holder")
	steps, err := bakery.Migrations()
	require.NoError(t, err)
	next := m.plan
	next.Steps = append(steps, bakery.Migration{Version: len(steps) + 1, Name: "remark",
		SQL: "ALTER TABLE bakery.claims ADD COLUMN remark text NOT NULL DEFAULT ''"})
	report, err := bakery.Install(t.Context(), next)
	require.NoError(t, err)
	require.Equal(t, []string{"n1", "n2"}, report.Upgraded)
	require.True(t, get[bool](t, holder, "SELECT bakery.holding($1)", held), "the claim lives on")
	require.True(t, get[bool](t, holder, "SELECT bakery.release('t', $1)", held))
	m.works(t, "t")
	_, err = bakery.Install(t.Context(), m.plan)
	require.ErrorIs(t, err, bakery.ErrNewerSchema)
}

func TestADeadNodeIsRemovedByTheOperatorsWord(t *testing.T) {
	m := newMesh(t, 3, 15)
	conn := m.session(t, 2)
	dead := acquire(t, conn, "t", "dead")
	eventually(t, "node 1 knows the claim", func() bool {
		return get[bool](t, m.session(t, 0), "SELECT EXISTS (SELECT FROM bakery.claims WHERE ticket = $1)", dead)
	})
	all := m.plan.Nodes
	m.plan.Nodes = all[:2]
	_, err := bakery.Remove(t.Context(), m.plan, "n3")
	require.NoError(t, err)
	m.works(t, "t")
	m.requireEmpty(t)
}

func TestDoctorFindsWhatIsWrong(t *testing.T) {
	m := newMesh(t, 2, 18)
	a := m.session(t, 0)
	run(t, a, "ALTER SUBSCRIPTION bakery_main_1_from_2 SET (synchronous_commit = off, origin = none)")
	run(t, a, "ALTER PUBLICATION bakery SET (publish = 'insert, update, delete, truncate')")
	run(t, a, "REVOKE pg_read_all_stats FROM bakery_owner")
	conn := m.session(t, 0)
	run(t, a, "INSERT INTO bakery.claims (node, ticket, table_name, pid, holder) VALUES (1, 1, 't', 1, 'nobody')")
	run(t, a, "INSERT INTO bakery.acks VALUES (1, 2, 99)")
	_, err := conn.Exec(t.Context(), "SELECT bakery.claim('t', 'x')")
	require.ErrorContains(t, err, "heartbeats")
	_, err = bakery.Doctor(t.Context(), m.plan.Nodes[0])
	require.ErrorContains(t, err, "BK005", "nothing can be asked of the peers")
	run(t, a, "GRANT pg_read_all_stats TO bakery_owner")
	require.Subset(t, codes(t, m.plan.Nodes[0]),
		[]string{"subscription_commit", "subscription_origin", "publication", "orphan_claims", "orphan_acks"})
	require.Equal(t, 1, get[int](t, a, "SELECT claims::int FROM bakery.sweep()"))
	_, err = bakery.Install(t.Context(), m.plan)
	require.NoError(t, err)
	healthy(t, m.plan.Nodes[0])

	require.Equal(t, []string{"pooler"}, codes(t, bakery.Node{Name: "n1", DSN: testenv.PgBouncer(t, m.dbs[0], "session")}))
	require.Equal(t, []string{"other_node"}, codes(t, bakery.Node{Name: "n2", DSN: m.plan.Nodes[0].DSN}), "n2 was not looked at")
	healthy(t, bakery.Node{Name: bakery.Here, DSN: m.plan.Nodes[0].DSN})
	require.Equal(t, []string{"not_installed"}, codes(t, bakery.Node{Name: "n1", DSN: m.server.DSN("postgres")}))
}
