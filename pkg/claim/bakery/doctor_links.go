package bakery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
)

// subscriptions looks at how this node receives the rows of each peer.
func (e *examination) subscriptions(ctx context.Context) error {
	for _, peer := range slices.Sorted(maps.Keys(e.peers)) {
		if err := e.subscription(ctx, e.peers[peer], linkName(e.mesh, e.id, peer)); err != nil {
			return err
		}
	}
	return nil
}

// subscriptionState is what is known of one subscription.
type subscriptionState struct {
	exists, enabled, running, ready, alone bool
	commit, origin, stream                 string
	errors                                 int64
}

// subscriptionState reads a subscription. The column of the origin exists from version 16 on, and that of the streaming changed its type
// then.
func (m *member) subscriptionState(ctx context.Context, name string) (s subscriptionState, err error) {
	err = m.conn.QueryRow(ctx, subscriptionSQL(`
SELECT true, s.subenabled, EXISTS (SELECT FROM pg_stat_subscription w WHERE w.subid = s.oid AND w.pid IS NOT NULL),
       (SELECT coalesce(bool_and(t.srsubstate = 'r'), false) FROM pg_subscription_rel t WHERE t.srsubid = s.oid),
       s.subpublications = ARRAY['bakery'], s.subsynccommit, coalesce(s.origin, 'any'), s.stream,
       coalesce((SELECT x.apply_error_count + x.sync_error_count FROM pg_stat_subscription_stats x WHERE x.subid = s.oid), 0)
  FROM (SELECT p.oid, p.subname, p.subdbid, p.subenabled, p.subpublications, p.subsynccommit, left(p.substream::text, 1) AS stream,
               `+originSQL(m.version)+` AS origin FROM pg_subscription p) s %s`), name).
		Scan(&s.exists, &s.enabled, &s.running, &s.ready, &s.alone, &s.commit, &s.origin, &s.stream, &s.errors)
	if errors.Is(err, pgx.ErrNoRows) {
		return subscriptionState{}, nil
	}
	if err != nil {
		return s, fmt.Errorf("read subscription %s on node %s: %w", name, m.Name, err)
	}
	return s, nil
}

// subscription looks at one.
func (e *examination) subscription(ctx context.Context, peer, name string) error {
	s, err := e.subscriptionState(ctx, name)
	if err != nil {
		return err
	}
	if !s.exists {
		e.add(Error, "subscription_missing", "compactor claim install", "there is no subscription to node %s", peer)
		return nil
	}
	switch {
	case !s.enabled:
		e.add(Error, "subscription_disabled", "ALTER SUBSCRIPTION "+name+" ENABLE;", "the subscription to node %s is disabled", peer)
	case !s.running:
		e.add(Error, "subscription_down", "read this server's log; the peer may be down, or refuse the login.", "the subscription to node %s has no worker", peer)
	case !s.ready:
		e.add(Error, "subscription_copying", "wait, and read this server's log.", "the subscription to node %s has not copied every table", peer)
	}
	if s.errors > 0 {
		e.add(Warning, "subscription_errors", "read this server's log; then SELECT pg_stat_reset_subscription_stats(oid) FROM pg_subscription WHERE subname = '"+name+"';",
			"the subscription to node %s has failed %d times", peer, s.errors)
	}
	if s.commit != "local" {
		e.add(Error, "subscription_commit", "ALTER SUBSCRIPTION "+name+" SET (synchronous_commit = local);", "the subscription to node %s has synchronous_commit %s: every ack is late", peer, s.commit)
	}
	if s.origin != "any" {
		e.add(Error, "subscription_origin", "ALTER SUBSCRIPTION "+name+" SET (origin = any);", "the subscription to node %s has origin %s: acks are not sent", peer, s.origin)
	}
	if !s.alone {
		e.add(Error, "subscription_publications", "ALTER SUBSCRIPTION "+name+" SET PUBLICATION bakery;", "the subscription to node %s reads other publications too, which defeats the row filters", peer)
	}
	return nil
}

// originSQL is the expression for a subscription's origin.
func originSQL(version int) string {
	if version >= 160000 {
		return "p.suborigin"
	}
	return "NULL::text"
}

// slots looks at how this node feeds each peer.
func (e *examination) slots(ctx context.Context) error {
	for _, peer := range slices.Sorted(maps.Keys(e.peers)) {
		name, slot := e.peers[peer], linkName(e.mesh, peer, e.id)
		var active, lost bool
		var retained int64
		err := e.conn.QueryRow(ctx, `
SELECT s.active, s.wal_status = 'lost' OR coalesce(to_jsonb(s) ->> 'invalidation_reason', '') <> '',
       coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn), 0)::bigint
  FROM pg_replication_slots s WHERE s.slot_name = $1`, slot).Scan(&active, &lost, &retained)
		if errors.Is(err, pgx.ErrNoRows) {
			e.add(Error, "slot_missing", "compactor claim install", "there is no slot that feeds node %s", name)
			continue
		}
		if err != nil {
			return fmt.Errorf("read slot %s on node %s: %w", slot, e.Name, err)
		}
		switch {
		case lost:
			e.add(Error, "slot_lost", "compactor claim install", "the slot that feeds node %s has lost its WAL", name)
		case !active:
			e.add(Error, "slot_inactive", "look at node "+name+": it is down, or its subscription is disabled or erring.", "nobody reads the slot that feeds node %s", name)
		}
		if retained > e.limits.Retained {
			e.add(Warning, "slot_retains", "bring node "+name+" back, or remove it: compactor claim install --remove "+name, "the slot that feeds node %s retains %d MiB of WAL", name, retained>>20)
		}
	}
	return nil
}
