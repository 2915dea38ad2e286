package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"compactor/pkg/claim/bakery"
)

const claimInstallDescription = `Makes PostgreSQL databases the nodes of one mesh, which keeps the claims of mode
bakery: installs or upgrades the schema, joins the nodes by logical replication,
and adds those that are new, one after another. Claims go on being taken. Name all
nodes of the mesh each time: the one that claim.postgres leads to with --node, the
others with --peer. It may be repeated, and goes on where it was stopped.

Before anything is changed every node is checked: settings, with the lines that
correct them; rights (a superuser on PostgreSQL 15; from 16 on pg_create_subscription,
REPLICATION, CREATE on the database, CREATEROLE and the right to grant
pg_read_all_stats are enough, and the connection strings need passwords).

The nodes log in to each other with the strings of --link, or else their own. They
keep them in pg_subscription, where superusers can read them, with their passwords.

--remove NAME takes a node out of the mesh. With its --peer it is asked to finish its
claims first; without, it has to be down for good, which is asked for.`

func claimInstallCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:        "install",
		Usage:       "make databases the nodes of a mesh, add, upgrade, mend or remove nodes",
		ArgsUsage:   " ",
		Description: claimInstallDescription,
		Flags: slices.Concat(nodeFlags(), []cli.Flag{
			linkFlag(),
			&cli.StringFlag{Name: "mesh", Category: nodesCategory, Usage: "`NAME` of the mesh", Value: "main"},
			&cli.StringFlag{Name: "remove", Category: nodesCategory, Usage: "remove the node `NAME` from the mesh"},
			&cli.DurationFlag{Name: "timeout", Category: nodesCategory, Usage: "wait at most `DURATION` for a node or for the claim of the mesh", Value: time.Minute},
			&cli.BoolFlag{Name: "dry-run", Usage: "check, and print what would change; change nothing"},
			yesFlag(),
		}, commonFlags()),
		Action: func(c *cli.Context) error { return claimInstall(c.Context, c, env) },
	}
}

// installReport is the one document of `claim install`.
type installReport struct {
	Mesh       string           `json:"mesh"`
	DryRun     bool             `json:"dry_run"`
	Membership int64            `json:"membership,omitempty"`
	Added      []string         `json:"added"`
	Upgraded   []string         `json:"upgraded"`
	Removed    string           `json:"removed,omitempty"`
	Changes    []bakery.Change  `json:"changes,omitempty"` // of a dry run
	Advice     []bakery.Finding `json:"advice"`
}

// claimInstall changes nothing before every node has passed every check. What a
// crash or an error leaves, the same command goes on from.
func claimInstall(ctx context.Context, c *cli.Context, env environment) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	s, err := openConfigured(c, env)
	if err != nil {
		return err
	}
	defer s.close()
	plan, err := s.meshPlan(c, env)
	if err != nil {
		return err
	}
	out := installReport{Mesh: plan.Mesh, DryRun: c.Bool("dry-run"), Removed: c.String("remove")}
	if out.Removed != "" {
		err = out.remove(ctx, c, env, plan)
	} else {
		err = out.install(ctx, plan)
	}
	if err != nil {
		return fmt.Errorf("mesh %s: %w", plan.Mesh, err)
	}
	if format == outputJSON {
		return writeJSON(env.stdout, out.complete())
	}

	return out.writeText(env.stdout)
}

func (r *installReport) install(ctx context.Context, plan bakery.Plan) error {
	var done *bakery.Report
	var err error
	if r.DryRun {
		r.Changes, done, err = bakery.Preview(ctx, plan)
	} else {
		done, err = bakery.Install(ctx, plan)
	}
	if err != nil {
		return err //nolint:wrapcheck // The caller names the mesh, the error the node.
	}
	r.Membership, r.Added, r.Upgraded, r.Advice = done.Membership, done.Added, done.Upgraded, done.Advice

	return nil
}

func (r *installReport) remove(ctx context.Context, c *cli.Context, env environment, plan bakery.Plan) error {
	name := r.Removed
	changes, err := bakery.PreviewRemoval(ctx, plan, name)
	if err != nil || r.DryRun {
		r.Changes = changes

		return err //nolint:wrapcheck // As in install.
	}
	if !slices.ContainsFunc(plan.Nodes, func(n bakery.Node) bool { return n.Name == name }) {
		risk := fmt.Sprintf("Node %s is removed without being asked, because no --peer leads to it. If it still runs, its writers may hold a table\n"+
			"while those of the other nodes do: stop it, and do not start it again before it has been uninstalled.", name)
		if err := confirm(ctx, c, env, risk); err != nil {
			return err
		}
	}
	done, err := bakery.Remove(ctx, plan, name)
	if err != nil {
		return err //nolint:wrapcheck // As in install.
	}
	r.Membership = done.Membership

	return nil
}

// complete gives JSON empty lists instead of null.
func (r installReport) complete() installReport {
	r.Added, r.Upgraded = append([]string{}, r.Added...), append([]string{}, r.Upgraded...)
	r.Advice = append([]bakery.Finding{}, r.Advice...)

	return r
}

func (r installReport) writeText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	line := func(label, format string, args ...any) {
		fmt.Fprintf(tw, "  %s\t%s\n", label, fmt.Sprintf(format, args...)) //nolint:errcheck // tabwriter keeps the first error for Flush.
	}
	fmt.Fprintf(tw, "mesh %s\n", r.Mesh) //nolint:errcheck // As above.
	verb := map[bool]string{true: "would be ", false: ""}[r.DryRun]
	if r.Membership > 0 {
		line("membership", "version %d", r.Membership)
	}
	for _, l := range []struct {
		label string
		nodes []string
	}{{"added", r.Added}, {"upgraded", r.Upgraded}} {
		if len(l.nodes) > 0 {
			line(verb+l.label, "%s", strings.Join(l.nodes, ", "))
		}
	}
	if r.Removed != "" {
		line(verb+"removed", "%s; run compactor claim uninstall on it before it is used again", r.Removed)
	}
	for _, change := range r.Changes {
		line("node "+change.Node, "%s", change.Text)
	}
	if r.DryRun && len(r.Changes) == 0 {
		line("changes", "none")
	}
	if !r.DryRun && r.Removed == "" && len(r.Added)+len(r.Upgraded) == 0 {
		line("nodes", "all as they should be")
	}
	for _, f := range r.Advice {
		line("advice", "%s", f)
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write result: %w", err)
	}

	return nil
}
