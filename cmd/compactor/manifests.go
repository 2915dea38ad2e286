package main

import (
	"context"
	"slices"

	"github.com/urfave/cli/v2"

	"compactor/internal/config"
	"compactor/pkg/maintenance"
)

const manifestsDescription = `Merges the small manifests of each TABLE's current snapshot, of data files and of
delete files, into manifests of about the target size, with the files of one
partition next to each other. It makes one commit (operation "replace") under the
table's claim and touches no data file. What was written is read back and
compared, entry by entry, before the commit.
Sizes take units (8MiB, 8MB).`

func manifestsCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:        "manifests",
		Aliases:     []string{"rewrite-manifests"},
		Usage:       "merge small manifests into few large ones",
		ArgsUsage:   tableArgs,
		Description: manifestsDescription + selectionHelp,
		Flags:       slices.Concat(stringFlags(manifestsKeyFlags(), "Manifests:"), []cli.Flag{dryRunFlag()}, selectionFlags(), commonFlags()),
		Action: func(c *cli.Context) error {
			return runJob(c, env, job{steps: []step{manifestsStep(c)}, dryRun: isOn(c, "dry-run"), asked: true})
		},
	}
}

// manifestsStep merges manifests by the policy of the table.
func manifestsStep(c *cli.Context) step {
	dryRun := isOn(c, "dry-run")

	return step{
		name:    maintenance.StepManifests,
		enabled: func(p config.Policy) bool { return p.Manifests.Enabled },
		run: func(ctx context.Context, on target) (maintenance.StepReport, error) {
			s := on.session
			return on.maintainer(nil).RewriteManifests(ctx, on.table, maintenance.ManifestsOptions{
				TargetSize: int64(on.policy.Manifests.TargetSize), Memory: s.memory, DryRun: dryRun, When: on.whenManifests(),
			})
		},
	}
}
