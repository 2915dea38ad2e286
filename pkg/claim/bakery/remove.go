package bakery

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Remove takes the node called name out of the mesh; the plan names the members that stay, and the leaving node too when it can be
// reached. Without it the caller gives his word that the node is down and will not come back before it has been uninstalled: whatever
// claim it holds is void.
//
// The leaving node takes no new claims, its claims are waited for, each member stops waiting for its acks and shows the next version,
// and the links are dropped. What it registered passes to the first member. It may be called again after any error.
func Remove(ctx context.Context, plan Plan, name string) (*Report, error) {
	plan, err := plan.withDefaults()
	if err != nil {
		return nil, err
	}
	in := &install{Plan: plan, log: plan.Logger}
	defer in.close(ctx)
	if err := in.connect(ctx); err != nil {
		return nil, err
	}
	gone, stay := in.parted(name)
	id, err := in.leaver(name, stay)
	if err != nil {
		return nil, fmt.Errorf("remove node %s: %w: %w", name, ErrPlan, err)
	}
	if err := in.leave(ctx, stay, gone, id); err != nil {
		return nil, fmt.Errorf("remove node %s: %w", name, err)
	}
	in.report.Membership = stay[0].shows
	return &in.report, nil
}

// leaver finds the number of the leaving node and checks that the plan names everybody else.
func (in *install) leaver(name string, stay []*member) (int, error) {
	if len(stay) == 0 {
		return 0, errors.New("no member stays; uninstall the node instead")
	}
	named := map[string]bool{name: true}
	for _, m := range stay {
		named[m.Name] = true
	}
	id := 0
	for _, m := range stay {
		if !m.joined || m.state != stateActive || m.mesh != in.Mesh {
			return 0, fmt.Errorf("node %s is no active member of mesh %s", m.Name, in.Mesh)
		}
		for number, peer := range m.peers {
			if !named[peer] {
				return 0, fmt.Errorf("node %s has the peer %s, which the plan does not name", m.Name, peer)
			}
			if peer == name {
				id = number
			}
		}
	}
	if id == 0 {
		return 0, errors.New("no member knows it")
	}
	return id, nil
}

// leave does the removal. The membership is claimed in the mesh that still holds the leaving node when it is up, and in each member
// alone when it is down, because its ack will never come.
func (in *install) leave(ctx context.Context, stay []*member, gone *member, id int) error {
	unlock := func() {}
	if gone != nil {
		release, err := in.claimMembership(ctx, stay[0])
		if err != nil {
			return err
		}
		unlock = release
	}
	defer unlock()
	for _, m := range stay {
		if err := m.read(ctx); err != nil {
			return err
		}
	}
	version := int64(0)
	for _, m := range stay {
		next := m.shows
		if _, counts := m.peers[id]; counts {
			next++
		}
		version = max(version, next)
	}
	if gone != nil {
		if err := in.drain(ctx, gone); err != nil {
			return err
		}
	}
	for _, m := range stay {
		if err := in.discount(ctx, m, id, stay[0].id, version); err != nil {
			return err
		}
	}
	for _, m := range stay {
		if err := in.cut(ctx, m, id); err != nil {
			return err
		}
		if err := m.exec(ctx, "sweep acks of the node's claims", "SELECT bakery.sweep()"); err != nil {
			return err
		}
		if err := m.read(ctx); err != nil {
			return err
		}
	}
	in.log.Info().Int("node_number", id).Int64("membership", version).Msg("node removed")
	return nil
}

// drain makes the leaving node refuse claims and waits until it has none.
func (in *install) drain(ctx context.Context, gone *member) error {
	if err := gone.exec(ctx, "stop claims", "UPDATE bakery.self SET state = 'leaving'"); err != nil {
		return err
	}
	return poll(ctx, in.Timeout, "node "+gone.Name+" has no claim", func(ctx context.Context) (bool, error) {
		if err := gone.exec(ctx, "sweep", "SELECT bakery.sweep()"); err != nil {
			return false, err
		}
		var free bool
		err := gone.ask(ctx, "count claims", []any{&free},
			"SELECT NOT EXISTS (SELECT FROM bakery.claims c JOIN bakery.self s ON s.node = c.node)")
		return free, err
	})
}

// discount makes a member stop waiting for the node and show the new version, in one transaction. Registrations of the node go to the
// heir, because only rows of members are published.
func (in *install) discount(ctx context.Context, m *member, id, heir int, version int64) error {
	err := pgx.BeginFunc(ctx, m.conn, func(pgx.Tx) error {
		for _, change := range []struct {
			sql  string
			args []any
		}{
			{"DELETE FROM bakery.peers WHERE node = $1", []any{id}},
			{"DELETE FROM bakery.contacts WHERE node = $1", []any{id}},
			{"UPDATE bakery.registry SET node = $2 WHERE node = $1", []any{id, heir}},
			{"UPDATE bakery.self SET membership = $1", []any{version}},
		} {
			if err := m.exec(ctx, "discount node", change.sql, change.args...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("discount node number %d on node %s: %w", id, m.Name, err)
	}
	return nil
}

// cut drops a member's side of both links to the node, and the node's rows.
func (in *install) cut(ctx context.Context, m *member, id int) error {
	name := linkName(in.Mesh, m.id, id)
	var subscribed bool
	err := m.ask(ctx, "look for subscription "+name, []any{&subscribed}, subscriptionSQL("SELECT EXISTS (SELECT FROM pg_subscription %s)"), name)
	if err != nil {
		return err
	}
	if subscribed {
		if err := m.dropSubscription(ctx, name); err != nil {
			return err
		}
	}
	if err := m.dropSlot(ctx, linkName(in.Mesh, id, m.id), in.Timeout); err != nil {
		return err
	}
	return m.forget(ctx, id)
}

// ErrMember is returned by Uninstall for a node that others still count.
var ErrMember = errors.New("the node is still a member of a mesh with others: remove it first")

// Uninstall drops schema, publication, subscriptions and slots of the bakery in one database. It refuses a node that has peers unless
// force is set; then the peers wait for its acks until it is removed from them as well. The roles stay, because other databases of
// the server may use them. A database without the schema is left as it is. It may be called again after any error.
func Uninstall(ctx context.Context, n Node, force bool) error {
	m, err := connect(ctx, n)
	if err != nil {
		return err
	}
	defer m.close(ctx)
	if !m.installed {
		return nil
	}
	if len(m.peers) > 0 && m.state != stateLeaving && !force {
		return fmt.Errorf("uninstall node %s: %w", n.Name, ErrMember)
	}
	if m.joined {
		for peer := range m.peers {
			if err := (&install{Plan: Plan{Mesh: m.mesh, Timeout: defaultTimeout}}).cut(ctx, m, peer); err != nil {
				return err
			}
		}
	}
	if err := m.exec(ctx, "drop publication", "DROP PUBLICATION IF EXISTS bakery"); err != nil {
		return err
	}
	return m.exec(ctx, "drop schema", "DROP SCHEMA bakery CASCADE")
}
