package bakery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// published lists the tables that travel, the columns that do, and the column that says whose row it is. The columns are named so
// that a later schema may add one on every node before any node sends it.
const published = `bakery.claims (node, ticket, table_name, poke, entered_at, claimed_at, pid, holder) WHERE (node = %[1]d),
 bakery.acks (acker, node, ticket) WHERE (acker = %[1]d),
 bakery.hellos (node, id, table_name, pid) WHERE (node = %[1]d),
 bakery.answers (acker, node, about, poke, table_name, floor, reach, membership, schema_version, answered_at) WHERE (acker = %[1]d),
 bakery.registry (table_name, node, relation, registered_at) WHERE (node = %[1]d)`

// publish makes the node's publication what this program wants it to be, and lets the peers' role read it. Truncate is left out because it ignores row filters and
// would go round for ever.
func (m *member) publish(ctx context.Context) error {
	var exists bool
	err := m.ask(ctx, "look for publication", []any{&exists}, "SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = 'bakery')")
	if err != nil {
		return err
	}
	if err := m.grantLink(ctx); err != nil {
		return err
	}
	tables := fmt.Sprintf(published, m.id)
	if exists {
		if err := m.exec(ctx, "alter publication", "ALTER PUBLICATION bakery SET TABLE "+tables); err != nil {
			return err
		}
		return m.exec(ctx, "alter publication", "ALTER PUBLICATION bakery SET (publish = 'insert, update, delete')")
	}
	return m.exec(ctx, "create publication", "CREATE PUBLICATION bakery FOR TABLE "+tables+" WITH (publish = 'insert, update, delete')")
}

// link is the stream of rows from one node to another.
type link struct {
	from, to *member
	name     string
	timeout  time.Duration
}

// ensure makes the link work, whatever is there: it creates slot and subscription, replaces a slot that lost its WAL, enables a
// subscription and corrects its options. It may be called again after a crash at any point.
//
// The slot is made first and by hand: when publisher and subscriber share a server, CREATE SUBSCRIPTION would wait for itself.
func (l link) ensure(ctx context.Context) error {
	slot, err := l.slot(ctx)
	if err != nil {
		return err
	}
	var subscribed bool
	err = l.to.ask(ctx, "look for subscription "+l.name, []any{&subscribed}, subscriptionSQL("SELECT EXISTS (SELECT FROM pg_subscription %s)"), l.name)
	if err != nil {
		return err
	}
	if slot == slotGood && subscribed {
		return l.correct(ctx)
	}
	if subscribed {
		if err := l.to.dropSubscription(ctx, l.name); err != nil {
			return err
		}
	}
	if slot != slotMissing {
		if err := l.from.dropSlot(ctx, l.name, l.timeout); err != nil {
			return err
		}
	}
	return l.create(ctx)
}

// States of the slot that feeds a link.
const (
	slotMissing = "missing"
	slotGood    = "good"
	slotLost    = "lost"
)

// slot tells the state of the link's slot.
func (l link) slot(ctx context.Context) (string, error) {
	var state string
	err := l.from.conn.QueryRow(ctx,
		// The column invalidation_reason exists from version 17 on; as JSON it is NULL before.
		"SELECT CASE WHEN wal_status = 'lost' OR to_jsonb(s) ->> 'invalidation_reason' <> '' THEN 'lost' ELSE 'good' END"+
			" FROM pg_replication_slots s WHERE slot_name = $1",
		l.name).Scan(&state)
	if errors.Is(err, pgx.ErrNoRows) {
		return slotMissing, nil
	}
	if err != nil {
		return "", fmt.Errorf("look for slot %s on node %s: %w", l.name, l.from.Name, err)
	}
	return state, nil
}

// create makes slot and subscription. What the subscriber has of the publisher's rows is stale then and is deleted first; the copy
// brings what is true, and the triggers act on it.
func (l link) create(ctx context.Context) error {
	if err := l.from.exec(ctx, "create slot "+l.name, "SELECT pg_create_logical_replication_slot($1, 'pgoutput')", l.name); err != nil {
		return err
	}
	if err := l.to.forget(ctx, l.from.id); err != nil {
		return err
	}
	sql := fmt.Sprintf("CREATE SUBSCRIPTION %s CONNECTION %s PUBLICATION bakery WITH (create_slot = false, slot_name = %s, copy_data = true, "+
		"enabled = true, synchronous_commit = local, streaming = off)", l.name, quote(l.from.PeerDSN), l.name)
	return l.to.secret(ctx, "create subscription "+l.name, sql)
}

