package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// app is the role of a writer: a member of bakery_writer and nothing else.
const app = "app"

// writerGrants takes one grant after another from the role of writers. The program
// refuses before it does anything, and names the statement that mends it.
func writerGrants(t *testing.T, k *meshConsole) {
	k.sql(0, "CREATE ROLE "+app+" LOGIN PASSWORD '"+password(app)+"'", "GRANT bakery_writer TO "+app)
	exec := []string{"claim", "exec", "--no-catalog", "--claim-timeout", "30s", "s.t", "--", "true"}
	commands := map[string][]string{
		"bakery.status(text)": {"claim", "list"}, "bakery.registered()": {"claim", "registry"},
		"bakery.register(bigint,text)": {"claim", "adopt", "--no-catalog", "s.t"},
		// Only for writers in plain SQL, who get PostgreSQL's own refusal.
		"bakery.keep(bigint,interval)": nil, "bakery.acquire(text,text,bigint,interval,interval)": nil,
	}
	var granted []string
	require.NoError(t, json.Unmarshal([]byte(k.value(0, `SELECT json_agg(p.oid::regprocedure::text ORDER BY 1) FROM pg_proc p
		JOIN pg_namespace n ON n.oid = p.pronamespace, aclexplode(p.proacl) a WHERE n.nspname = 'bakery' AND a.grantee = 'bakery_writer'::regrole`)), &granted))
	require.Len(t, granted, 18)
	for _, command := range [][]string{exec, {"claim", "list"}, {"claim", "registry"}} {
		r := k.at(0, app, command...)
		require.Equal(t, 0, r.code, r.stderr)
	}
	for _, function := range granted {
		command, special := commands[function]
		if !special {
			command = exec
		}
		kind := "FUNCTION"
		if strings.HasPrefix(function, "bakery.acquire") {
			kind = "PROCEDURE"
		}
		k.sql(0, fmt.Sprintf("REVOKE EXECUTE ON %s %s FROM bakery_writer", kind, function))
		if command == nil {
			conn, err := pgx.Connect(t.Context(), as(t, k.dbs[0].DSN, app))
			require.NoError(t, err)
			call := map[string]string{"FUNCTION": "SELECT bakery.keep(1)", "PROCEDURE": "CALL bakery.acquire('t', 'w')"}[kind]
			_, err = conn.Exec(t.Context(), call)
			require.ErrorContains(t, err, "permission denied for "+strings.ToLower(kind))
			require.NoError(t, conn.Close(t.Context()))
		} else {
			r := k.at(0, app, command...)
			require.Equal(t, map[bool]int{true: 125, false: 2}[command[1] == "exec"], r.code, "%s: %s", function, r.stderr)
			grant := "GRANT EXECUTE ON FUNCTION " + strings.ReplaceAll(function, ",", ", ") + " TO bakery_writer"
			require.Contains(t, r.stderr, grant, "%s: %s", function, r.stderr)
		}
		k.sql(0, fmt.Sprintf("GRANT EXECUTE ON %s %s TO bakery_writer", kind, function))
	}
	for revoke, c := range map[string]struct{ grant, says string }{
		"REVOKE bakery_writer FROM " + app:                             {"GRANT bakery_writer TO " + app, `GRANT bakery_writer TO "app"`},
		"REVOKE USAGE ON SCHEMA bakery FROM bakery_writer":             {"GRANT USAGE ON SCHEMA bakery TO bakery_writer", "GRANT USAGE ON SCHEMA bakery TO bakery_writer"},
		"REVOKE CONNECT ON DATABASE " + k.dbs[0].Name + " FROM PUBLIC": {"GRANT CONNECT ON DATABASE " + k.dbs[0].Name + " TO PUBLIC", "grant CONNECT on the database"},
		"REVOKE pg_read_all_stats FROM bakery_owner GRANTED BY " + installer: {
			"SET ROLE " + installer + "; GRANT pg_read_all_stats TO bakery_owner", "GRANT pg_read_all_stats TO bakery_owner",
		},
	} {
		k.sql(0, revoke)
		r := k.at(0, app, exec...)
		require.Equal(t, 125, r.code, "%s: %s", revoke, r.stderr)
		require.Contains(t, r.stderr, c.says, revoke)
		r = k.at(0, app, "claim", "release", "--force", "1")
		require.Equal(t, 2, r.code, "%s: %s", revoke, r.stderr)
		k.sql(0, c.grant)
	}
	r := k.at(0, app, "claim", "release", "--force", "--yes", "1")
	require.Equal(t, 2, r.code, r.stderr)
	require.Contains(t, r.stderr, `GRANT bakery_owner TO "app"`)
	r = k.at(0, app, "claim", "doctor")
	require.Equal(t, 2, r.code, r.stderr)
	require.Contains(t, r.stdout, `GRANT bakery_owner TO "app";`)
	r = k.at(0, app, exec...)
	require.Equal(t, 0, r.code, r.stderr)
	require.Equal(t, "0", k.value(0, "SELECT count(*) FROM bakery.claims"), "no refusal leaves a claim")
}

