package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/claim/bakery"
)

// meshConsole runs the program against the nodes of a mesh: three databases of one
// PostgreSQL 18 server of the test's own.
type meshConsole struct {
	t      *testing.T
	server *testenv.PostgresServer
	dbs    []*testenv.Database
	// env holds what each call finds in its environment, besides claim.postgres.
	env map[string]string
	// said is everything that was printed so far, to look for secrets in it.
	said strings.Builder
}

// installer is the role that installs, without being a superuser.
const installer = "installer"

func newMeshConsole(t *testing.T) *meshConsole {
	t.Helper()
	k := &meshConsole{t: t, env: map[string]string{}}
	k.server = testenv.NewPostgres(t, testenv.PostgresOptions{Major: 18, Settings: map[string]string{
		"max_slot_wal_keep_size": "1GB", "max_replication_slots": "40", "max_wal_senders": "40",
		"max_logical_replication_workers": "30", "max_worker_processes": "40", "max_active_replication_origins": "40",
	}})
	for i := range 3 {
		db := k.server.Database(t)
		k.dbs = append(k.dbs, db)
		t.Cleanup(func() {
			require.NoError(t, bakery.Uninstall(context.Background(), bakery.Node{Name: k.name(i), DSN: db.DSN}, true))
		})
		k.env[fmt.Sprintf("N%d_DSN", i+1)] = as(t, db.DSN, installer)
	}

	return k
}

func (k *meshConsole) name(node int) string { return fmt.Sprintf("n%d", node+1) }

// password is that of a role that the test makes.
func password(role string) string { return "the secret of " + role }

// as is a connection string for another role.
func as(t *testing.T, dsn, role string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	u.User = url.UserPassword(role, password(role))

	return u.String()
}

// at runs the program with the configuration of one node, as a role; an empty role
// is the superuser.
func (k *meshConsole) at(node int, role string, args ...string) result {
	k.t.Helper()
	dsn := k.dbs[node].DSN
	if role != "" {
		dsn = as(k.t, dsn, role)
	}

	return k.through(dsn, args...)
}

// through is at with any connection string.
func (k *meshConsole) through(dsn string, args ...string) result {
	k.t.Helper()
	var stdout, stderr bytes.Buffer
	err := run(context.Background(), environment{
		args: append([]string{"compactor"}, args...),
		getenv: func(name string) (string, bool) {
			switch name {
			case "COMPACTOR_CLAIM_POSTGRES":
				return dsn, true
			case "COMPACTOR_CLAIM_MODE":
				return "bakery", true
			case "COMPACTOR_CLAIM_REALM":
				return "lake", true
			}
			v, ok := k.env[name]

			return v, ok
		},
		stdout: &stdout, stderr: &stderr,
	})
	if err != nil && !wasReported(err) {
		fmt.Fprintln(&stderr, "compactor:", err)
	}
	r := result{code: exitCode(err), stdout: stdout.String(), stderr: stderr.String()}
	k.said.WriteString(r.stdout + r.stderr)

	return r
}

// nodes are the flags that name the nodes of a mesh, the first one's as --node.
func (k *meshConsole) nodes(n int) []string {
	flags := []string{"--node", "n1"}
	for i := 1; i < n; i++ {
		flags = append(flags, "--peer", fmt.Sprintf("n%d=env:N%d_DSN", i+1, i+1))
	}

	return flags
}

// install runs claim install for the first n nodes and returns its document.
func (k *meshConsole) install(n int, flags ...string) installReport {
	k.t.Helper()
	r := k.at(0, installer, slices.Concat([]string{"claim", "install", "--output", "json"}, k.nodes(n), flags)...)
	require.Equal(k.t, 0, r.code, r.stderr)
	var doc installReport
	require.NoError(k.t, json.Unmarshal([]byte(r.stdout), &doc), r.stdout)

	return doc
}

// sql runs statements on a node as superuser.
func (k *meshConsole) sql(node int, statements ...string) {
	k.t.Helper()
	k.dbs[node].Exec(k.t, statements...)
}

// value is the text that a query returns on a node.
func (k *meshConsole) value(node int, sql string, args ...any) string {
	k.t.Helper()
	conn := k.dbs[node].Conn(k.t)
	var text string
	require.NoError(k.t, conn.QueryRow(context.Background(), "SELECT ("+sql+")::text", args...).Scan(&text), sql)
	require.NoError(k.t, conn.Close(context.Background()))

	return text
}

