package bakery

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Change is one thing that Install, Remove or Uninstall would do.
type Change struct {
	Node string `json:"node"`
	Text string `json:"text"`
}

// Preview says what Install would do now with the same plan, in its order. It makes the same checks and returns the same errors, and
// changes nothing. The report's Upgraded, Added and Membership are what they would be. Without a superuser it cannot see whether a
// connection string differs from the one that is kept; Install sets it in any case.
func Preview(ctx context.Context, plan Plan) ([]Change, *Report, error) {
	plan, err := plan.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	in := &install{Plan: plan, log: plan.Logger}
	defer in.close(ctx)
	if err := in.connect(ctx); err != nil {
		return nil, nil, err
	}
	if err := in.check(ctx); err != nil {
		return nil, nil, err
	}
	f := &forecast{install: in}
	if err := f.upgrades(ctx); err != nil {
		return nil, nil, err
	}
	if err := f.joins(ctx); err != nil {
		return nil, nil, err
	}
	return f.changes, &in.report, nil
}

// forecast collects changes.
type forecast struct {
	*install
	changes []Change
}

func (f *forecast) add(m *member, format string, args ...any) {
	f.changes = append(f.changes, Change{Node: m.Name, Text: fmt.Sprintf(format, args...)})
}

// upgrades compares schema versions.
func (f *forecast) upgrades(ctx context.Context) error {
	for _, m := range f.members {
		from, err := m.schemaVersion(ctx)
		if err != nil {
			return err
		}
		switch {
		case from > len(f.Steps):
			return fmt.Errorf("node %s: schema version %d, this program knows %d: %w", m.Name, from, len(f.Steps), ErrNewerSchema)
		case from == 0:
			f.add(m, "create the roles bakery_owner and bakery_writer where they are missing, and schema bakery (version %d)", len(f.Steps))
		case from < len(f.Steps):
			f.add(m, "migrate schema bakery from version %d to %d", from, len(f.Steps))
		default:
			continue
		}
		f.report.Upgraded = append(f.report.Upgraded, m.Name)
	}
	return nil
}

// schemaVersion is 0 where there is no schema.
func (m *member) schemaVersion(ctx context.Context) (version int, err error) {
	if !m.installed {
		return 0, nil
	}
	err = m.ask(ctx, "read schema version", []any{&version}, "SELECT coalesce(max(version), 0) FROM bakery.migrations")
	return version, err
}

// joins follows join.
func (f *forecast) joins(ctx context.Context) error {
	old, fresh := f.split()
	version := int64(1)
	if len(old) == 0 {
		founder := f.members[0]
		f.add(founder, "found mesh %s with this node, publish its rows", f.Mesh)
		f.report.Added = append(f.report.Added, founder.Name)
		old, fresh = []*member{founder}, fresh[1:]
	} else {
		version = old[0].shows
		if err := f.mends(ctx, old); err != nil {
			return err
		}
	}
	for _, m := range fresh {
		if version++; m.joined {
			version = m.shows
		}
		f.add(m, "join mesh %s as membership version %d, publish its rows", f.Mesh, version)
		for _, o := range old {
			f.add(o, "let node %s subscribe, subscribe to it, and count it as a peer", m.Name)
		}
		f.report.Added = append(f.report.Added, m.Name)
		old = append(old, m)
	}
	f.report.Membership = version
	return nil
}

// mends follows mend.
func (f *forecast) mends(ctx context.Context, members []*member) error {
	for _, m := range members {
		if exists, good, err := m.publication(ctx); err != nil {
			return err
		} else if !exists {
			f.add(m, "create publication bakery")
		} else if !good {
			f.add(m, "correct publication bakery")
		}
	}
	for _, l := range f.links(members) {
		text, err := l.outlook(ctx)
		if err != nil {
			return err
		}
		if text != "" {
			f.add(l.to, "%s", text)
		}
	}
	return nil
}

