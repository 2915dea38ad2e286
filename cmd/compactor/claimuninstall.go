package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"compactor/pkg/claim/bakery"
)

const claimUninstallDescription = `Drops schema bakery, its publication, subscriptions and slots from the database that
claim.postgres leads to: claims, tickets and the registry of tables are gone. The
roles stay. It refuses a node that others still count; remove it from the mesh first
(compactor claim install --remove NAME). It asks before it does anything.`

func claimUninstallCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:        "uninstall",
		Usage:       "drop the bakery from one database",
		ArgsUsage:   " ",
		Description: claimUninstallDescription,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "force", Usage: "also while other nodes count this one; they wait for it until it is removed there"},
			yesFlag(),
		}, commonFlags()...),
		Action: func(c *cli.Context) error { return claimUninstall(c.Context, c, env) },
	}
}

func claimUninstall(ctx context.Context, c *cli.Context, env environment) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	if c.Args().Present() {
		return usagef("claim uninstall takes no arguments: %q", c.Args().First())
	}
	s, err := openConfigured(c, env)
	if err != nil {
		return err
	}
	defer s.close()
	dsn := s.cfg.Claim.Postgres
	if dsn == "" {
		return usagef("claim.postgres is not set: it is how the node is reached")
	}
	if err := confirm(ctx, c, env, fmt.Sprintf("The bakery of %s is dropped with all that it knows: who holds which table, and the registry.", dsn)); err != nil {
		return err
	}
	if err := bakery.Uninstall(ctx, bakery.Node{Name: bakery.Here, DSN: dsn.Reveal()}, c.Bool("force")); err != nil {
		return fmt.Errorf("uninstall: %w", err)
	}
	if format == outputJSON {
		return writeJSON(env.stdout, map[string]any{"uninstalled": true})
	}
	if _, err := fmt.Fprintln(env.stdout, "the bakery is gone from this database"); err != nil {
		return fmt.Errorf("write result: %w", err)
	}

	return nil
}
