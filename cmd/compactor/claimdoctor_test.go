package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/claim/bakery"
)

// examine runs claim doctor on all three nodes.
func (k *meshConsole) examine(flags ...string) (code int, doc doctorReport) {
	k.t.Helper()
	r := k.at(0, installer, slices.Concat([]string{"claim", "doctor", "--output", "json", "--answer-within", "2s"}, k.nodes(3), flags)...)
	require.NoError(k.t, json.Unmarshal([]byte(r.stdout), &doc), "%s %s", r.stdout, r.stderr)
	require.Len(k.t, doc.Nodes, 3)
	for i, n := range doc.Nodes {
		require.Equal(k.t, k.name(i), n.Node)
	}

	return r.code, doc
}

// healthy waits until nothing is found any more.
func (k *meshConsole) healthy() {
	k.t.Helper()
	var doc doctorReport
	defer func() {
		if k.t.Failed() {
			k.t.Logf("last report: %+v", doc)
		}
	}()
	until(k.t, "nothing is found", func() bool {
		var code int
		code, doc = k.examine()

		return code == 0 && doc.Healthy
	})
}

// ailment is one thing that can be wrong with a mesh.
type ailment struct {
	name string
	// provoke is run on a node as superuser.
	provoke map[int][]string
	flags   []string
	// code is the exit code; findings are "node code" of what has to be found, and
	// text is in one of them.
	code     int
	findings []string
	text     string
	// mend is what ends it; without it the remedies of the findings are followed.
	mend map[int][]string
}

func ailments() []ailment {
	return []ailment{
		{
			name: "a subscription is missing", code: 2, findings: []string{"n2 subscription_missing", "n1 slot_inactive", "n2 no_answer"},
			provoke: map[int][]string{1: {
				"ALTER SUBSCRIPTION bakery_main_2_from_1 DISABLE", "ALTER SUBSCRIPTION bakery_main_2_from_1 SET (slot_name = NONE)",
				"DROP SUBSCRIPTION bakery_main_2_from_1",
			}},
		},
		{
			name: "a subscription is disabled and its slot keeps WAL", code: 2, flags: []string{"--max-retained", "4MiB"},
			findings: []string{"n2 subscription_disabled", "n1 slot_inactive", "n1 slot_retains", "n2 no_answer"}, text: "MiB of WAL",
			provoke: map[int][]string{
				1: {"ALTER SUBSCRIPTION bakery_main_2_from_1 DISABLE"},
				0: {"SELECT count(pg_logical_emit_message(false, 'test', repeat('x', 1000000))) FROM generate_series(1, 8)"},
			},
		},
		{
			name: "an apply worker errs", code: 2, findings: []string{"n2 subscription_errors", "n1 no_answer"},
			provoke: map[int][]string{
				1: {"ALTER TABLE bakery.hellos ADD CONSTRAINT broken CHECK (node <> 1) NOT VALID"},
				0: {"INSERT INTO bakery.hellos (node, id, table_name, pid) VALUES (1, -1000000, 'x', 1)"},
			},
			mend: map[int][]string{
				1: {"ALTER TABLE bakery.hellos DROP CONSTRAINT broken", "SELECT pg_stat_reset_subscription_stats(oid) FROM pg_subscription WHERE subname = 'bakery_main_2_from_1'"},
				0: {"DELETE FROM bakery.hellos WHERE id = -1000000"},
			},
		},
		{
			name: "claims and acks that nobody owns", code: 3, findings: []string{"n1 orphan_claims", "n2 orphan_acks"},
			provoke: map[int][]string{
				0: {"INSERT INTO bakery.claims (node, ticket, table_name, pid, holder) VALUES (1, 1, 'orphan', 1, 'nobody')"},
				1: {"INSERT INTO bakery.acks (acker, node, ticket) VALUES (2, 3, 99)"},
			},
		},
		{
			name: "a clock is late", code: 3, findings: []string{"n1 clock", "n3 clock"}, text: "the clock of node n2 is off by -10m",
			provoke: map[int][]string{1: {answersAt("clock_timestamp()", "(clock_timestamp() - interval '10 min')")}},
			mend:    map[int][]string{1: {answersAt("(clock_timestamp() - interval '10 min')", "clock_timestamp()")}},
		},
		{
			name: "schema versions differ", code: 3, findings: []string{"n2 schema_version", "n1 schema_version", "n3 schema_version"}, text: "node n2 has schema version 99",
			provoke: map[int][]string{1: {"INSERT INTO bakery.migrations (version, name) VALUES (99, 'of the future')"}},
			mend:    map[int][]string{1: {"DELETE FROM bakery.migrations WHERE version = 99"}},
		},
		{
			name: "membership versions differ", code: 2, findings: []string{"n1 membership", "n2 membership", "n3 membership"}, text: "shows membership version",
			provoke: map[int][]string{1: {"UPDATE bakery.self SET membership = membership + 1"}},
			mend:    map[int][]string{1: {"UPDATE bakery.self SET membership = membership - 1"}},
		},
		{
			name: "a setting costs time", code: 3, findings: []string{"n1 setting", "n2 setting", "n3 setting"}, text: "wal_retrieve_retry_interval is 5000",
			provoke: map[int][]string{0: {"ALTER SYSTEM SET wal_retrieve_retry_interval = '5s'", "SELECT pg_reload_conf()"}},
		},
		{
			name: "a setting of the database leaks", code: 2, findings: []string{"n3 setting_leaks"}, text: "default_transaction_isolation=serializable",
			provoke: map[int][]string{2: {"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database()); END $$"}},
		},
		{
			name: "the heartbeats cannot be read", code: 2, findings: []string{"n1 stats"}, text: "nobody can claim",
			provoke: map[int][]string{0: {"REVOKE pg_read_all_stats FROM bakery_owner GRANTED BY " + installer}},
			mend:    map[int][]string{0: {"SET ROLE " + installer + "; GRANT pg_read_all_stats TO bakery_owner"}},
		},
		{
			name: "a node is being removed", code: 2, findings: []string{"n3 state"}, text: "takes no claims",
			provoke: map[int][]string{2: {"UPDATE bakery.self SET state = 'leaving'"}},
			mend:    map[int][]string{2: {"UPDATE bakery.self SET state = 'active'"}},
		},
		{
			name: "a publication sends too much", code: 2, findings: []string{"n2 publication"},
			provoke: map[int][]string{1: {"ALTER PUBLICATION bakery SET (publish = 'insert, update, delete, truncate')"}},
		},
	}
}

