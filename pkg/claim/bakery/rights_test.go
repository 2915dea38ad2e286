package bakery_test

import (
	"net/url"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"compactor/pkg/claim/bakery"
)

// as rewrites a superuser's DSN for another role.
func as(tb testing.TB, dsn, role string) string {
	tb.Helper()
	u, err := url.Parse(dsn)
	require.NoError(tb, err)
	u.User = url.UserPassword(role, "secret of "+role)
	return u.String()
}

// installer makes a role with the rights that the documentation names for installing without a superuser.
func (m *mesh) installer(tb testing.TB, role string) {
	tb.Helper()
	conn := open(tb, m.server.DSN("postgres"))
	for _, sql := range []string{
		"CREATE ROLE " + role + " LOGIN CREATEROLE REPLICATION PASSWORD 'secret of " + role + "'",
		"GRANT pg_create_subscription TO " + role,
		"GRANT pg_read_all_stats TO " + role + " WITH ADMIN OPTION",
	} {
		run(tb, conn, sql)
	}
	for i, db := range m.dbs {
		run(tb, conn, "GRANT CREATE ON DATABASE "+db.Name+" TO "+role)
		m.plan.Nodes[i].DSN = as(tb, db.DSN, role)
	}
}

// TestInstallWithoutASuperuser joins three nodes as a role that is no superuser, as PostgreSQL 16 and later allow.
func TestInstallWithoutASuperuser(t *testing.T) {
	m := freshNodes(t, 3, 18)
	m.installer(t, "installer")
	report, err := bakery.Install(t.Context(), m.plan)
	require.NoError(t, err)
	require.Equal(t, []string{"n1", "n2", "n3"}, report.Added)
	m.works(t, "t")
	for _, n := range m.plan.Nodes {
		healthy(t, n)
	}
}

// TestASecondInstallerNeedsTheFirstOnesRights: publications and subscriptions belong to who made them, the roles are there already.
func TestASecondInstallerNeedsTheFirstOnesRights(t *testing.T) {
	m := freshNodes(t, 2, 18)
	m.installer(t, "installer")
	_, err := bakery.Install(t.Context(), m.plan)
	require.NoError(t, err)
	second := m.plan
	second.Nodes = nil
	for i, db := range m.dbs {
		second.Nodes = append(second.Nodes, bakery.Node{Name: m.plan.Nodes[i].Name, DSN: as(t, db.DSN, "second"), PeerDSN: m.plan.Nodes[i].DSN})
	}
	admin := open(t, m.server.DSN("postgres"))
	for _, sql := range []string{
		"CREATE ROLE second LOGIN REPLICATION PASSWORD 'secret of second'", "GRANT pg_create_subscription, bakery_owner TO second",
		"GRANT CREATE ON DATABASE " + m.dbs[0].Name + ", " + m.dbs[1].Name + " TO second",
	} {
		run(t, admin, sql)
	}
	_, err = bakery.Install(t.Context(), second)
	var failed *bakery.CheckError
	require.ErrorAs(t, err, &failed)
	require.Len(t, failed.Findings, 2, "one for each node: %v", err)
	require.Equal(t, "install as installer, or: GRANT installer TO second;", failed.Findings[0].Remedy)
	run(t, admin, "GRANT installer TO second")
	report, err := bakery.Install(t.Context(), second)
	require.NoError(t, err)
	require.Empty(t, report.Added)
	m.works(t, "t")
}

// TestLinksOfARoleOfTheirOwn: the role as which nodes log in to each other needs nothing but to replicate, and what a superuser
// installs is not in the servers' logs with its password, not even when it fails.
func TestLinksOfARoleOfTheirOwn(t *testing.T) {
	m := freshNodes(t, 2, 15)
	admin := open(t, m.server.DSN("postgres"))
	run(t, admin, "ALTER SYSTEM SET log_statement = 'all'")
	run(t, admin, "SELECT pg_reload_conf()")
	run(t, admin, "CREATE ROLE link LOGIN PASSWORD 'secret of link'")
	for i, db := range m.dbs {
		m.plan.Nodes[i].PeerDSN = as(t, db.DSN, "link")
	}
	_, err := bakery.Install(t.Context(), m.plan)
	require.ErrorContains(t, err, "ALTER ROLE \"link\" LOGIN REPLICATION;")
	run(t, admin, "ALTER ROLE link REPLICATION PASSWORD 'another'")
	_, err = bakery.Install(t.Context(), m.plan)
	require.ErrorContains(t, err, "password authentication failed")
	run(t, admin, "ALTER ROLE link PASSWORD 'secret of link'")
	_, err = bakery.Install(t.Context(), m.plan)
	require.NoError(t, err)
	m.works(t, "t")
	require.True(t, get[bool](t, m.session(t, 0), `SELECT subconninfo LIKE '%secret\%20of\%20link%' FROM pg_subscription WHERE subname = 'bakery_main_1_from_2'`))
	require.False(t, get[bool](t, m.session(t, 0), "SELECT has_table_privilege('link', 'bakery.floors', 'SELECT')"))
	log, err := os.ReadFile(m.server.LogPath())
	require.NoError(t, err)
	require.Contains(t, string(log), "INSERT INTO bakery.self", "statements are logged")
	require.NotContains(t, string(log), "secret%20of", "but those with a password are not")
}