// correct sets what may have been changed on a subscription that exists. Origin stays any: with none the acks, which the apply worker
// writes, would not be sent.
func (l link) correct(ctx context.Context) error {
	connection := fmt.Sprintf("ALTER SUBSCRIPTION %s CONNECTION %s", l.name, quote(l.from.PeerDSN))
	if err := l.to.secret(ctx, "correct subscription "+l.name, connection); err != nil {
		return err
	}
	sets := []string{
		fmt.Sprintf("ALTER SUBSCRIPTION %s SET (synchronous_commit = local, streaming = off)", l.name),
		fmt.Sprintf("ALTER SUBSCRIPTION %s ENABLE", l.name),
	}
	if l.to.version >= 160000 {
		sets = append(sets, fmt.Sprintf("ALTER SUBSCRIPTION %s SET (origin = any)", l.name))
	}
	for _, sql := range append(sets, fmt.Sprintf("ALTER SUBSCRIPTION %s REFRESH PUBLICATION", l.name)) {
		if err := l.to.exec(ctx, "correct subscription "+l.name, sql); err != nil {
			return err
		}
	}
	return nil
}

// ready waits until every table has been copied and the stream runs.
func (l link) ready(ctx context.Context) error {
	what := fmt.Sprintf("node %s receives the rows of node %s", l.to.Name, l.from.Name)
	return poll(ctx, l.timeout, what, func(ctx context.Context) (bool, error) {
		var ready bool
		err := l.to.ask(ctx, "look at subscription "+l.name, []any{&ready}, subscriptionSQL(`
SELECT count(*) > 0 AND bool_and(t.srsubstate = 'r') FROM pg_subscription s JOIN pg_subscription_rel t ON t.srsubid = s.oid %s`), l.name)
		return ready, err
	})
}

// subscriptionSQL completes a query over pg_subscription, which lists the subscriptions of all databases of a server.
func subscriptionSQL(query string) string {
	const here = "WHERE subname = $1 AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
	return fmt.Sprintf(query, here)
}

// forget deletes the rows of another node that are known here. They are not this node's to publish, so nobody else notices.
func (m *member) forget(ctx context.Context, other int) error {
	for _, sql := range []string{
		"DELETE FROM bakery.claims WHERE node = $1", "DELETE FROM bakery.acks WHERE acker = $1",
		"DELETE FROM bakery.hellos WHERE node = $1", "DELETE FROM bakery.answers WHERE acker = $1",
	} {
		if err := m.exec(ctx, "delete stale rows", sql, other); err != nil {
			return err
		}
	}
	return nil
}

// dropSubscription drops a subscription without asking its publisher, which may be gone.
func (m *member) dropSubscription(ctx context.Context, name string) error {
	for _, sql := range []string{"ALTER SUBSCRIPTION %s DISABLE", "ALTER SUBSCRIPTION %s SET (slot_name = NONE)", "DROP SUBSCRIPTION %s"} {
		if err := m.exec(ctx, "drop subscription "+name, fmt.Sprintf(sql, name)); err != nil {
			return err
		}
	}
	return nil
}

// dropSlot drops a slot, if it is there. Whoever reads it is sent away first; a subscriber that is about to be dropped as well comes back
// after its retry interval only.
func (m *member) dropSlot(ctx context.Context, name string, limit time.Duration) error {
	return poll(ctx, limit, fmt.Sprintf("slot %s on node %s is dropped", name, m.Name), func(ctx context.Context) (bool, error) {
		var left, dropped int
		err := m.ask(ctx, "drop slot "+name, []any{&left, &dropped}, `
WITH sent AS MATERIALIZED (
  SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1 AND active),
dropped AS MATERIALIZED (
  SELECT slot_name, pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1 AND NOT active)
SELECT (SELECT count(*)::int FROM sent), (SELECT count(*)::int FROM dropped)`, name)
		var inUse *pgconn.PgError
		if errors.As(err, &inUse) && inUse.Code == "55006" { // It became active between the look and the drop.
			return false, nil
		}
		return err == nil && left == 0, err
	})
}

// quote makes a string literal for statements that take no parameters.
func quote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}
