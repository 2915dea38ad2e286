package bakery

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Limits are the bounds beyond which Examine reports. Zero keeps the default.
type Limits struct {
	// Retained is how many bytes of WAL a slot may keep; default 1 GiB.
	Retained int64
	// Skew is how far the clocks of two nodes may differ; default 5s. Claims stay right whatever the clocks say; ages do not.
	Skew time.Duration
	// Answer is how long the peers may take to answer; default 5s.
	Answer time.Duration
}

// withDefaults fills in what was left at zero.
func (l Limits) withDefaults() Limits {
	if l.Retained == 0 {
		l.Retained = 1 << 30
	}
	if l.Skew == 0 {
		l.Skew = 5 * time.Second
	}
	if l.Answer == 0 {
		l.Answer = 5 * time.Second
	}
	return l
}

// examination is one run of Doctor.
type examination struct {
	*member
	limits Limits
	found  []Finding
}

func (e *examination) add(s Severity, code, remedy, text string, args ...any) {
	e.found = append(e.found, Finding{Severity: s, Code: code, Node: e.Name, Text: fmt.Sprintf(text, args...), Remedy: remedy})
}

// Doctor is Examine with the default limits.
func Doctor(ctx context.Context, n Node) ([]Finding, error) { return Examine(ctx, n, Limits{}) }

// Here names a node whose own name is not known. Examine compares every other name with the one under which the node is a member.
const Here = "here"

// Examine looks at one node and reports what is wrong with it and how to mend it; nothing found means that the node is fit and all its
// peers answer. It changes nothing but the rows of one question to the peers, which it takes back. The role has to be a member of
// bakery_owner. An error means that it could not look; a retry is safe. Run it on every node: each sees its own side of a link.
func Examine(ctx context.Context, n Node, l Limits) ([]Finding, error) {
	m, err := connect(ctx, n)
	var refused *CheckError
	if errors.As(err, &refused) {
		return refused.Findings, nil
	}
	if err != nil {
		return nil, err
	}
	defer m.close(ctx)
	e := &examination{member: m, limits: l.withDefaults()}
	if !m.installed || !m.joined {
		e.add(Error, "not_installed", "compactor claim install", "the database is no node of a mesh")
		return e.found, nil
	}
	e.Name = m.as
	if n.Name != m.as && n.Name != Here {
		e.add(Error, "other_node", "correct the connection string or the name",
			"the connection string of node %s leads to node %s; node %s was not looked at", n.Name, m.as, n.Name)
	}
	// What a role or the database may carry is found below; the questions to the peers have to work in spite of it.
	const plain = "SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off"
	if _, err := m.conn.PgConn().Exec(ctx, plain).ReadAll(); err != nil {
		return nil, fmt.Errorf("prepare session on node %s: %w", m.Name, err)
	}
	steps := []func(context.Context) error{e.basics, e.settings, e.sending, e.subscriptions, e.slots, e.leftovers, e.peersAnswer}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return e.found, err
		}
	}
	return e.found, nil
}

// basics looks at the way to the server, the schema version, the state and the grants.
func (e *examination) basics(ctx context.Context) error {
	var pid uint32
	var stats, execute bool
	var version int
	var role string
	err := e.ask(ctx, "read basics", []any{&pid, &stats, &execute, &version, &role}, `
SELECT pg_backend_pid(), pg_has_role('bakery_owner', 'pg_read_all_stats', 'USAGE'),
       has_schema_privilege('bakery', 'USAGE') AND has_function_privilege('bakery.claim(text, text)', 'EXECUTE'),
       (SELECT max(version) FROM bakery.migrations), quote_ident(current_user)`)
	if err != nil {
		return err
	}
	steps, err := Migrations()
	if err != nil {
		return err
	}
	if pid != e.conn.PgConn().PID() {
		e.add(Error, "pooler", "connect to PostgreSQL directly.", "a connection pooler stands in between; a claim needs a session of its own")
	}
	if !stats {
		e.add(Error, "stats", "GRANT pg_read_all_stats TO bakery_owner;", "role bakery_owner cannot read the heartbeats of the peers, so nobody can claim")
	}
	if !execute {
		e.add(Error, "grant", "GRANT bakery_writer TO "+role+";", "role %s may not take claims", role)
	}
	if version != len(steps) {
		e.add(Warning, "schema_version", "compactor claim install", "the schema has version %d, this program knows %d", version, len(steps))
	}
	if e.state != stateActive {
		e.add(Error, "state", "run compactor claim install again, or finish the removal.", "the node is %s and takes no claims", e.state)
	}
	return nil
}

// settings looks at the server's settings.
func (e *examination) settings(ctx context.Context) error {
	found, err := e.checkSettings(ctx, len(e.peers))
	e.found = append(e.found, found...)
	return err
}

