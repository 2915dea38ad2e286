package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"compactor/internal/config"
	"compactor/internal/progress"
	"compactor/pkg/maintenance"
	"compactor/pkg/rewrite"
)

const compactDescription = `Rewrites the small data files of each TABLE into files of about the target size.
The rows of a table with a sort order are written in that order.
Position deletes, equality deletes and deletion vectors are applied on the way.
Each round takes the table's claim, loads the table, rewrites, proves that no
row is lost, and makes one commit (operation "replace") to the branch main.
Sizes take units (128MiB, 512MB); durations take units and days (15s, 7d).
Another name of this command is rewrite-data-files.`

func compactFlags() []cli.Flag {
	flags := stringFlags(compactKeyFlags(), "Compaction:")

	return append(flags,
		&cli.BoolFlag{Name: "recompress", Usage: "compress moved pages anew where the table names another codec or a level", Category: "Compaction:"},
		&cli.BoolFlag{Name: "rewrite-all", Usage: "rewrite every data file, needed or not", Category: "Compaction:"},
		&cli.BoolFlag{Name: "rewrite-deletes", Usage: "also merge the position deletes that stay, or turn them into deletion vectors from format version 3 on", Category: "Compaction:"},
		&cli.BoolFlag{Name: "verify", Usage: "before each commit re-read inputs and outputs and compare a hash of every row", Category: "Compaction:"},
		dryRunFlag(),
		&cli.StringFlag{Name: "on-conflict", Usage: "`WHAT` to do when the catalog rejects a commit under the held claim: fail or replan", DefaultText: "fail", Category: "Compaction:"},
	)
}

func compactCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:        "compact",
		Aliases:     []string{"rewrite-data-files"},
		Usage:       "rewrite small data files into few large ones",
		ArgsUsage:   tableArgs,
		Description: compactDescription + selectionHelp,
		Flags:       slices.Concat(compactFlags(), selectionFlags(), commonFlags()),
		Action: func(c *cli.Context) error {
			st, err := compactStep(c)
			if err != nil {
				return err
			}

			return runJob(c, env, job{steps: []step{st}, dryRun: isOn(c, "dry-run"), asked: true})
		},
	}
}

const runDescription = `Runs the steps that the policy of each TABLE enables, in this order: compact,
manifests, expire, orphans. Each works as the command of its name. After a conflict, an
ambiguous commit, a lost claim or a failed check no further step touches the table.
Sizes take units (128MiB, 512MB); durations take units and days (15s, 7d).`

func runCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:        "run",
		Usage:       "all steps that the policy asks for; the command of a scheduled job",
		ArgsUsage:   tableArgs,
		Description: runDescription + selectionHelp,
		Flags:       slices.Concat(compactFlags(), []cli.Flag{maxDeletesFlag()}, selectionFlags(), commonFlags()),
		Action: func(c *cli.Context) error {
			steps, err := runSteps(c)
			if err != nil {
				return err
			}

			return runJob(c, env, job{steps: steps, dryRun: isOn(c, "dry-run")})
		},
	}
}

func compactOptions(c *cli.Context) (maintenance.CompactOptions, error) {
	o := maintenance.CompactOptions{DryRun: isOn(c, "dry-run"), Verify: isOn(c, "verify"), OnConflict: maintenance.ConflictFails}
	o.Plan.RewriteAll, o.RewriteDeletes = isOn(c, "rewrite-all"), isOn(c, "rewrite-deletes")
	strategy, _ := lookup(c, "strategy")
	if by, ok := lookup(c, "sort-by"); ok && strategy == rewrite.StrategyBinpack {
		return o, usagef("--sort-by %q does not go with --strategy binpack, which keeps rows as they are", by)
	}
	if v, ok := lookup(c, "on-conflict"); ok {
		o.OnConflict = maintenance.OnConflict(v)
		if o.OnConflict != maintenance.ConflictFails && o.OnConflict != maintenance.ConflictReplans {
			return o, usagef("--on-conflict %q: use fail or replan", v)
		}
	}

	return o, nil
}

// compactStep compacts by the policy of the table and the flags of the command.
func compactStep(c *cli.Context) (step, error) {
	o, err := compactOptions(c)
	if err != nil {
		return step{}, err
	}

	return step{
		name:    maintenance.StepCompact,
		enabled: func(p config.Policy) bool { return p.Compact.Enabled },
		run: func(ctx context.Context, on target) (maintenance.StepReport, error) {
			s, o := on.session, o
			o.MaxHold, o.MaxRounds = time.Duration(s.cfg.Claim.MaxHold), s.cfg.Claim.MaxRounds
			o.When = on.compactWhen()
			o.RewriteDeletes = o.RewriteDeletes || on.policy.Compact.RewriteDeletes
			o.Plan = planOptions(on.policy.Compact, o, s.memory, reserved(s.parallel))
			shown := newTasks(s.progress, on.shown)
			defer shown.done()

			return on.rewriter(shown.update, on.policy.Compact).Compact(ctx, on.table, o)
		},
	}, nil
}

// planOptions maps a policy to the planner. While a claim is held for a
// bounded time, a group is capped at twice the target.
func planOptions(p config.Compact, o maintenance.CompactOptions, memory, reserved int64) rewrite.PlanOptions {
	plan := rewrite.PlanOptions{
		TargetFileSize: int64(p.TargetFileSize), MinFileSize: int64(p.MinFileSize), MaxFileSize: int64(p.MaxFileSize),
		MinInputFiles: p.MinInputFiles, DeleteFileThreshold: p.DeleteFileThreshold,
		DeleteRatioThreshold: p.DeleteRatioThreshold, MaxGroupBytes: int64(p.MaxGroupSize),
		Strategy: p.Strategy, SortBy: p.SortBy, RewriteAll: o.Plan.RewriteAll, Memory: memory, Reserved: reserved,
	}
	if p.Strategy == rewrite.StrategyBinpack {
		plan.SortBy = "" // of the file, when a flag or a table's entry says binpack
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
