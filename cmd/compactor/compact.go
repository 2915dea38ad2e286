package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/urfave/cli/v2"

	"compactor/internal/config"
	"compactor/internal/progress"
	"compactor/internal/version"
	"compactor/pkg/maintenance"
	"compactor/pkg/rewrite"
)

const compactDescription = `Rewrites the small data files of each TABLE into files of about the target size.
Position deletes, equality deletes and deletion vectors are applied on the way.
Each round takes the table's claim, loads the table, rewrites, proves that no
row is lost, and makes one commit (operation "replace") to the branch main.
Sizes take units (128MiB, 512MB); durations take units and days (15s, 7d).
Another name of this command is rewrite-data-files.`

func compactFlags() []cli.Flag {
	flags := stringFlags(compactKeyFlags(), "Compaction:")

	return append(flags,
		&cli.BoolFlag{Name: "rewrite-all", Usage: "rewrite every data file, needed or not", Category: "Compaction:"},
		&cli.BoolFlag{Name: "verify", Usage: "before each commit re-read inputs and outputs and compare a hash of every row", Category: "Compaction:"},
		&cli.BoolFlag{Name: "dry-run", Usage: "print the plan; take no claim, write nothing"},
		&cli.StringFlag{Name: "on-conflict", Usage: "`WHAT` to do when the catalog rejects a commit under the held claim: fail or replan", DefaultText: "fail", Category: "Compaction:"},
	)
}

func compactCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:        "compact",
		Aliases:     []string{"rewrite-data-files"},
		Usage:       "rewrite small data files into few large ones",
		ArgsUsage:   "TABLE...",
		Description: compactDescription,
		Flags:       append(compactFlags(), commonFlags()...),
		Action:      func(c *cli.Context) error { return compactTables(c, env, true) },
	}
}

func runCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "all steps that the policy asks for; the command of a scheduled job",
		ArgsUsage: "TABLE...",
		Description: "Runs the steps that the configuration enables for each TABLE, in order. In this version that is compact, as the command of that name does it.\n" +
			"Sizes take units (128MiB, 512MB); durations take units and days (15s, 7d).",
		Flags:  append(compactFlags(), commonFlags()...),
		Action: func(c *cli.Context) error { return compactTables(c, env, false) },
	}
}

// compactTables works through the tables; one that fails does not stop the
// others. asked says that the step was named, so that a policy which switches
// it off for a run does not count.
func compactTables(c *cli.Context, env environment, asked bool) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	idents, err := tables(c)
	if err != nil {
		return err
	}
	opts, err := compactOptions(c)
	if err != nil {
		return err
	}
	s, err := openSession(c, env, opts.DryRun)
	if err != nil {
		return err
	}
	defer s.close()
	s.verify = opts.Verify
	rep := maintenance.Report{
		Program: "compactor", Version: version.Get().Version, RunID: s.runID,
		StartedAt: s.started, DryRun: opts.DryRun,
	}
	var errs []error
	for _, ident := range idents {
		if ctx := c.Context; ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("before %s: %w", strings.Join(ident, "."), context.Cause(ctx)))

			break
		}
		tr, err := s.compactTable(c.Context, ident, opts, asked)
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

func compactOptions(c *cli.Context) (maintenance.CompactOptions, error) {
	o := maintenance.CompactOptions{DryRun: isOn(c, "dry-run"), Verify: isOn(c, "verify"), OnConflict: maintenance.ConflictFails}
	o.Plan.RewriteAll = isOn(c, "rewrite-all")
	if v, ok := lookup(c, "on-conflict"); ok {
		o.OnConflict = maintenance.OnConflict(v)
		if o.OnConflict != maintenance.ConflictFails && o.OnConflict != maintenance.ConflictReplans {
			return o, usagef("--on-conflict %q: use fail or replan", v)
		}
	}

	return o, nil
}

