package bakery

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rs/zerolog"
)

// Report says what Install found and did.
type Report struct {
	// Advice lists settings that should be changed and do not keep the mesh from working.
	Advice []Finding
	// Upgraded names the nodes whose schema changed, Added those that became members, in order.
	Upgraded, Added []string
	// Membership is the version that every node shows now.
	Membership int64
}

// install is one run of Install.
type install struct {
	Plan
	log     zerolog.Logger
	members []*member // In the order of the plan.
	report  Report
}

// Install makes the nodes of the plan one mesh: it creates a mesh, adds nodes to a live one, upgrades the schema node by node and
// mends links, whichever is needed. Claims go on being taken meanwhile.
//
// It changes nothing and returns a *CheckError when a node fails a check, and another error when the plan leaves out a member. After
// any error or a cancelled context what was done stays, and the same call goes on from there. Two calls at once do not both change
// the membership.
func Install(ctx context.Context, plan Plan) (*Report, error) {
	plan, err := plan.withDefaults()
	if err != nil {
		return nil, err
	}
	in := &install{Plan: plan, log: plan.Logger}
	defer in.close(ctx)
	if err := in.connect(ctx); err != nil {
		return nil, err
	}
	if err := in.check(ctx); err != nil {
		return nil, err
	}
	if err := in.upgrade(ctx); err != nil {
		return nil, err
	}
	if err := in.join(ctx); err != nil {
		return nil, err
	}
	return &in.report, nil
}

// connect opens a session to every node.
func (in *install) connect(ctx context.Context) error {
	var errs []error
	for _, n := range in.Nodes {
		m, err := connect(ctx, n)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		in.members = append(in.members, m)
	}
	return errors.Join(errs...)
}

// close ends the sessions.
func (in *install) close(ctx context.Context) {
	for _, m := range in.members {
		m.close(ctx)
	}
}

// check looks at every node before anything is changed.
func (in *install) check(ctx context.Context) error {
	var failed []Finding
	for _, m := range in.members {
		rights, err := m.checkRights(ctx)
		if err != nil {
			return err
		}
		failed = append(failed, rights...)
		settings, err := m.checkSettings(ctx, len(in.members)-1)
		if err != nil {
			return err
		}
		for _, f := range settings {
			if f.Severity == Error {
				failed = append(failed, f)
			} else {
				in.report.Advice = append(in.report.Advice, f)
			}
		}
	}
	failed = append(failed, in.checkLinkPasswords()...)
	if len(failed) > 0 {
		return &CheckError{Findings: failed}
	}
	return in.checkMembers()
}

// checkMembers compares the plan with the members there are.
func (in *install) checkMembers() error {
	var problems []error
	byName := map[string]*member{}
	for _, m := range in.members {
		byName[m.Name] = m
	}
	founded := 0
	for _, m := range in.members {
		if !m.joined {
			continue
		}
		if m.state != stateJoining {
			founded++
		}
		if m.mesh != in.Mesh {
			problems = append(problems, fmt.Errorf("node %s belongs to mesh %s, not %s", m.Name, m.mesh, in.Mesh))
		}
		if m.as != m.Name {
			problems = append(problems, fmt.Errorf("node %s is member %s of its mesh", m.Name, m.as))
		}
		if m.state == stateLeaving {
			problems = append(problems, fmt.Errorf("node %s is being removed; finish that first", m.Name))
		}
		for id, name := range m.peers {
			if other := byName[name]; other == nil || (other.joined && other.id != id) {
				problems = append(problems, fmt.Errorf("node %s has the peer %s (number %d), which the plan does not name; name it or remove it first", m.Name, name, id))
			}
		}
		if m.state == stateActive {
			problems = append(problems, in.strangers(m)...)
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w: %w", ErrPlan, errors.Join(problems...))
	}
	return nil
}

// strangers reports two founded meshes in one plan: they cannot be merged, because each has drawn tickets without the other.
func (in *install) strangers(m *member) []error {
	var problems []error
	for _, other := range in.members {
		_, known := m.peers[other.id]
		_, knows := other.peers[m.id]
		if other != m && other.joined && other.state == stateActive && !known && !knows {
			problems = append(problems, fmt.Errorf("nodes %s and %s are members of two meshes; uninstall one of them first", m.Name, other.Name))
		}
	}
	return problems
}

// upgrade migrates the nodes one after another.
func (in *install) upgrade(ctx context.Context) error {
	for _, m := range in.members {
		from, to, err := Migrate(ctx, m.conn, in.Steps)
		if err != nil {
			return fmt.Errorf("node %s: %w", m.Name, err)
		}
		if from != to {
			in.report.Upgraded = append(in.report.Upgraded, m.Name)
			in.log.Info().Str("node", m.Name).Int("from", from).Int("to", to).Msg("schema migrated")
		}
		if err := m.read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// join founds the mesh if there is none, mends the links between members and adds the other nodes.
func (in *install) join(ctx context.Context) error {
	if !slices.ContainsFunc(in.members, func(m *member) bool { return m.state == stateActive }) {
		if err := in.found(ctx, in.members[0]); err != nil {
			return err
		}
	}
	old, fresh := in.split()
	if err := in.mend(ctx, old); err != nil {
		return err
	}
	for _, m := range fresh {
		if err := in.add(ctx, old, m); err != nil {
			return fmt.Errorf("add node %s: %w", m.Name, err)
		}
		old = append(old, m)
		in.report.Added = append(in.report.Added, m.Name)
	}
	in.report.Membership = old[0].shows
	return nil
}

// found makes the node a mesh of one.
func (in *install) found(ctx context.Context, m *member) error {
	if !m.joined {
		err := m.exec(ctx, "found mesh",
			"INSERT INTO bakery.self (mesh, node, name, state, membership) VALUES ($1, 1, $2, 'joining', 1)", in.Mesh, m.Name)
		if err != nil {
			return err
		}
		if err := m.read(ctx); err != nil {
			return err
		}
	}
	if err := m.publish(ctx); err != nil {
		return err
	}
	if err := m.exec(ctx, "activate", "UPDATE bakery.self SET state = 'active'"); err != nil {
		return err
	}
	in.report.Added = append(in.report.Added, m.Name)
	in.log.Info().Str("node", m.Name).Str("mesh", in.Mesh).Msg("mesh founded")
	return m.read(ctx)
}

// mend makes publications and links between members what they should be. A link that was made anew has copied what is true; acks that
// its subscriber once gave for claims that ended meanwhile are swept.
func (in *install) mend(ctx context.Context, members []*member) error {
	for _, m := range members {
		if err := m.publish(ctx); err != nil {
			return err
		}
	}
	links := in.links(members)
	for _, l := range links {
		if err := l.ensure(ctx); err != nil {
			return err
		}
	}
	for _, l := range links {
		if err := l.ready(ctx); err != nil {
			return err
		}
		if err := l.to.exec(ctx, "sweep", "SELECT bakery.sweep()"); err != nil {
			return err
		}
	}
	return nil
}

// link describes the stream from one node to another.
func (in *install) link(from, to *member) link {
	return link{from: from, to: to, name: linkName(in.Mesh, to.id, from.id), timeout: in.Timeout}
}
