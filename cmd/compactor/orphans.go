package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/urfave/cli/v2"

	"compactor/internal/config"
	"compactor/internal/version"
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
		{"override-delete-disabled", "storage.override_delete_disabled", "`true` deletes files although the catalog sends s3.delete-enabled=false (default: false)"},
	}
}

func orphansCommand(env environment) *cli.Command {
	flags := append(stringFlags(orphanKeyFlags(), "Orphans:"),
		&cli.StringFlag{Name: "older-than", Usage: "delete files that are at least `DURATION` old by the store's clock (default: 72h; at least 24h)", Category: "Orphans:"},
		&cli.StringSliceFlag{Name: "location", Usage: "list the folder `URI` of the table too; may be repeated. Name only folders that hold files of this table alone", Category: "Orphans:"},
		&cli.BoolFlag{Name: riskFlag, Usage: "accept an age below 24h: files of writes that are not yet committed may be deleted", Category: "Orphans:"},
		&cli.BoolFlag{Name: "dry-run", Usage: "print the plan; take no claim, delete nothing"},
	)

	return &cli.Command{
		Name:        "orphans",
		Aliases:     []string{"remove-orphan-files"},
		Usage:       "delete files that no snapshot references",
		ArgsUsage:   "TABLE...",
		Description: orphansDescription,
		Flags:       append(flags, commonFlags()...),
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
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	idents, err := tables(c)
	if err != nil {
		return err
	}
	opts, err := orphanOptions(c)
	if err != nil {
		return err
	}
	s, err := openSession(c, env, opts.DryRun)
	if err != nil {
		return err
	}
	defer s.close()
	rep := maintenance.Report{
		Program: "compactor", Version: version.Get().Version, RunID: s.runID, StartedAt: s.started, DryRun: opts.DryRun,
	}
	var errs []error
	for _, ident := range idents {
		if ctx := c.Context; ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("before %s: %w", strings.Join(ident, "."), context.Cause(ctx)))

			break
		}
		tr, err := s.orphansOfTable(c.Context, ident, opts)
		rep.Tables, errs = append(rep.Tables, tr), append(errs, err)
	}
	rep.FinishedAt = time.Now().UTC()
	s.progress.Close()
	if err := writeReport(env, format, rep); err != nil {
		return err
	}
	if err := worst(errs); err != nil {
		return &reportedError{err}
	}

	return nil
}

func (s *session) orphansOfTable(ctx context.Context, ident table.Identifier, o orphanChoice) (maintenance.TableReport, error) {
	name := strings.Join(ident, ".")
	out := maintenance.TableReport{Table: name}
	tbl, err := s.catalog.LoadTable(ctx, ident)
	if err == nil {
		if err = s.cfg.CheckTable(name, tbl.Properties()); err != nil {
			err = &usageError{err}
		}
	}
	if err != nil {
		out.Error = err.Error()

		return out, fmt.Errorf("%s: %w", name, err)
	}
	step, err := s.orphansStep(ctx, tbl, o)
	out.Steps = append(out.Steps, step)
	if err != nil {
		return out, fmt.Errorf("%s: %w", name, err)
	}

	return out, nil
}

// orphansStep runs the step on a loaded table, by the table's policy.
func (s *session) orphansStep(ctx context.Context, tbl *table.Table, o orphanChoice) (maintenance.StepReport, error) {
	name := strings.Join(tbl.Identifier(), ".")
	if s.cfg.Disabled(name, tbl.Properties()) {
		return maintenance.StepReport{
			Step: maintenance.StepOrphans, Status: maintenance.StatusNothing,
			Reason: "the configuration or the table's property compactor.disabled disables this table",
		}, nil
	}
	policy := s.cfg.PolicyFor(name, tbl.Properties()).Orphans
	opts := o.OrphanOptions
	opts.OlderThan, opts.MaxShare = time.Duration(policy.OlderThan), policy.MaxShare
	if o.olderThan != nil {
		opts.OlderThan = *o.olderThan
	}
	opts.OverrideDeleteDisabled = s.cfg.Storage.OverrideDeleteDisabled
	opts.Memory = s.memory
	opts.MaxHold, opts.MaxRounds = time.Duration(s.cfg.Claim.MaxHold), s.cfg.Claim.MaxRounds
	step, err := s.maintainer(nil).Orphans(ctx, tbl, opts)
	event := s.log.Info()
	if err != nil {
		event = s.log.Error().Err(err)
	}
	event.Str("table", name).Str("step", step.Step).Str("status", string(step.Status)).Str("reason", step.Reason).Msg("step ended")

	return step, err //nolint:wrapcheck // The caller names the table.
}
