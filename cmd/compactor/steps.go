package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/iceberg-go/table"
	"github.com/urfave/cli/v2"

	"compactor/internal/config"
	"compactor/internal/progress"
	"compactor/internal/tablename"
	"compactor/pkg/maintenance"
)

// step is one step of a command on one table.
type step struct {
	name    string
	enabled func(config.Policy) bool // by the policy, for a run
	run     func(ctx context.Context, on target) (maintenance.StepReport, error)
}

// target is the table that a step works on.
type target struct {
	session *session
	table   *table.Table // loaded without a claim, right before the step
	name    string       // namespace.table, as the globs of a policy match it
	shown   string       // the same for people, who can type it again
	policy  config.Policy
	// asked says that the step was named, so that its thresholds do not count.
	asked bool
	show  *progress.Task // what the step does; nil shows nothing
}

// runSteps are the steps of `run`, in their order: compaction first, so that
// what it replaces can expire; manifests before expiry, so that the ones they
// replace can go too; orphans last.
func runSteps(c *cli.Context) ([]step, error) {
	compact, err := compactStep(c)
	if err != nil {
		return nil, err
	}
	orphans, err := orphansStep(c)
	if err != nil {
		return nil, err
	}

	return []step{compact, manifestsStep(c), expireStep(c), orphans}, nil
}

// runTable runs the steps on one table, each on the table as it then is. After
// a conflict, an ambiguous commit, a lost claim, a halt or a signal no further
// step touches the table.
func (s *session) runTable(ctx context.Context, ident table.Identifier, j job) (maintenance.TableReport, error) {
	out := maintenance.TableReport{Table: tablename.String(ident), Steps: []maintenance.StepReport{}}
	var errs []error
	planned := ""
	for _, st := range j.steps {
		if s.timeUp() {
			out.Reason = "not every step: " + errTimeUp.Error()

			break
		}
		on, err := s.target(ctx, ident)
		if err = stopped(ctx, err); err != nil {
			out.Error = err.Error()
			errs = append(errs, err)

			break
		}
		rep, err := s.runStep(ctx, st, on, j.asked)
		if j.dryRun && planned != "" && rep.Status != "" {
			rep.Reason = strings.TrimPrefix(rep.Reason+"; planned on the table as it is: in a run "+planned+" comes first and changes it", "; ")
		}
		if rep.Status == maintenance.StatusPlanned && planned == "" {
			planned = st.name
		}
		err = stopped(ctx, err)
		out.Steps, errs = append(out.Steps, rep), append(errs, err)
		if endsTable(err) {
			break
		}
	}

	err := worst(errs)
	out.Close(exitCode(err))

	return out, err
}

func endsTable(err error) bool {
	switch exitCode(err) {
	case 4, 5, 11, 12, 129, 130, 143:
		return true
	}

	return false
}

// target loads the table and finds its policy.
func (s *session) target(ctx context.Context, ident table.Identifier) (target, error) {
	name, shown := strings.Join(ident, "."), tablename.String(ident)
	tbl, err := s.catalog.LoadTable(ctx, ident)
	if err != nil {
		return target{}, fmt.Errorf("%s: %w", shown, err)
	}
	if err := s.cfg.CheckTable(name, tbl.Properties()); err != nil {
		return target{}, fmt.Errorf("%s: %w", shown, &usageError{err})
	}

	return target{session: s, table: tbl, name: name, shown: shown, policy: s.cfg.PolicyFor(name, tbl.Properties())}, nil
}

func (s *session) runStep(ctx context.Context, st step, on target, asked bool) (maintenance.StepReport, error) {
	on.asked = asked
	if off, why := s.disabled(st, on, asked); off {
		return maintenance.StepReport{Step: st.name, Status: maintenance.StatusNothing, Reason: why}, nil
	}
	on.show = s.progress.Phase(on.shown+" "+st.name, "planning")
	defer on.show.Done()
	rep, err := st.run(ctx, on)
	rep, err = leftForLater(rep, err)
	log := s.log.With().Str("table", on.shown).Str("step", rep.Step).Str("status", string(rep.Status)).Logger()
	if err != nil {
		log.Error().Err(err).Msg("step ended")

		return rep, fmt.Errorf("%s: %w", on.shown, err)
	}
	log.Info().Str("reason", rep.Reason).Msg("step ended")

	return rep, nil
}

func (s *session) disabled(st step, on target, asked bool) (bool, string) {
	switch {
	case s.cfg.Disabled(on.name, on.table.Properties()):
		return true, "the configuration or the table's property compactor.disabled disables this table"
	case !asked && !st.enabled(on.policy):
		return true, "the policy disables this step"
	default:
		why := on.tooSoon(st.name, s.now())

		return why != "", why
	}
}