// outlook says what ensure would do, nothing when the link is as it should be.
func (l link) outlook(ctx context.Context) (string, error) {
	slot, err := l.slot(ctx)
	if err != nil {
		return "", err
	}
	sub, err := l.to.subscriptionState(ctx, l.name)
	if err != nil {
		return "", err
	}
	if slot != slotGood || !sub.exists {
		return fmt.Sprintf("make the link from node %s anew and copy its rows (slot %s, subscription there: %t)", l.from.Name, slot, sub.exists), nil
	}
	var wrong []string
	for _, c := range []struct {
		wrong bool
		text  string
	}{
		{!sub.enabled, "enable"}, {sub.commit != "local", "synchronous_commit = local"}, {sub.origin != "any", "origin = any"},
		{sub.stream != "f", "streaming = off"},
	} {
		if c.wrong {
			wrong = append(wrong, c.text)
		}
	}
	if other, err := l.otherString(ctx); err != nil {
		return "", err
	} else if other {
		wrong = append(wrong, "another connection string")
	}
	if len(wrong) == 0 {
		return "", nil
	}
	return fmt.Sprintf("alter the subscription to node %s: %s", l.from.Name, strings.Join(wrong, ", ")), nil
}

// otherString tells whether the subscription keeps another connection string, as far as the role may see it.
func (l link) otherString(ctx context.Context) (other bool, err error) {
	var may bool
	err = l.to.ask(ctx, "look at rights", []any{&may}, "SELECT has_column_privilege('pg_subscription', 'subconninfo', 'SELECT')")
	if err != nil || !may {
		return false, err
	}
	err = l.to.ask(ctx, "compare connection string", []any{&other}, subscriptionSQL("SELECT subconninfo <> $2 FROM pg_subscription %s"),
		l.name, l.from.PeerDSN)
	return other, err
}

// split tells the active members from the nodes that are to be added.
func (in *install) split() (old, fresh []*member) {
	for _, m := range in.members {
		if m.state == stateActive {
			old = append(old, m)
		} else {
			fresh = append(fresh, m)
		}
	}
	return old, fresh
}

// links lists the streams between members that count each other.
func (in *install) links(members []*member) []link {
	var links []link
	for _, from := range members {
		for _, to := range members {
			if _, knows := to.peers[from.id]; knows { // No node knows itself.
				links = append(links, in.link(from, to))
			}
		}
	}
	return links
}

// PreviewRemoval says what Remove would do now with the same plan and name, with the same errors. It changes nothing.
func PreviewRemoval(ctx context.Context, plan Plan, name string) ([]Change, error) {
	plan, err := plan.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &forecast{install: &install{Plan: plan, log: plan.Logger}}
	defer f.close(ctx)
	if err := f.connect(ctx); err != nil {
		return nil, err
	}
	gone, stay := f.parted(name)
	id, err := f.leaver(name, stay)
	if err != nil {
		return nil, fmt.Errorf("remove node %s: %w: %w", name, ErrPlan, err)
	}
	if gone != nil {
		f.add(gone, "take no more claims, and wait until its claims are released")
	}
	for _, m := range stay {
		if _, counts := m.peers[id]; counts {
			f.add(m, "stop counting node %s", name)
		}
		f.add(m, "drop the subscription to node %s, the slot that feeds it, and its rows", name)
	}
	var inherited int
	if err := stay[0].ask(ctx, "count registrations", []any{&inherited}, "SELECT count(*)::int FROM bakery.registry WHERE node = $1", id); err != nil {
		return nil, err
	}
	if inherited > 0 {
		f.add(stay[0], "take over %d registrations of node %s", inherited, name)
	}
	return f.changes, nil
}

// parted finds the leaving node, nil when the plan does not hold it, and the others.
func (in *install) parted(name string) (gone *member, stay []*member) {
	if i := slices.IndexFunc(in.members, func(m *member) bool { return m.Name == name }); i >= 0 {
		gone = in.members[i]
	}
	return gone, slices.DeleteFunc(slices.Clone(in.members), func(m *member) bool { return m.Name == name })
}