// hold takes a claim on a node in plain SQL, with a session that the test ends.
func (k *meshConsole) hold(node int, key, holder string) (*pgx.Conn, int64) {
	k.t.Helper()
	conn := k.dbs[node].Conn(k.t)
	var ticket int64
	require.NoError(k.t, conn.QueryRow(context.Background(), "CALL bakery.acquire($1, $2)", key, holder).Scan(&ticket))

	return conn, ticket
}

// until asks again until done is true; done may end the test.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// TestClaimCommandsOnAMesh sets a mesh of three up and works with it, all by
// command and without a superuser, as an operator would in this order.
func TestClaimCommandsOnAMesh(t *testing.T) {
	k := newMeshConsole(t)
	for _, step := range []struct {
		name string
		do   func(*testing.T, *meshConsole)
	}{
		{"an install without rights says which are missing", installNamesRights},
		{"a dry run changes nothing", installDryRun},
		{"an old node is upgraded under a claim and the mesh grows", installUpgradesAndGrows},
		{"a second run changes nothing", installAgain},
		{"an altered link is mended", installMends},
		{"the writer's grants are all needed", writerGrants},
		{"list, status and release", listAndRelease},
		{"adopt and registry", adoptAndRegistry},
		{"doctor", doctorProvoked},
		{"a node that is gone is removed, and comes back", removeDead},
		{"a node leaves in order", removeLive},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			k.t = t
			step.do(t, k)
		}) {
			t.Fatalf("the steps build on each other; %q failed", step.name)
		}
	}
	k.t = t
	require.NotContains(t, k.said.String(), "the secret of", "no password is printed")
	require.NotContains(t, k.said.String(), url.QueryEscape(password(installer)))
	require.NotContains(t, k.said.String(), url.PathEscape(password(installer)))
}

func installNamesRights(t *testing.T, k *meshConsole) {
	k.sql(0, "CREATE ROLE "+installer+" LOGIN PASSWORD '"+password(installer)+"'")
	args := slices.Concat([]string{"claim", "install"}, k.nodes(3))
	r := k.at(0, installer, args...)
	require.Equal(t, 2, r.code, r.stderr)
	remedies := []string{
		"GRANT pg_create_subscription TO installer;", "ALTER ROLE installer REPLICATION;",
		"ALTER ROLE installer CREATEROLE;", "GRANT pg_read_all_stats TO installer WITH ADMIN OPTION;",
	}
	for _, db := range k.dbs {
		remedies = append(remedies, "GRANT CREATE ON DATABASE "+db.Name+" TO installer;")
	}
	for _, remedy := range remedies {
		require.Contains(t, r.stderr, remedy)
	}
	for i := range k.dbs {
		require.Equal(t, "true", k.value(i, "SELECT to_regnamespace('bakery') IS NULL AND to_regrole('bakery_owner') IS NULL"))
	}
	for _, remedy := range remedies {
		k.sql(0, remedy)
	}
	noPassword := strings.Replace(k.env["N2_DSN"], ":"+url.UserPassword("", password(installer)).String()[1:], "", 1)
	k.env["NO_PASSWORD"] = noPassword
	r = k.at(0, installer, append(args, "--link", "n2=env:NO_PASSWORD")...)
	require.Equal(t, 2, r.code, r.stderr)
	require.Contains(t, r.stderr, "the connection string to node n2 holds no password")
	require.Equal(t, "true", k.value(0, "SELECT to_regnamespace('bakery') IS NULL"))
}

func installDryRun(t *testing.T, k *meshConsole) {
	doc := k.install(3, "--dry-run")
	require.True(t, doc.DryRun)
	require.Equal(t, []string{"n1", "n2", "n3"}, doc.Added)
	require.EqualValues(t, 3, doc.Membership)
	texts := make([]string, 0, len(doc.Changes))
	for _, c := range doc.Changes {
		texts = append(texts, c.Node+": "+c.Text)
	}
	steps, err := bakery.Migrations()
	require.NoError(t, err)
	schema := fmt.Sprintf("create the roles bakery_owner and bakery_writer where they are missing, and schema bakery (version %d)", len(steps))
	require.Equal(t, []string{
		"n1: " + schema, "n2: " + schema, "n3: " + schema,
		"n1: found mesh main with this node, publish its rows",
		"n2: join mesh main as membership version 2, publish its rows",
		"n1: let node n2 subscribe, subscribe to it, and count it as a peer",
		"n3: join mesh main as membership version 3, publish its rows",
		"n1: let node n3 subscribe, subscribe to it, and count it as a peer",
		"n2: let node n3 subscribe, subscribe to it, and count it as a peer",
	}, texts)
	for i := range k.dbs {
		require.Equal(t, "true", k.value(i, "SELECT to_regnamespace('bakery') IS NULL AND to_regrole('bakery_owner') IS NULL"))
	}
}