// claimedDoc and claimantDoc are what a report says about a table.
type claimedDoc struct {
	Key     string        `json:"key"`
	Holder  *claimantDoc  `json:"holder"`
	Waiters []claimantDoc `json:"waiters"`
}

type claimantDoc struct {
	Name    string          `json:"name"`
	PID     int             `json:"server_process"`
	Node    string          `json:"node"`
	Ticket  string          `json:"ticket"`
	Seconds float64         `json:"seconds"`
	Detail  string          `json:"detail"`
	Missing []missingStatus `json:"missing_acks"`
}

// tablesOf runs a command that reports on tables, as a writer.
func (k *meshConsole) tablesOf(node int, args ...string) []claimedDoc {
	k.t.Helper()
	r := k.at(node, app, append(args, "--output", "json")...)
	require.Equal(k.t, 0, r.code, r.stderr)
	var doc struct {
		Tables []claimedDoc `json:"tables"`
	}
	require.NoError(k.t, json.Unmarshal([]byte(r.stdout), &doc), r.stdout)

	return doc.Tables
}

// bare is a party without what changes from run to run.
func bare(p claimantDoc) claimantDoc {
	p.PID, p.Seconds = 0, 0

	return p
}

func listAndRelease(t *testing.T, k *meshConsole) {
	require.Empty(t, k.tablesOf(0, "claim", "list"))
	require.Equal(t, "no table has a claim\n", k.at(0, app, "claim", "list").stdout)
	const key, other = `lake"s"."held"`, `lake"s"."other"`
	holder, ticket := k.hold(0, key, "compactor@one")
	second, otherTicket := k.hold(1, other, "loader@two")
	waiter := k.dbs[1].Conn(t)
	var waiting int64
	require.NoError(t, waiter.QueryRow(t.Context(), "SELECT bakery.claim($1, 'writer@two')", key).Scan(&waiting))
	held := fmt.Sprint(ticket)
	why := []missingStatus{{Node: "n1", Why: "ticket " + held + " of compactor@one is before it"}}
	var all []claimedDoc
	until(t, "node 3 knows all", func() bool {
		all = k.tablesOf(2, "claim", "list")
		return len(all) == 2 && all[0].Holder != nil && all[1].Holder != nil && len(all[0].Waiters) == 1 && len(all[0].Waiters[0].Missing) == 1
	})
	require.Positive(t, all[0].Holder.Seconds)
	require.Equal(t, []string{key, other}, []string{all[0].Key, all[1].Key})
	require.Equal(t, claimantDoc{Name: "compactor@one", Node: "n1", Ticket: held}, bare(*all[0].Holder))
	require.Equal(t, claimantDoc{
		Name: "writer@two", Node: "n2", Ticket: fmt.Sprint(waiting), Missing: why,
		Detail: "no answer yet from n1 (" + why[0].Why + ")",
	}, bare(all[0].Waiters[0]))
	require.Equal(t, claimantDoc{Name: "loader@two", Node: "n2", Ticket: fmt.Sprint(otherTicket)}, bare(*all[1].Holder))
	one := k.tablesOf(2, "claim", "status", "--no-catalog", "s.held")
	require.Len(t, one, 1)
	require.Equal(t, bare(*all[0].Holder), bare(*one[0].Holder))
	require.Equal(t, bare(all[0].Waiters[0]), bare(one[0].Waiters[0]))
	text := k.at(2, app, "claim", "list").stdout
	require.Contains(t, text, key)
	require.Contains(t, text, "no answer yet from n1 (ticket "+held+" of compactor@one is before it)")

	release := []string{"claim", "release", "--force", held, "--output", "json"}
	r := k.at(1, installer, release...)
	require.Equal(t, 2, r.code, r.stderr)
	require.Contains(t, r.stderr, "belongs to node n1: release it there")
	r = k.at(0, installer, release...)
	require.Equal(t, 2, r.code, r.stderr)
	require.Contains(t, r.stderr, "may still land after another writer has got the table")
	require.Contains(t, r.stderr, "compactor@one (node n1, server process "+fmt.Sprint(holder.PgConn().PID())+") holds "+key)
	require.Contains(t, r.stderr, "give --yes")
	var holding bool
	require.NoError(t, holder.QueryRow(t.Context(), "SELECT bakery.holding($1)", ticket).Scan(&holding))
	require.True(t, holding, "nothing is done without a yes")
	for _, wrong := range [][]string{{"claim", "release", held}, {"claim", "release", "--force"}, {"claim", "release", "--force", "x"}, {"claim", "release", "--force", "7"}} {
		require.Equal(t, 2, k.at(0, installer, wrong...).code, wrong)
	}
	r = k.at(0, installer, append(release, "--yes")...)
	require.Equal(t, 0, r.code, r.stderr)
	var doc forcedRelease
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &doc))
	require.Equal(t, forcedRelease{Table: key, Ticket: held, Holder: "compactor@one", PID: int(holder.PgConn().PID()), Released: true}, doc)
	require.NoError(t, holder.QueryRow(t.Context(), "SELECT bakery.holding($1)", ticket).Scan(&holding))
	require.False(t, holding)
	until(t, "the waiter enters", func() bool {
		var entered bool
		require.NoError(t, waiter.QueryRow(t.Context(), "SELECT bakery.enter($1)", waiting).Scan(&entered))
		return entered
	})
	_, err := waiter.Exec(t.Context(), "SELECT bakery.release($1, $2)", key, waiting)
	require.NoError(t, err)
	_, err = second.Exec(t.Context(), "SELECT bakery.release($1, $2)", other, otherTicket)
	require.NoError(t, err)
}

