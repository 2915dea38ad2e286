package bakery_test

import (
	"net/url"
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
		require.Empty(t, codes(t, n), n.Name)
	}
}
