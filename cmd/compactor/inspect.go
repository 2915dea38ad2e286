package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/urfave/cli/v2"

	"compactor/internal/version"
	"compactor/pkg/inspect"
	"compactor/pkg/maintenance"
)

const inspectDescription = `Describes each TABLE from its metadata: sizes of data files, partitions with most
small files, deletes, snapshots, manifests, what a compaction would save, and what
each step of a run would do. It reads manifests and no data, takes no claim, needs
no PostgreSQL and writes nothing. What a step would do exactly, --dry-run of that
step says; orphans are not looked for.`

// inspection is the document of the command.
type inspection struct {
	Program  string           `json:"program"`
	Version  string           `json:"version"`
	At       time.Time        `json:"at"`
	ExitCode int              `json:"exit_code"`
	Tables   []inspect.Health `json:"tables"`
	Failed   []failedTable    `json:"failed,omitempty"`
}

// failedTable is one that could not be inspected.
type failedTable struct {
	Table string `json:"table"`
	Error string `json:"error"`
}

func inspectCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:        "inspect",
		Usage:       "describe the health of tables, and what each step would do",
		ArgsUsage:   tableArgs,
		Description: inspectDescription + selectionHelp,
		Flags:       slices.Concat(stringFlags(compactKeyFlags(), "Compaction:"), inspectSelection(), commonFlags()),
		Action:      func(c *cli.Context) error { return inspectTables(c, env) },
	}
}

// inspectSelection leaves out what is about work on tables.
func inspectSelection() []cli.Flag {
	return slices.DeleteFunc(selectionFlags(), func(f cli.Flag) bool {
		return slices.Contains([]string{"parallel", "max-duration"}, f.Names()[0])
	})
}

func inspectTables(c *cli.Context, env environment) error {
	sel, err := selectTables(c)
	if err != nil {
		return err
	}
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	s, err := openSession(c, env, true)
	if err != nil {
		return err
	}
	defer s.close()
	idents, bad, err := sel.resolve(c.Context, s.catalog)
	if err != nil {
		return err
	}
	doc := inspection{Program: "compactor", Version: version.Get().Version, At: s.now().UTC(), Tables: []inspect.Health{}}
	var errs []error
	for _, u := range bad {
		doc.Failed, errs = append(doc.Failed, failedTable{u.name, u.err.Error()}), append(errs, u.err)
	}
	for _, ident := range idents {
		h, err := s.inspect(c.Context, ident)
		if err != nil {
			doc.Failed, errs = append(doc.Failed, failedTable{strings.Join(ident, "."), err.Error()}), append(errs, err)

			continue
		}
		doc.Tables = append(doc.Tables, h)
	}
	outcome := worst(errs)
	doc.ExitCode = exitCode(outcome)
	if err := doc.write(env, format); err != nil {
		return errors.Join(outcome, err)
	}
	if outcome != nil {
		return &reportedError{outcome}
	}

	return nil
}

// write puts the result on stdout. Several tables are ranked.
func (d inspection) write(env environment, format string) error {
	if format == outputJSON {
		return writeJSON(env.stdout, d)
	}
	_, plain := env.getenv("NO_COLOR")
	for _, h := range d.Tables {
		if len(d.Tables) > 1 {
			break
		}
		if err := h.WriteText(env.stdout, plain); err != nil {
			return err //nolint:wrapcheck // It says what it could not write.
		}
	}
	if len(d.Tables) > 1 {
		if err := inspect.WriteRanking(env.stdout, d.Tables); err != nil {
			return err //nolint:wrapcheck // As above.
		}
	}
	for _, f := range d.Failed {
		if _, err := fmt.Fprintf(env.stdout, "%s: %s\n", f.Table, f.Error); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
	}

	return nil
}

func (s *session) inspect(ctx context.Context, ident table.Identifier) (inspect.Health, error) {
	on, err := s.target(ctx, ident)
	if err != nil {
		return inspect.Health{}, err
	}
	p := on.policy
	h, err := inspect.Table(ctx, on.table, inspect.Options{
		TargetFileSize: int64(p.Compact.TargetFileSize), MinFileSize: int64(p.Compact.MinFileSize), MaxFileSize: int64(p.Compact.MaxFileSize),
		MinInputFiles: p.Compact.MinInputFiles, ManifestSize: int64(p.Manifests.TargetSize), Now: s.now(),
	})
	if err != nil {
		return h, fmt.Errorf("%s: %w", on.name, err)
	}
	h.Table = on.name
	h.Steps = s.verdicts(on, h)

	return h, nil
}

// verdicts say what a run would do to the table, by the figures alone.
func (s *session) verdicts(on target, h inspect.Health) []inspect.Verdict {
	enabled := map[string]bool{
		maintenance.StepCompact: on.policy.Compact.Enabled, maintenance.StepManifests: on.policy.Manifests.Enabled,
		maintenance.StepExpire: on.policy.Expire.Enabled, maintenance.StepOrphans: on.policy.Orphans.Enabled,
	}
	var out []inspect.Verdict
	for _, name := range []string{maintenance.StepCompact, maintenance.StepManifests, maintenance.StepExpire, maintenance.StepOrphans} {
		v := inspect.Verdict{Step: name}
		switch {
		case s.cfg.Disabled(on.name, on.table.Properties()):
			v.Reason = "the table is disabled"
		case !enabled[name]:
			v.Reason = "the policy disables this step"
		default:
			v.Due, v.Reason = on.verdict(name, h, s.now())
		}
		out = append(out, v)
	}

	return out
}

func (t target) verdict(step string, h inspect.Health, now time.Time) (due bool, reason string) {
	if why := t.tooSoon(step, now); why != "" {
		return false, why
	}
	switch step {
	case maintenance.StepCompact:
		saved := h.Compaction.FilesBefore - h.Compaction.FilesAfter
		if saved > 0 || h.Deletes.Share >= t.policy.Compact.DeleteRatioThreshold {
			return t.compactVerdict(h, saved)
		}

		return false, "no partition has enough files of the wrong size"
	case maintenance.StepManifests:
		if n := t.whenManifests(); h.Manifests.Count < n {
			return false, fmt.Sprintf("the policy asks for it from %d manifests on, there are %d", n, h.Manifests.Count)
		}

		return h.Manifests.Small > 2, fmt.Sprintf("%d of %d manifests are small", h.Manifests.Small, h.Manifests.Count)
	case maintenance.StepExpire:
		p := t.policy.Expire
		n, refs, err := maintenance.Expirable(t.table.Metadata(), maintenance.ExpireOptions{OlderThan: time.Duration(p.OlderThan), RetainLast: p.RetainLast}, now)
		if err != nil {
			return false, err.Error()
		}

		return n+refs > 0, fmt.Sprintf("%d of %d snapshots and %d refs are past their age", n, h.Snapshots.Count, refs)
	default:
		return true, "not looked at; compactor orphans --dry-run lists them"
	}
}

func (t target) compactVerdict(h inspect.Health, saved int64) (due bool, reason string) {
	live := maintenance.Live{
		Files: h.Data.Files, SmallFiles: h.Data.SmallFiles, Bytes: h.Data.Bytes, SmallBytes: h.Data.SmallBytes,
		Rows: h.Data.Rows, DeletedRows: h.Deletes.Rows,
	}
	if why := t.compactWhen().NotYet(live); why != "" {
		return false, why
	}

	return true, fmt.Sprintf("about %d files fewer, %.1f %% of the rows deleted", saved, 100*h.Deletes.Share)
}