func adoptAndRegistry(t *testing.T, k *meshConsole) {
	r := k.at(0, app, "claim", "adopt", "--no-catalog", "--output", "json", "s.events")
	require.Equal(t, 0, r.code, r.stderr)
	var first, again adoption
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &first))
	require.Equal(t, adoption{Table: "s.events", Key: `lake"s"."events"`, Relation: "s.events", New: true}, first)
	r = k.at(1, app, "claim", "adopt", "--no-catalog", "--output", "json", "s.events")
	require.Equal(t, 0, r.code, r.stderr)
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &again))
	require.Equal(t, adoption{Table: "s.events", Key: `lake"s"."events"`, Relation: "s.events"}, again, "the second node reads the first one's row")
	r = k.at(2, app, "claim", "adopt", "--no-catalog", "--relation", "public.other", "s.events")
	require.Equal(t, 2, r.code, r.stderr)
	require.Contains(t, r.stderr, "registered as s.events already")
	r = k.at(2, app, "claim", "adopt", "--no-catalog", "--relation", "public.clicks", "s.clicks")
	require.Equal(t, 0, r.code, r.stderr)
	require.Equal(t, `lake"s"."clicks" is registered as public.clicks`+"\n", r.stdout)

	for i := range k.dbs {
		var doc struct{ Tables []registration }
		until(t, "the registry has arrived", func() bool {
			r := k.at(i, app, "claim", "registry", "--output", "json")
			require.Equal(t, 0, r.code, r.stderr)
			require.NoError(t, json.Unmarshal([]byte(r.stdout), &doc))
			return len(doc.Tables) == 2
		})
		for j := range doc.Tables {
			require.False(t, doc.Tables[j].RegisteredAt.IsZero())
			doc.Tables[j].RegisteredAt = doc.Tables[0].RegisteredAt
		}
		at := doc.Tables[0].RegisteredAt
		require.Equal(t, []registration{
			{Key: `lake"s"."clicks"`, Relation: "public.clicks", Node: "n3", RegisteredAt: at},
			{Key: `lake"s"."events"`, Relation: "s.events", Node: "n1", RegisteredAt: at},
		}, doc.Tables)
	}
	require.Contains(t, k.at(0, app, "claim", "registry").stdout, "public.clicks")
}

