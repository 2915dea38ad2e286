package bakery

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// membershipTable is the name under which changes of the membership are claimed. No Iceberg table has it: their keys hold quotes.
const membershipTable = "bakery.membership"

// add makes a node a member, in this order: it is announced to itself as joining, its rows and the members' rows flow, every member
// counts it as a peer and shows the new version, it is activated. A crash leaves a node that takes no claims; the next run goes on.
func (in *install) add(ctx context.Context, members []*member, fresh *member) error {
	unlock, err := in.claimMembership(ctx, members[0])
	if err != nil {
		return err
	}
	defer unlock()
	for _, m := range append(members[:len(members):len(members)], fresh) {
		if err := m.read(ctx); err != nil {
			return err
		}
	}
	version, err := nextVersion(members, fresh)
	if err != nil {
		return err
	}
	if err := in.announce(ctx, members, fresh, version); err != nil {
		return err
	}
	if err := in.connectLinks(ctx, members, fresh); err != nil {
		return err
	}
	for _, m := range members {
		if err := in.count(ctx, m, fresh, version); err != nil {
			return err
		}
	}
	for _, m := range members {
		if err := m.read(ctx); err != nil {
			return err
		}
		if m.shows != version {
			return fmt.Errorf("node %s shows membership version %d, not %d", m.Name, m.shows, version)
		}
	}
	if err := fresh.exec(ctx, "activate", "UPDATE bakery.self SET state = 'active', membership = $1", version); err != nil {
		return err
	}
	in.log.Info().Str("node", fresh.Name).Int64("membership", version).Msg("node added")
	return fresh.read(ctx)
}

// nextVersion returns the version of the change, the same as before when an earlier run of it was interrupted. Members that differ for
// another reason are in the middle of another change.
func nextVersion(members []*member, fresh *member) (int64, error) {
	if fresh.joined {
		for _, m := range members {
			if _, counts := m.peers[fresh.id]; !counts && m.shows >= fresh.shows {
				return 0, fmt.Errorf("node %s was to join in version %d, but node %s shows %d without it; uninstall it and start again",
					fresh.Name, fresh.shows, m.Name, m.shows)
			}
		}
		return fresh.shows, nil
	}
	for _, m := range members {
		if m.shows != members[0].shows {
			return 0, fmt.Errorf("nodes %s and %s show the membership versions %d and %d: finish that change first",
				members[0].Name, m.Name, members[0].shows, m.shows)
		}
	}
	return members[0].shows + 1, nil
}

// announce gives the new node a number and its list of peers.
func (in *install) announce(ctx context.Context, members []*member, fresh *member, version int64) error {
	if !fresh.joined {
		used := map[int]bool{}
		for _, m := range members {
			used[m.id] = true
			for id := range m.peers {
				used[id] = true
			}
		}
		id := 1
		for used[id] {
			id++
		}
		err := fresh.exec(ctx, "announce node",
			"INSERT INTO bakery.self (mesh, node, name, state, membership) VALUES ($1, $2, $3, 'joining', $4)", in.Mesh, id, fresh.Name, version)
		if err != nil {
			return err
		}
		if err := fresh.read(ctx); err != nil {
			return err
		}
	}
	for _, m := range members {
		if err := fresh.addPeer(ctx, m, in.Mesh); err != nil {
			return err
		}
	}
	return fresh.publish(ctx)
}

// addPeer makes a node count another one.
func (m *member) addPeer(ctx context.Context, peer *member, mesh string) error {
	return m.exec(ctx, "add peer "+peer.Name,
		"INSERT INTO bakery.peers (node, name, slot) VALUES ($1, $2, $3) ON CONFLICT (node) DO UPDATE SET name = excluded.name, slot = excluded.slot",
		peer.id, peer.Name, linkName(mesh, peer.id, m.id))
}

// connectLinks joins the new node with every member, both ways, and waits until the rows flow.
func (in *install) connectLinks(ctx context.Context, members []*member, fresh *member) error {
	var links []link
	for _, m := range members {
		links = append(links, in.link(m, fresh), in.link(fresh, m))
	}
	for _, l := range links {
		if err := l.ensure(ctx); err != nil {
			return err
		}
	}
	for _, l := range links {
		if err := l.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// count makes a member wait for the new node's acks and show the new version, in one transaction.
func (in *install) count(ctx context.Context, m, fresh *member, version int64) error {
	err := pgx.BeginFunc(ctx, m.conn, func(pgx.Tx) error {
		if err := m.addPeer(ctx, fresh, in.Mesh); err != nil {
			return err
		}
		return m.exec(ctx, "show membership", "UPDATE bakery.self SET membership = $1", version)
	})
	if err != nil {
		return fmt.Errorf("count node %s on node %s: %w", fresh.Name, m.Name, err)
	}
	return nil
}

// claimMembership takes the claim that serialises changes of the membership, through a member and in plain SQL: every member has to
// ack it, so all of them are up. The session of its own that holds it is ended by the returned function.
func (in *install) claimMembership(ctx context.Context, through *member) (func(), error) {
	session, err := connect(ctx, through.Node)
	if err != nil {
		return nil, err
	}
	var ticket int64
	err = session.ask(ctx, "claim the membership", []any{&ticket}, fmt.Sprintf(
		"CALL bakery.acquire('%s', 'compactor claim install', NULL, interval '%d ms', interval '1 hour')",
		membershipTable, in.Timeout.Milliseconds()))
	if err != nil {
		session.close(ctx)
		return nil, err
	}
	return func() {
		ctx := context.WithoutCancel(ctx)
		if _, err := session.conn.Exec(ctx, "SELECT bakery.release($1, $2)", membershipTable, ticket); err != nil {
			// Closing the session frees the table as well: the next claim deletes what is left of this one.
			in.log.Warn().Err(err).Str("node", through.Name).Msg("membership claim not released")
		}
		session.close(ctx)
	}, nil
}