// installUpgradesAndGrows: the first node has the schema of an older program and a
// writer on it.
func installUpgradesAndGrows(t *testing.T, k *meshConsole) {
	steps, err := bakery.Migrations()
	require.NoError(t, err)
	_, err = bakery.Install(t.Context(), bakery.Plan{Nodes: []bakery.Node{{Name: "n1", DSN: as(t, k.dbs[0].DSN, installer)}}, Steps: steps[:len(steps)-1]})
	require.NoError(t, err)
	session, ticket := k.hold(0, `lake"s"."old"`, "old writer")
	planned := k.install(3, "--dry-run")
	require.Contains(t, planned.Changes, bakery.Change{Node: "n1", Text: fmt.Sprintf("migrate schema bakery from version %d to %d", len(steps)-1, len(steps))})
	doc := k.install(3)
	require.Equal(t, []string{"n1", "n2", "n3"}, doc.Upgraded)
	require.Equal(t, []string{"n2", "n3"}, doc.Added)
	require.EqualValues(t, 3, doc.Membership)
	require.Equal(t, planned.Added, doc.Added, "the dry run told the truth")
	require.Equal(t, planned.Upgraded, doc.Upgraded)
	require.Equal(t, planned.Membership, doc.Membership)
	var holding bool
	require.NoError(t, session.QueryRow(t.Context(), "SELECT bakery.holding($1)", ticket).Scan(&holding))
	require.True(t, holding, "the claim lives through upgrade and growth")
	far := k.at(2, "", "claim", "exec", "--no-catalog", "--claim-timeout", "1s", "--conflict-exit-code", "75", "s.old", "--", "true")
	require.Equal(t, 75, far.code, far.stderr)
	require.Contains(t, far.stderr, "old writer")
	_, err = session.Exec(t.Context(), "SELECT bakery.release($1, $2)", `lake"s"."old"`, ticket)
	require.NoError(t, err)
	require.NoError(t, session.Close(t.Context()))
	for i := range k.dbs {
		r := k.at(i, "", "claim", "exec", "--no-catalog", "--claim-timeout", "30s", "s.old", "--", "true")
		require.Equal(t, 0, r.code, r.stderr)
	}
}

func installAgain(t *testing.T, k *meshConsole) {
	require.Empty(t, k.install(3, "--dry-run").Changes)
	r := k.at(0, installer, slices.Concat([]string{"claim", "install"}, k.nodes(3))...)
	require.Equal(t, 0, r.code, r.stderr)
	require.Contains(t, r.stdout, "all as they should be")
	r = k.at(0, installer, slices.Concat([]string{"claim", "install"}, k.nodes(2))...)
	require.Equal(t, 2, r.code, r.stderr)
	require.Contains(t, r.stderr, "node n1 has the peer n3 (number 3), which the plan does not name")
	r = k.at(0, installer, slices.Concat([]string{"claim", "install", "--mesh", "other"}, k.nodes(3))...)
	require.Equal(t, 2, r.code, r.stderr)
	require.Contains(t, r.stderr, "belongs to mesh main, not other")
}

func installMends(t *testing.T, k *meshConsole) {
	k.sql(1, "ALTER SUBSCRIPTION bakery_main_2_from_1 SET (synchronous_commit = off, origin = none)")
	k.sql(2, "ALTER PUBLICATION bakery DROP TABLE bakery.registry")
	require.Equal(t, []bakery.Change{
		{Node: "n3", Text: "correct publication bakery"},
		{Node: "n2", Text: "alter the subscription to node n1: synchronous_commit = local, origin = any"},
	}, k.install(3, "--dry-run").Changes)
	k.install(3)
	require.Empty(t, k.install(3, "--dry-run").Changes)
	k.healthy()
}

// The other steps are in claimmesh_steps_test.go and claimdoctor_test.go.
