package main

import (
	"context"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"compactor/internal/config"
	"compactor/pkg/maintenance"
)

const expireDescription = `Removes old snapshots, and branches and tags past their age, from each TABLE with
one commit under the table's claim. Then, without the claim, deletes the files
that only those snapshots could reach. What a branch or tag points at stays, and
so does what its own min-snapshots-to-keep and max-snapshot-age-ms retain.
A table with gc.enabled=false is refused. A run that was interrupted, or whose
deletes were refused, is finished by the next one.
Durations take units and days (15s, 7d).`

func expireCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:        "expire",
		Aliases:     []string{"expire-snapshots"},
		Usage:       "expire old snapshots and delete what only they could reach",
		ArgsUsage:   tableArgs,
		Description: expireDescription + selectionHelp,
		Flags:       slices.Concat(expireFlags(), selectionFlags(), commonFlags()),
		Action:      func(c *cli.Context) error { return expireTables(c, env) },
	}
}

func expireFlags() []cli.Flag {
	const category = "Expiry:"
	flags := stringFlags(expireKeyFlags(), category)

	return append(flags,
		&cli.BoolFlag{Name: "keep-files", Usage: "expire metadata only and delete no file", Category: category},
		&cli.BoolFlag{Name: "clean-expired-metadata", Usage: "also remove schemas and partition specs that nothing uses any more", Category: category},
		&cli.Int64SliceFlag{Name: "snapshot-id", Usage: "expire exactly the snapshot `ID`, whatever its age; may be repeated", Category: category},
		maxDeletesFlag(),
		dryRunFlag(),
	)
}

func dryRunFlag() cli.Flag {
	return &cli.BoolFlag{Name: "dry-run", Usage: "print the plan; take no claim, write nothing"}
}

func expireTables(c *cli.Context, env environment) error {
	if _, set := lookup(c, "snapshot-id"); set {
		for _, other := range []string{"older-than", "retain-last"} {
			if _, both := lookup(c, other); both {
				return usagef("--snapshot-id expires exactly what it names; it does not go with --%s", other)
			}
		}
	}

	return runJob(c, env, job{steps: []step{expireStep(c)}, dryRun: isOn(c, "dry-run"), asked: true})
}

// expireStep expires by the policy of the table and the flags of the command.
func expireStep(c *cli.Context) step {
	ids := c.Int64Slice("snapshot-id")
	dryRun := isOn(c, "dry-run")

	return step{
		name:    maintenance.StepExpire,
		enabled: func(p config.Policy) bool { return p.Expire.Enabled },
		run: func(ctx context.Context, on target) (maintenance.StepReport, error) {
			p, s := on.policy.Expire, on.session
			return on.maintainer(nil).Expire(ctx, on.table, maintenance.ExpireOptions{
				OlderThan: time.Duration(p.OlderThan), RetainLast: p.RetainLast, SnapshotIDs: ids,
				KeepFiles: p.KeepFiles, CleanExpiredMetadata: p.CleanExpiredMetadata,
				OverrideDeleteDisabled: s.cfg.Storage.OverrideDeleteDisabled, DryRun: dryRun,
				SweepBatch: s.memory / sweepEntryBytes, Deletes: s.deletes,
			})
		},
	}
}

// sweepEntryBytes is what one file under examination may take of the memory
// budget; with it the clean-up stays far below the budget.
const sweepEntryBytes = 1 << 10