// answersAt makes a node take the time of its answers from another expression.
func answersAt(old, now string) string {
	quoted := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

	return "DO $outer$ BEGIN EXECUTE replace(pg_get_functiondef('bakery._answer(integer,bigint,bigint,text)'::regprocedure), " +
		quoted(old) + ", " + quoted(now) + "); END $outer$"
}

// doctorProvoked provokes each ailment on a healthy mesh, finds it, follows the
// remedy, and finds the mesh healthy again.
func doctorProvoked(t *testing.T, k *meshConsole) {
	k.healthy()
	for _, a := range ailments() {
		t.Run(a.name, func(t *testing.T) {
			k.t = t
			for _, node := range []int{0, 1, 2} {
				k.sql(node, a.provoke[node]...)
			}
			var code int
			var doc doctorReport
			defer func() {
				if t.Failed() {
					t.Logf("exit %d, last report: %+v", code, doc)
				}
			}()
			until(t, "all is found", func() bool {
				code, doc = k.examine(a.flags...)

				return a.isFound(code, doc)
			})
			for _, node := range []int{0, 1, 2} {
				k.sql(node, a.mend[node]...)
			}
			if a.mend == nil {
				k.follow(doc)
			}
			k.healthy()
		})
	}
	k.t = t
	doctorThroughAPooler(t, k)
	doctorUnreachable(t, k)
}

func (a ailment) isFound(code int, doc doctorReport) bool {
	var found, texts []string
	for _, n := range doc.Nodes {
		for _, f := range n.Findings {
			found, texts = append(found, n.Node+" "+f.Code), append(texts, f.Text)
		}
	}

	return code == a.code && !slices.ContainsFunc(a.findings, func(f string) bool { return !slices.Contains(found, f) }) &&
		strings.Contains(strings.Join(texts, "\n"), a.text)
}

// follow does what the remedies say: statements on the node, or the installation.
func (k *meshConsole) follow(doc doctorReport) {
	k.t.Helper()
	for i, n := range doc.Nodes {
		for _, f := range n.Findings {
			switch {
			case strings.HasPrefix(f.Remedy, "compactor claim install"):
				k.install(3)
			case strings.HasSuffix(f.Remedy, ";"):
				for _, statement := range strings.Split(strings.TrimSuffix(f.Remedy, ";"), "; ") {
					k.sql(i, statement)
				}
			}
		}
	}
}

func doctorThroughAPooler(t *testing.T, k *meshConsole) {
	r := k.through(testenv.PgBouncer(t, k.dbs[0], "session"), "claim", "doctor", "--output", "json")
	require.Equal(t, 2, r.code, r.stderr)
	var doc doctorReport
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &doc))
	require.Len(t, doc.Nodes, 1)
	require.Len(t, doc.Nodes[0].Findings, 1)
	require.Equal(t, bakery.Finding{
		Severity: bakery.Error, Code: "pooler", Node: "n1", Remedy: "connect to PostgreSQL directly.",
		Text: "a connection pooler stands in between; a claim needs a session of its own",
	}, doc.Nodes[0].Findings[0])
}

// doctorUnreachable: one node that is away does not keep the others from being looked at.
func doctorUnreachable(t *testing.T, k *meshConsole) {
	k.env["GONE"] = "postgres://nobody@127.0.0.1:1/none"
	r := k.at(0, installer, "claim", "doctor", "--peer", "gone=env:GONE", "--peer", "n2=env:N2_DSN")
	require.Equal(t, 1, r.code, r.stderr)
	require.Contains(t, r.stdout, "node gone\n  failed   connect to node gone:")
	require.Equal(t, 2, strings.Count(r.stdout, "nothing found"), r.stdout)
}
