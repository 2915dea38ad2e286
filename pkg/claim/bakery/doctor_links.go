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

// subscription looks at one. Its options are read as JSON, because the column of the origin exists from version 16 on.
func (e *examination) subscription(ctx context.Context, peer, name string) error {
	var enabled, running, ready, alone bool
	var commit, origin string
	var errs int64
	err := e.conn.QueryRow(ctx, subscriptionSQL(`
SELECT s.subenabled, EXISTS (SELECT FROM pg_stat_subscription w WHERE w.subid = s.oid AND w.pid IS NOT NULL),
       (SELECT coalesce(bool_and(t.srsubstate = 'r'), false) FROM pg_subscription_rel t WHERE t.srsubid = s.oid),
       s.subpublications = ARRAY['bakery'], s.subsynccommit, coalesce(s.origin, 'any'),
       coalesce((SELECT x.apply_error_count + x.sync_error_count FROM pg_stat_subscription_stats x WHERE x.subid = s.oid), 0)
  FROM (SELECT p.oid, p.subname, p.subdbid, p.subenabled, p.subpublications, p.subsynccommit,
               `+originSQL(e.version)+` AS origin FROM pg_subscription p) s %s`), name).
		Scan(&enabled, &running, &ready, &alone, &commit, &origin, &errs)
	if errors.Is(err, pgx.ErrNoRows) {
		e.add(Error, "subscription_missing", "compactor claim install", "there is no subscription to node %s", peer)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read subscription %s on node %s: %w", name, e.Name, err)
	}
	switch {
	case !enabled:
		e.add(Error, "subscription_disabled", "ALTER SUBSCRIPTION "+name+" ENABLE;", "the subscription to node %s is disabled", peer)
	case !running:
		e.add(Error, "subscription_down", "read this server's log; the peer may be down, or refuse the login.", "the subscription to node %s has no worker", peer)
	case !ready:
		e.add(Error, "subscription_copying", "wait, and read this server's log.", "the subscription to node %s has not copied every table", peer)
	}
	if errs > 0 {
		e.add(Warning, "subscription_errors", "read this server's log; then SELECT pg_stat_reset_subscription_stats(oid) FROM pg_subscription WHERE subname = '"+name+"';",
			"the subscription to node %s has failed %d times", peer, errs)
	}
	if commit != "local" {
		e.add(Error, "subscription_commit", "ALTER SUBSCRIPTION "+name+" SET (synchronous_commit = local);", "the subscription to node %s has synchronous_commit %s: every ack is late", peer, commit)
	}
	if origin != "any" {
		e.add(Error, "subscription_origin", "ALTER SUBSCRIPTION "+name+" SET (origin = any);", "the subscription to node %s has origin %s: acks are not sent", peer, origin)
	}
	if !alone {
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
		if retained > maxRetained {
			e.add(Warning, "slot_retains", "bring node "+name+" back, or remove it: compactor claim install --remove "+name, "the slot that feeds node %s retains %d MiB of WAL", name, retained>>20)
		}
	}
	return nil
}
