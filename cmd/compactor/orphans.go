package main

import (
	"context"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"compactor/internal/config"
	"compactor/pkg/maintenance"
)

const orphansDescription = `Deletes the files below the location of each TABLE that no snapshot references and
that are old enough. What is deleted is planned without the table's claim; then
the claim is taken, the table is loaded again, and what it references by now
stays. Nothing is committed. Files whose age is unknown, metadata.json files,
hidden names and the folders of other tables stay.
Durations take units and days (72h, 7d).
Another name of this command is remove-orphan-files.`

// riskFlag names what it risks, so that nobody sets it by habit.
const riskFlag = "risk-deleting-files-in-flight"

func orphanKeyFlags() []keyFlag {
	return []keyFlag{
		{"max-orphan-share", "defaults.orphans.max_share", "stop when a larger `SHARE` of the files of a folder looks like orphans, and 100 files at least (default: 0.5)"},
		overrideFlag(),
	}
}

func orphansCommand(env environment) *cli.Command {
	flags := append(stringFlags(orphanKeyFlags(), "Orphans:"),
		&cli.StringFlag{Name: "older-than", Usage: "delete files that are at least `DURATION` old by the store's clock (default: 72h; at least 24h)", Category: "Orphans:"},
		&cli.StringSliceFlag{Name: "location", Usage: "list the folder `URI` of the table too; may be repeated. Name only folders that hold files of this table alone", Category: "Orphans:"},
		&cli.StringSliceFlag{Name: "accept-lost-ref", Usage: "delete the files of the branch or tag `NAME` too, which was made while its snapshot expired, and was lost; may be repeated", Category: "Orphans:"},
		&cli.BoolFlag{Name: riskFlag, Usage: "accept an age below 24h: files of writes that are not yet committed may be deleted", Category: "Orphans:"},
		maxDeletesFlag(),
		&cli.BoolFlag{Name: "dry-run", Usage: "print the plan; take no claim, delete nothing"},
	)

	return &cli.Command{
		Name:        "orphans",
		Aliases:     []string{"remove-orphan-files"},
		Usage:       "delete files that no snapshot references",
		ArgsUsage:   tableArgs,
		Description: orphansDescription + selectionHelp,
		Flags:       slices.Concat(flags, selectionFlags(), commonFlags()),
		Action:      func(c *cli.Context) error { return orphansOfTables(c, env) },
	}
}

// orphanChoice is what the command line says beside the configuration.
type orphanChoice struct {
	olderThan *time.Duration
	maintenance.OrphanOptions
}

func orphanOptions(c *cli.Context) (orphanChoice, error) {
	o := orphanChoice{OrphanOptions: maintenance.OrphanOptions{
		DryRun: isOn(c, "dry-run"), RiskInFlight: isOn(c, riskFlag), Locations: c.StringSlice("location"),
		AcceptLostRefs: c.StringSlice("accept-lost-ref"),
	}}
	text, given := lookup(c, "older-than")
	if !given {
		return o, nil
	}
	age, err := config.ParseDuration(text)
	if err != nil {
		return o, usagef("--older-than %q: %w", text, err)
	}
	if d := time.Duration(age); d < maintenance.OrphanFloor && !o.RiskInFlight {
		return o, usagef("--older-than %s: a file younger than %s may belong to a write that is not yet committed; "+
			"--%s accepts that", text, maintenance.OrphanFloor, riskFlag)
	}
	d := time.Duration(age)
	o.olderThan = &d

	return o, nil
}

func orphansOfTables(c *cli.Context, env environment) error {
	st, err := orphansStep(c)
	if err != nil {
		return err
	}

	return runJob(c, env, job{steps: []step{st}, dryRun: isOn(c, "dry-run"), asked: true})
}

// orphansStep deletes by the policy of the table and the flags of the command.
func orphansStep(c *cli.Context) (step, error) {
	o, err := orphanOptions(c)
	if err != nil {
		return step{}, err
	}

	return step{
		name:    maintenance.StepOrphans,
		enabled: func(p config.Policy) bool { return p.Orphans.Enabled },
		run: func(ctx context.Context, on target) (maintenance.StepReport, error) {
			s, policy, opts := on.session, on.policy.Orphans, o.OrphanOptions
			opts.OlderThan, opts.MaxShare = time.Duration(policy.OlderThan), policy.MaxShare
			if o.olderThan != nil {
				opts.OlderThan = *o.olderThan
			}
			opts.OverrideDeleteDisabled = s.cfg.Storage.OverrideDeleteDisabled
			opts.Memory, opts.Deletes = s.memory, s.deletes
			opts.MaxHold, opts.MaxRounds = time.Duration(s.cfg.Claim.MaxHold), s.cfg.Claim.MaxRounds

			return on.maintainer(nil).Orphans(ctx, on.table, opts)
		},
	}, nil
}
