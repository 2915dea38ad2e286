package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"compactor/pkg/claim"
	"compactor/pkg/claim/bakery"
)

const claimReleaseDescription = `Takes the claim with the number TICKET away from whoever holds or waits with it, on the
node that claim.postgres leads to; the claims of another node are released there.
compactor claim list shows the tickets. A holder gives its claim back by itself, and the
claim of one that died is removed by the next claim of its node: this is for a holder
that hangs.

The holder may still be working: it learns of the loss at its next look, and a commit
that it has sent by then may still land. When another writer commits meanwhile, the
catalog rejects one of the two. So it asks first. The role has to be a member of
bakery_owner.`

func claimReleaseCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:        "release",
		Usage:       "take a claim away from its holder (mode bakery)",
		UsageText:   "compactor claim release --force [--yes] TICKET",
		ArgsUsage:   "TICKET",
		Description: claimReleaseDescription,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "force", Usage: "whatever the holder does; required"},
			yesFlag(),
		}, commonFlags()...),
		Action: func(c *cli.Context) error { return claimRelease(c, env) },
	}
}

// forcedRelease is the one document of `claim release`.
type forcedRelease struct {
	Table    string `json:"table"` // the key
	Ticket   string `json:"ticket"`
	Holder   string `json:"holder"`
	PID      int    `json:"server_process"`
	Released bool   `json:"released"` // false: it was gone before
}

func claimRelease(c *cli.Context, env environment) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	ticket, err := parseTicket(c)
	if err != nil {
		return err
	}

	return onMesh(c, env, func(ctx context.Context, s *session, mesh *claim.Mesh) error {
		found, own, err := mesh.Find(ctx, ticket)
		switch {
		case err != nil:
			return fmt.Errorf("find ticket %d: %w", ticket, err)
		case found == nil:
			return usagef("no claim has ticket %d; compactor claim list shows those that there are", ticket)
		case !own:
			return usagef("ticket %d belongs to node %s: release it there", ticket, found.Node)
		}
		if err := confirm(ctx, c, env, releaseRisk(*found)); err != nil {
			return err
		}
		out := forcedRelease{Table: found.Table, Ticket: strconv.FormatInt(ticket, 10), Holder: found.Holder, PID: found.Pid}
		if out.Released, err = mesh.ReleaseForce(ctx, ticket); err != nil {
			return fmt.Errorf("release ticket %d: %w", ticket, err)
		}
		s.log.Warn().Str("claim_key", out.Table).Str("ticket", out.Ticket).Str("holder", out.Holder).Bool("released", out.Released).Msg("claim released by force")
		if format == outputJSON {
			return writeJSON(env.stdout, out)
		}
		if _, err := fmt.Fprint(env.stdout, out.text(found.Orphan)); err != nil {
			return fmt.Errorf("write result: %w", err)
		}

		return nil
	})
}

func parseTicket(c *cli.Context) (int64, error) {
	if c.Args().Len() != 1 {
		return 0, usagef("write: compactor claim release --force TICKET")
	}
	ticket, err := strconv.ParseInt(c.Args().First(), 10, 64)
	if err != nil || ticket <= 0 {
		return 0, usagef("TICKET %q is no number of a claim; compactor claim list shows them", c.Args().First())
	}
	if !c.Bool("force") {
		return 0, usagef("a claim is given back by its holder; --force takes it away")
	}

	return ticket, nil
}

func releaseRisk(c bakery.Claim) string {
	age, does := c.Age, "waits for"
	if c.Entered {
		age, does = c.HeldFor, "holds"
	}
	if c.Orphan {
		does = "left a claim on"
	}

	return fmt.Sprintf("%s (node %s, server process %d) %s %s, for %s.\n"+
		"It may still be working, and a commit that it has sent may still land after another writer has got the table;\n"+
		"then the catalog rejects one of the two. Stop it first if you can.",
		c.Holder, c.Node, c.Pid, does, c.Table, age.Round(time.Second))
}

func (r forcedRelease) text(orphan bool) string {
	if !r.Released {
		return "ticket " + r.Ticket + " was gone already\n"
	}
	text := fmt.Sprintf("ticket %s of %s is released\n", r.Ticket, r.Table)
	if !orphan {
		text += fmt.Sprintf("other writers of this node wait until its session ends; SELECT pg_terminate_backend(%d); ends it\n", r.PID)
	}

	return text
}
