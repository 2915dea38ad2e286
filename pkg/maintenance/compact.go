package maintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/iceberg-go/table"

	"compactor/pkg/rewrite"
)

// OnConflict says what a round does when the catalog rejected its commit
// although the claim is held.
type OnConflict string

// The reactions to a conflict.
const (
	// ConflictFails names the foreign snapshot and ends the step.
	ConflictFails OnConflict = "fail"
	// ConflictReplans plans and rewrites the round anew under the same claim.
	// Finished work is never moved onto the new head.
	ConflictReplans OnConflict = "replan"
)

// maxReplans bounds how often one round is done anew.
const maxReplans = 3

// CompactOptions say how a table is compacted.
type CompactOptions struct {
	Plan       rewrite.PlanOptions
	MaxHold    time.Duration // longest time one claim is held; 0: one claim for all
	MaxRounds  int           // most rounds; 0: no limit
	DryRun     bool          // plan only: no claim, no write
	Verify     bool          // re-read inputs and outputs before each commit
	OnConflict OnConflict    // empty: ConflictFails
	// RewriteDeletes merges the position deletes that stay into fewer files, or
	// into deletion vectors from format version 3 on, after the rewrite.
	RewriteDeletes bool
	When           CompactWhen // thresholds below which there is nothing to do
}

// Compact rewrites the small data files of a table, round by round, each round
// under a claim of its own and with one commit to main. look is the table as it
// was loaded without the claim: it only decides whether there is work at all.
//
// Errors: ErrClaimHeld, ErrClaimLost, ErrConflict, ErrAmbiguous, ErrHalt,
// ErrPartial, ErrRefused, ErrStopped, or the failure of a part. The report is
// valid with an error too and lists the rounds that were committed. A repeated
// call is safe: it plans on what the table then is.
func (m *Maintainer) Compact(ctx context.Context, look *table.Table, o CompactOptions) (StepReport, error) {
	started := m.now()
	c := &compaction{m: m, o: o, rep: StepReport{Step: StepCompact}, pace: pace{maxHold: o.MaxHold}}
	c.rep.Rewritten.IndependentlyProven = true
	err := m.closeStep(ctx, &c.rep, started, c.run(ctx, look))

	return c.rep, err
}

// closeStep ends a step: it classes the error of a run that was stopped and
// fills in status, reason and duration.
func (m *Maintainer) closeStep(ctx context.Context, rep *StepReport, started time.Time, err error) error {
	if err != nil && ctx.Err() != nil && !ends(err) {
		err = classed(ErrStopped, context.Cause(ctx), err)
	}
	if err != nil {
		rep.Status = statusOf(err)
		rep.Reason = reasonOf(err, *rep)
	}
	rep.Duration = Seconds(m.now().Sub(started))

	return err
}

// ends tells the errors whose class stays what it is when the run is also
// being stopped: they say something about the table.
func ends(err error) bool {
	for _, class := range []error{ErrAmbiguous, ErrConflict, ErrHalt, ErrClaimLost, rewrite.ErrIntegrity} {
		if errors.Is(err, class) {
			return true
		}
	}

	return false
}

func reasonOf(err error, rep StepReport) string {
	if rep.Reason != "" && (errors.Is(err, ErrPartial) || errors.Is(err, ErrRefused)) {
		return rep.Reason
	}

	return err.Error()
}

// compaction is the state of one Compact call.
type compaction struct {
	m     *Maintainer
	o     CompactOptions
	rep   StepReport
	pace  pace
	ident table.Identifier
	plan  *rewrite.Plan
}

func (c *compaction) run(ctx context.Context, tbl *table.Table) error {
	c.ident = tbl.Identifier()
	c.rep.SnapshotBefore, c.rep.SnapshotAfter = currentHead(tbl), currentHead(tbl)
	plan, err := rewrite.NewPlan(ctx, tbl, c.o.Plan)
	if err != nil {
		return fmt.Errorf("plan %s: %w", name(tbl), err)
	}
	if c.o.DryRun {
		if err := plan.Inspect(ctx, tbl); err != nil {
			return fmt.Errorf("plan %s: %w", name(tbl), err)
		}
	}
	deletes, tooLarge := c.deleteWork(tbl, plan)
	c.describePlan(plan, tooLarge)
	switch {
	case len(plan.Groups) == 0 && deletes == 0:
		return c.nothing(plan)
	case !c.o.When.reached(liveOf(plan.Live)):
		c.rep.Status, c.rep.Reason = StatusNothing, c.o.When.describe(liveOf(plan.Live))

		return nil
	}
	if err := inPlace(tbl); err != nil {
		return err
	}
	if c.o.DryRun {
		c.rep.Status = StatusPlanned
		c.rep.Plan = planReport(plan, estimate(plan.Groups, c.o.MaxHold))
		c.rep.Plan.DeleteFiles = deletes
		c.rep.Reason = fmt.Sprintf("would rewrite %d groups", len(plan.Groups))
		if deletes > 0 {
			c.rep.Reason += fmt.Sprintf(" and remove or replace %d delete files", deletes)
		}

		return nil
	}
	c.plan = plan

	return c.rounds(ctx)
}