// compactTable compacts one table by its policy.
func (s *session) compactTable(ctx context.Context, ident table.Identifier, o maintenance.CompactOptions,
	asked bool,
) (maintenance.TableReport, error) {
	name := strings.Join(ident, ".")
	out := maintenance.TableReport{Table: name}
	tbl, err := s.catalog.LoadTable(ctx, ident)
	if err != nil {
		out.Error = err.Error()

		return out, fmt.Errorf("%s: %w", name, err)
	}
	if err := s.cfg.CheckTable(name, tbl.Properties()); err != nil {
		out.Error = err.Error()

		return out, fmt.Errorf("%s: %w", name, &usageError{err})
	}
	policy := s.cfg.PolicyFor(name, tbl.Properties())
	if disabled, why := s.disabled(tbl, policy, asked); disabled {
		out.Steps = append(out.Steps, maintenance.StepReport{Step: maintenance.StepCompact, Status: maintenance.StatusNothing, Reason: why})

		return out, nil
	}
	o.MaxHold, o.MaxRounds = time.Duration(s.cfg.Claim.MaxHold), s.cfg.Claim.MaxRounds
	o.Plan = planOptions(policy.Compact, o, s.memory, reserved(s.parallel))
	shown := newTasks(s.progress, name)
	defer shown.done()
	step, err := s.maintainer(shown.update).Compact(ctx, tbl, o)
	out.Steps = append(out.Steps, step)
	if err != nil {
		s.log.Error().Err(err).Str("table", name).Str("step", step.Step).Str("status", string(step.Status)).Msg("step ended")

		return out, fmt.Errorf("%s: %w", name, err)
	}
	s.log.Info().Str("table", name).Str("step", step.Step).Str("status", string(step.Status)).Str("reason", step.Reason).Msg("step ended")

	return out, nil
}

func (s *session) disabled(tbl *table.Table, p config.Policy, asked bool) (bool, string) {
	switch {
	case s.cfg.Disabled(strings.Join(tbl.Identifier(), "."), tbl.Properties()):
		return true, "the configuration or the table's property compactor.disabled disables this table"
	case !p.Compact.Enabled && !asked:
		return true, "the policy disables this step"
	default:
		return false, ""
	}
}

// planOptions maps a policy to the planner. While a claim is held for a
// bounded time, a group is capped at twice the target.
func planOptions(p config.Compact, o maintenance.CompactOptions, memory, reserved int64) rewrite.PlanOptions {
	plan := rewrite.PlanOptions{
		TargetFileSize: int64(p.TargetFileSize), MinFileSize: int64(p.MinFileSize), MaxFileSize: int64(p.MaxFileSize),
		MinInputFiles: p.MinInputFiles, DeleteFileThreshold: p.DeleteFileThreshold,
		DeleteRatioThreshold: p.DeleteRatioThreshold, MaxGroupBytes: int64(p.MaxGroupSize),
		RewriteAll: o.Plan.RewriteAll, Memory: memory, Reserved: reserved,
	}
	if o.MaxHold > 0 {
		plan.MaxGroupBytes = min(plan.MaxGroupBytes, 2*plan.TargetFileSize)
	}

	return plan
}

// tasks shows one bar for each group that is being rewritten.
type tasks struct {
	sink  *progress.Sink
	table string
	mu    sync.Mutex
	open  map[string]*progress.Task
}

func newTasks(sink *progress.Sink, name string) *tasks {
	return &tasks{sink: sink, table: name, open: map[string]*progress.Task{}}
}

func (t *tasks) update(p rewrite.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	task, ok := t.open[p.Group]
	if !ok {
		task = t.sink.Start(t.table+" "+p.Group, p.Bytes)
		t.open[p.Group] = task
	}
	task.Set(p.BytesDone)
	if p.RowsDone >= p.RowsTotal {
		task.Done()
	}
}

func (t *tasks) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, task := range t.open {
		task.Done()
	}
}
