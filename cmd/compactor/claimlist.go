package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"compactor/pkg/claim"
)

const claimListDescription = `Shows every table that has a claim in the bakery, as the node that claim.postgres leads
to knows it: who holds it, who waits for it, on which node, for how long, and the nodes
whose acks are missing, and why. Ages of another node's claims are off by what the
clocks differ. It takes no claim and changes nothing.`

func claimListCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:        "list",
		Usage:       "show all tables that have a claim (mode bakery)",
		ArgsUsage:   " ",
		Description: claimListDescription,
		Flags:       commonFlags(),
		Action:      func(c *cli.Context) error { return claimList(c, env) },
	}
}

func claimList(c *cli.Context, env environment) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	if c.Args().Present() {
		return usagef("claim list takes no arguments: %q; for one table use compactor claim status", c.Args().First())
	}

	return onMesh(c, env, func(ctx context.Context, _ *session, mesh *claim.Mesh) error {
		all, err := mesh.List(ctx)
		if err != nil {
			return fmt.Errorf("list claims: %w", err)
		}
		rep := statusReport{Tables: []tableStatus{}}
		for _, st := range all {
			rep.Tables = append(rep.Tables, describe("", "", st))
		}
		if format == outputJSON {
			return writeJSON(env.stdout, rep)
		}
		if len(rep.Tables) == 0 {
			if _, err := fmt.Fprintln(env.stdout, "no table has a claim"); err != nil {
				return fmt.Errorf("write result: %w", err)
			}
		}

		return rep.writeText(env.stdout)
	})
}
