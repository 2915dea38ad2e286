package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"compactor/internal/tablename"
	"compactor/pkg/claim"
)

const claimAdoptDescription = `Registers the relation that stands for TABLE in PostgreSQL, on all nodes of the mesh:
it takes the table's claim, reads the registry, adds the row, and gives the claim back.
So two nodes never register different relations. A relation that is registered already
is left as it is; another one is refused, exit 2.`

func claimAdoptCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:        "adopt",
		Usage:       "register a table, under its claim (mode bakery)",
		ArgsUsage:   "TABLE",
		Description: claimAdoptDescription,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "relation", Usage: "register `NAME` as the relation of the table", DefaultText: "the table's own name"},
		}, claimFlagSet()...),
		Action: func(c *cli.Context) error { return claimAdopt(c.Context, c, env) },
	}
}

// adoption is the one document of `claim adopt`.
type adoption struct {
	Table    string `json:"table"`
	Key      string `json:"key"`
	Relation string `json:"relation"`
	New      bool   `json:"new"` // false: it was registered before
}

// claimAdopt registers under the claim. Effects, in order: the claim is taken, the
// row is written, the claim is given back. Killed in between, the row is there or
// not, and the same command goes on from either.
func claimAdopt(ctx context.Context, c *cli.Context, env environment) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	idents, err := tables(c)
	if err != nil {
		return err
	}
	if len(idents) > 1 {
		return usagef("claim adopt takes one TABLE, not %d", len(idents))
	}
	s, err := openClaimSession(c, env, false)
	if err != nil {
		return err
	}
	defer s.close()
	mesh, err := s.openMesh(ctx)
	if err != nil {
		return err
	}
	ident, _, err := s.spelling(ctx, idents[0])
	if err != nil {
		return err
	}
	out := adoption{Table: tablename.String(ident), Key: s.claimKey(ident).String(), Relation: c.String("relation")}
	if out.Relation == "" {
		out.Relation = out.Table
	}
	if out.New, err = s.adopt(ctx, mesh, s.claimKey(ident), out.Relation); err != nil {
		return fmt.Errorf("%s: %w", out.Table, err)
	}
	if format == outputJSON {
		return writeJSON(env.stdout, out)
	}
	word := map[bool]string{true: "is registered", false: "was registered already"}[out.New]
	if _, err := fmt.Fprintf(env.stdout, "%s %s as %s\n", out.Key, word, out.Relation); err != nil {
		return fmt.Errorf("write result: %w", err)
	}

	return nil
}

// adopt takes the claim for as long as the registration needs.
func (s *session) adopt(ctx context.Context, mesh *claim.Mesh, key claim.Key, relation string) (fresh bool, err error) {
	held, err := s.claimer.Acquire(ctx, key, claim.AcquireOptions{
		Timeout: time.Duration(s.cfg.Claim.Timeout),
		OnWait: func(w claim.Waiting) {
			s.log.Info().Str("claim_key", key.String()).Str("holder", w.Holder).Dur("held_for", w.HeldFor).Dur("waiting", w.For).Msg("waiting for the claim")
		},
	})
	if err != nil {
		return false, fmt.Errorf("acquire claim: %w", err)
	}
	defer func() {
		if bad := held.Release(context.WithoutCancel(ctx)); bad != nil {
			err = errors.Join(err, fmt.Errorf("release claim: %w", bad))
		}
	}()
	fresh, err = mesh.Register(held.Context(), held, relation) //nolint:contextcheck // The claim's own context: it ends when the claim is lost.
	if err != nil {
		return false, fmt.Errorf("register: %w", err)
	}

	return fresh, nil
}

func claimRegistryCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:        "registry",
		Usage:       "show the registered tables (mode bakery)",
		ArgsUsage:   " ",
		Description: "Shows the tables that were registered on any node of the mesh (compactor claim adopt), their\nrelations, and the node that registered each.",
		Flags:       commonFlags(),
		Action:      func(c *cli.Context) error { return claimRegistry(c, env) },
	}
}

// registration is one row of the document of `claim registry`.
type registration struct {
	Key          string    `json:"key"`
	Relation     string    `json:"relation"`
	Node         string    `json:"node"`
	RegisteredAt time.Time `json:"registered_at"`
}

func claimRegistry(c *cli.Context, env environment) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	if c.Args().Present() {
		return usagef("claim registry takes no arguments: %q", c.Args().First())
	}

	return onMesh(c, env, func(ctx context.Context, _ *session, mesh *claim.Mesh) error {
		found, err := mesh.Registry(ctx)
		if err != nil {
			return fmt.Errorf("registry: %w", err)
		}
		rows := []registration{}
		for _, r := range found {
			rows = append(rows, registration{Key: r.Table, Relation: r.Relation, Node: r.NodeName, RegisteredAt: r.RegisteredAt.UTC()})
		}
		if format == outputJSON {
			return writeJSON(env.stdout, map[string]any{"tables": rows})
		}
		tw := tabwriter.NewWriter(env.stdout, 0, 4, 2, ' ', 0)
		fmt.Fprintln(tw, "KEY\tRELATION\tNODE\tREGISTERED") //nolint:errcheck // tabwriter keeps the first error for Flush.
		for _, r := range rows {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", r.Key, r.Relation, r.Node, r.RegisteredAt.Format(time.RFC3339)) //nolint:errcheck // As above.
		}
		if err := tw.Flush(); err != nil {
			return fmt.Errorf("write registry: %w", err)
		}

		return nil
	})
}