// removeDead: node 3 is gone. Its removal rests on the operator's word, and it comes
// back only as a new node.
func removeDead(t *testing.T, k *meshConsole) {
	remove := slices.Concat([]string{"claim", "install", "--remove", "n3"}, k.nodes(2))
	var doc installReport
	r := k.at(0, installer, append(remove, "--dry-run", "--output", "json")...)
	require.Equal(t, 0, r.code, r.stderr)
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &doc))
	drop := "drop the subscription to node n3, the slot that feeds it, and its rows"
	require.Equal(t, []string{"n1 stop counting node n3", "n1 " + drop, "n2 stop counting node n3", "n2 " + drop, "n1 take over 1 registrations of node n3"},
		texts(doc))
	r = k.at(0, installer, remove...)
	require.Equal(t, 2, r.code, r.stderr)
	require.Contains(t, r.stderr, "If it still runs, its writers may hold a table")
	require.Equal(t, "2", k.value(0, "SELECT count(*) FROM bakery.peers"), "nothing is done without a yes")
	r = k.at(0, installer, append(remove, "--yes")...)
	require.Equal(t, 0, r.code, r.stderr)
	require.Equal(t, "1", k.value(0, "SELECT count(*) FROM bakery.peers"))
	r = k.at(0, app, "claim", "exec", "--no-catalog", "--claim-timeout", "30s", "s.t", "--", "true")
	require.Equal(t, 0, r.code, "two nodes go on: %s", r.stderr)

	r = k.at(2, installer, "claim", "uninstall", "--yes")
	require.Equal(t, 2, r.code, "it does not know that it was removed: %s", r.stderr)
	r = k.at(2, installer, "claim", "uninstall", "--force")
	require.Equal(t, 2, r.code, "it asks: %s", r.stderr)
	require.Equal(t, "true", k.value(2, "SELECT to_regnamespace('bakery') IS NOT NULL"))
	r = k.at(2, installer, "claim", "uninstall", "--force", "--yes")
	require.Equal(t, 0, r.code, r.stderr)
	require.Equal(t, "true", k.value(2, "SELECT to_regnamespace('bakery') IS NULL"))
	require.Equal(t, []string{"n3"}, k.install(3).Added)
	k.healthy()
}

func texts(doc installReport) []string {
	var out []string
	for _, c := range doc.Changes {
		out = append(out, c.Node+" "+c.Text)
	}

	return out
}

func removeLive(t *testing.T, k *meshConsole) {
	remove := slices.Concat([]string{"claim", "install", "--remove", "n3"}, k.nodes(3))
	r := k.at(0, installer, append(remove, "--output", "json")...)
	require.Equal(t, 0, r.code, r.stderr)
	var doc installReport
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &doc))
	require.Equal(t, "n3", doc.Removed)
	require.EqualValues(t, 6, doc.Membership, "two added, one removed, one added, one removed")
	r = k.at(2, app, "claim", "exec", "--no-catalog", "s.t", "--", "true")
	require.Equal(t, 125, r.code, r.stderr)
	require.Contains(t, r.stderr, "no active node")
	r = k.at(2, installer, "claim", "uninstall", "--yes", "--output", "json")
	require.Equal(t, 0, r.code, r.stderr)
	require.JSONEq(t, `{"uninstalled": true}`, r.stdout)
	r = k.at(0, installer, slices.Concat([]string{"claim", "install", "--remove", "n9"}, k.nodes(2))...)
	require.Equal(t, 2, r.code, r.stderr)
	require.Contains(t, r.stderr, "no member knows it")
	r = k.at(0, app, "claim", "exec", "--no-catalog", "--claim-timeout", "30s", "s.t", "--", "true")
	require.Equal(t, 0, r.code, r.stderr)
}