// sending looks at what the node publishes.
func (e *examination) sending(ctx context.Context) error {
	exists, good, err := e.publication(ctx)
	if err == nil && len(e.peers) > 0 && (!exists || !good) {
		e.add(Error, "publication", "compactor claim install", "publication bakery does not send exactly this node's rows of 5 tables")
	}
	return err
}

// publication tells whether the node's publication is there and sends exactly its own rows.
func (m *member) publication(ctx context.Context) (exists, good bool, err error) {
	err = m.ask(ctx, "read publication", []any{&exists, &good}, `
SELECT count(*) > 0, NOT coalesce(bool_or(pubtruncate OR puballtables OR NOT (pubinsert AND pubupdate AND pubdelete)), false)
         AND (SELECT count(*) FROM pg_publication_tables t WHERE t.pubname = 'bakery') = 5
         AND (SELECT count(*) FROM pg_publication_tables t WHERE t.pubname = 'bakery' AND t.rowfilter LIKE '%= ' || $1 || ')') = 5
  FROM pg_publication WHERE pubname = 'bakery'`, fmt.Sprint(m.id))
	return exists, good, err
}

// leftovers counts what sweep would delete.
func (e *examination) leftovers(ctx context.Context) error {
	var claims, acks int
	err := e.ask(ctx, "count leftovers", []any{&claims, &acks}, `
SELECT (SELECT count(*)::int FROM bakery.status() s WHERE s.orphan),
       (SELECT count(*)::int FROM bakery.acks k JOIN bakery.self m ON m.node = k.acker
         WHERE NOT EXISTS (SELECT FROM bakery.claims c WHERE c.node = k.node AND c.ticket = k.ticket))`)
	if err != nil {
		return err
	}
	if claims > 0 {
		e.add(Warning, "orphan_claims", "SELECT bakery.sweep();", "%d claims of this node have no owner; the next claim or a waiter's poke deletes them", claims)
	}
	if acks > 0 {
		e.add(Warning, "orphan_acks", "SELECT bakery.sweep();", "%d acks of this node belong to no claim", acks)
	}
	return nil
}

// peersAnswer asks every peer a question and compares versions and clocks.
func (e *examination) peersAnswer(ctx context.Context) error {
	if len(e.peers) == 0 {
		return nil
	}
	var id int64
	sent := time.Now()
	if err := e.ask(ctx, "greet the peers", []any{&id}, "SELECT bakery.hello('bakery.doctor')"); err != nil {
		return err
	}
	// What waits below for answers ends with the last one; the time of the slowest bounds how well clocks can be compared.
	_ = poll(ctx, e.limits.Answer, "all peers answer", func(ctx context.Context) (bool, error) {
		var all bool
		err := e.ask(ctx, "read answers", []any{&all}, "SELECT bool_and(w.poke IS NOT NULL) FROM bakery.waiting($1) w", id)
		return all, err
	})
	slack := time.Since(sent)
	err := e.compare(ctx, id, slack)
	if bye := e.exec(ctx, "take back the question", "SELECT bakery.goodbye()"); err == nil {
		err = bye
	}
	return err
}

// compare reads the answers.
func (e *examination) compare(ctx context.Context, id int64, slack time.Duration) error {
	rows, err := e.conn.Query(ctx, `
SELECT w.name, w.poke IS NOT NULL, coalesce(w.membership, 0), coalesce(w.schema_version, 0),
       coalesce(extract(epoch FROM w.answered_at - clock_timestamp()), 0)::float8, (SELECT max(version) FROM bakery.migrations)
  FROM bakery.waiting($1) w`, id)
	if err != nil {
		return fmt.Errorf("read answers on node %s: %w", e.Name, err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var answered bool
		var membership int64
		var schema, own int
		var ahead float64
		if err := rows.Scan(&name, &answered, &membership, &schema, &ahead, &own); err != nil {
			return fmt.Errorf("read answers on node %s: %w", e.Name, err)
		}
		skew := time.Duration(ahead * float64(time.Second))
		switch {
		case !answered:
			e.add(Error, "no_answer", "look at that node and at both links to it.", "node %s did not answer within %s", name, e.limits.Answer)
			continue
		case membership != e.shows:
			e.add(Error, "membership", "run compactor claim install (or the removal) again.", "node %s shows membership version %d, this node %d", name, membership, e.shows)
		case schema != own:
			e.add(Warning, "schema_version", "compactor claim install", "node %s has schema version %d, this node %d", name, schema, own)
		}
		if skew > e.limits.Skew || skew < -e.limits.Skew-slack {
			e.add(Warning, "clock", "synchronise the clocks.", "the clock of node %s is off by %s", name, skew.Round(time.Second))
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read answers on node %s: %w", e.Name, err)
	}
	return nil
}
