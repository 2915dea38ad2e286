package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"compactor/internal/tablename"
	"compactor/internal/version"
	"compactor/pkg/maintenance"
)

// job is one call of the program: steps over tables.
type job struct {
	steps  []step
	dryRun bool
	// asked says that the step was named on the command line, so that a policy
	// which switches it off for a run does not count.
	asked bool
	// summary, when there is one, comes before the report in text.
	summary func(io.Writer, maintenance.TableReport) error
}

// runJob does a job on the tables that the command line selects.
func runJob(c *cli.Context, env environment, j job) error {
	sel, err := selectTables(c)
	if err != nil {
		return err
	}

	return runOn(c, env, sel, j)
}

// runOn works through the tables; one that fails does not stop the others.
func runOn(c *cli.Context, env environment, sel selection, j job) error {
	format, err := outputFormat(c)
	if err != nil {
		return err
	}
	s, err := openSession(c, env, j.dryRun)
	if err != nil {
		j.publishFailure(c, env, stopped(c.Context, err))

		return err
	}
	defer s.close()
	rep := s.newReport(j)
	idents, bad, err := sel.resolve(c.Context, s.catalog)
	if err != nil {
		err = stopped(c.Context, err)
		rep.ExitCode, rep.FinishedAt = exitCode(err), s.now().UTC()
		s.publish(c.Context, rep)

		return err
	}
	var errs []error
	rep.Tables, errs = s.work(c.Context, idents, j)
	for _, u := range bad {
		tr, err := u.report(c.Context)
		tr.Close(exitCode(err))
		rep.Tables, errs = append(rep.Tables, tr), append(errs, err)
	}
	rep.FinishedAt = time.Now().UTC()
	s.progress.Close()
	outcome := worst(errs)
	rep.ExitCode = exitCode(outcome)
	s.publish(c.Context, rep)
	if err := j.show(env, format, rep); err != nil {
		return errors.Join(outcome, err) // What happened to the tables still decides the exit code.
	}
	if outcome != nil {
		return &reportedError{outcome}
	}

	return nil
}

// newReport is the head of the report of this run.
func (s *session) newReport(j job) maintenance.Report {
	return maintenance.Report{
		Program: "compactor", Version: version.Get().Version, RunID: s.runID,
		StartedAt: s.started, DryRun: j.dryRun, Tables: []maintenance.TableReport{},
	}
}

// show writes the result.
func (j job) show(env environment, format string, rep maintenance.Report) error {
	if j.summary != nil && format == outputText {
		for _, t := range rep.Tables {
			if err := j.summary(env.stdout, t); err != nil {
				return err
			}
		}
	}

	return writeReport(env, format, rep)
}

// work runs a job on the tables, several at a time, those in most need first.
// Reports and errors come in that order, one for each table.
func (s *session) work(ctx context.Context, idents []table.Identifier, j job) ([]maintenance.TableReport, []error) {
	s.split(len(idents))
	if len(idents) > 1 {
		idents = s.byNeed(ctx, idents)
	}
	reports, errs := make([]maintenance.TableReport, len(idents)), make([]error, len(idents))
	var workers errgroup.Group
	workers.SetLimit(s.tables)
	for i, ident := range idents {
		workers.Go(func() error {
			reports[i], errs[i] = s.oneOf(ctx, ident, j)
			if len(idents) > 1 {
				s.log.Info().Str("table", reports[i].Table).Str("status", string(reports[i].Status)).
					Int("exit_code", reports[i].ExitCode).Int("tables", len(idents)).Msg("table ended")
			}

			return nil
		})
	}
	_ = workers.Wait() // No goroutine above returns an error.

	return reports, errs
}

// oneOf runs the job on a table, unless the run has to end.
func (s *session) oneOf(ctx context.Context, ident table.Identifier, j job) (maintenance.TableReport, error) {
	out := maintenance.TableReport{Table: tablename.String(ident), Steps: []maintenance.StepReport{}}
	switch {
	case ctx.Err() != nil:
		err := fmt.Errorf("before %s: %w", out.Table, context.Cause(ctx))
		out.Error = err.Error()
		out.Close(exitCode(err))

		return out, err
	case s.timeUp():
		out.Reason = errTimeUp.Error()
		out.Close(0)

		return out, nil
	default:
		return s.runTable(ctx, ident, j)
	}
}

// looks is how many tables are looked at side by side.
const looks = 8

// byNeed puts the tables with most bytes in small files first, by the account
// of their own snapshots. A table that cannot be loaded goes last; it is tried
// again in its turn.
func (s *session) byNeed(ctx context.Context, idents []table.Identifier) []table.Identifier {
	type wanting struct {
		ident table.Identifier
		need  maintenance.Need
	}
	queue := make([]wanting, len(idents))
	var work errgroup.Group
	work.SetLimit(looks)
	for i, ident := range idents {
		queue[i].ident = ident
		work.Go(func() error {
			if ctx.Err() != nil || s.timeUp() {
				return nil
			}
			tbl, err := s.catalog.LoadTable(ctx, ident)
			if err != nil {
				return nil //nolint:nilerr // Its turn comes, and then it is reported.
			}
			p := s.cfg.PolicyFor(strings.Join(ident, "."), tbl.Properties())
			queue[i].need = maintenance.NeedOf(tbl.Metadata(), int64(p.Compact.TargetFileSize))

			return nil
		})
	}
	_ = work.Wait() // No goroutine above returns an error.
	slices.SortStableFunc(queue, func(a, b wanting) int {
		return cmp.Or(cmp.Compare(b.need.SmallBytes, a.need.SmallBytes), cmp.Compare(b.need.Files, a.need.Files))
	})
	out := make([]table.Identifier, len(queue))
	for i, q := range queue {
		out[i] = q.ident
	}

	return out
}