func (c *compaction) describePlan(plan *rewrite.Plan, tooLarge []rewrite.Refusal) {
	c.rep.Groups, c.rep.SortedBy = len(plan.Groups), plan.SortedBy()
	small := plan.Live.SmallFiles
	c.rep.SmallFilesLeft = &small
	c.rep.Before = TableSize{Files: plan.Live.Files, Bytes: plan.Live.Bytes, Rows: plan.Live.Rows}
	c.rep.Refused = refusals(append(slices.Clone(plan.Refused), tooLarge...))
}

func refusals(in []rewrite.Refusal) []Refusal {
	out := make([]Refusal, 0, len(in))
	for _, r := range in {
		out = append(out, Refusal{What: r.What, Reason: r.Reason, Files: r.Files, Bytes: r.Bytes})
	}

	return out
}

// nothing ends the step before a claim was taken: no work, or refused work.
func (c *compaction) nothing(plan *rewrite.Plan) error {
	if len(c.rep.Refused) > 0 {
		c.rep.Reason = c.rep.Refused[0].What + ": " + c.rep.Refused[0].Reason

		return fmt.Errorf("%s: %w", c.rep.Reason, ErrRefused)
	}
	c.rep.Status = StatusNothing
	c.rep.Reason = plan.Reason

	return nil
}

// rounds works until the plan is empty, a round fails, or max_rounds is
// reached.
func (c *compaction) rounds(ctx context.Context) error {
	n := 1
	for ; len(c.plan.Groups) > 0; n++ {
		if c.o.MaxRounds > 0 && n > c.o.MaxRounds {
			c.rep.GroupsLeft = len(c.plan.Groups)

			return c.finish()
		}
		if ctx.Err() != nil {
			return fmt.Errorf("before round %d: %w", n, context.Cause(ctx))
		}
		if err := c.round(ctx, n, c.attempt); err != nil {
			c.rep.GroupsLeft = len(c.plan.Groups)

			return fmt.Errorf("round %d: %w", n, err)
		}
	}
	if err := c.deleteRounds(ctx, n); err != nil {
		return err
	}

	return c.finish()
}

func (c *compaction) finish() error {
	committed := c.committed()
	c.rep.Status = StatusDone
	c.rep.Reason = fmt.Sprintf("%d of %d groups rewritten in %d commits", c.rep.done(), c.rep.Groups, committed)
	if committed == 0 && len(c.rep.Failed)+len(c.rep.Refused) == 0 {
		c.rep.Status = StatusNothing
		c.rep.Reason = "another writer has done the work meanwhile"
		if c.plan.Reason != "" {
			c.rep.Reason = c.plan.Reason
		}
	}
	if c.rep.DeletesRemoved > 0 {
		c.rep.Reason += fmt.Sprintf("; %d delete files removed", c.rep.DeletesRemoved)
	}
	if c.rep.DeletesAdded > 0 {
		c.rep.Reason += fmt.Sprintf(", %d written", c.rep.DeletesAdded)
	}
	if c.rep.GroupsLeft > 0 {
		c.rep.Reason += fmt.Sprintf("; %d groups left after max_rounds %d", c.rep.GroupsLeft, c.o.MaxRounds)
	}
	if bad := len(c.rep.Failed) + len(c.rep.Refused); bad > 0 {
		c.rep.Reason += fmt.Sprintf("; %d refused or failed", bad)
		if committed == 0 && len(c.rep.Refused) == 0 {
			return fmt.Errorf("%s: %s", c.rep.Reason, c.rep.Failed[0].Reason)
		}

		return fmt.Errorf("%s: %w", c.rep.Reason, ErrPartial)
	}

	return nil
}

// committed is how many rounds ended with a commit.
func (c *compaction) committed() int {
	n := 0
	for _, r := range c.rep.Rounds {
		if r.SnapshotID != nil {
			n++
		}
	}

	return n
}

func (s StepReport) done() int {
	n := 0
	for _, r := range s.Rounds {
		if r.SnapshotID != nil {
			n += r.Groups
		}
	}

	return n
}
