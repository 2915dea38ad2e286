package maintenance

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/iceberg-go/table"

	"compactor/pkg/rewrite"
)

// deleteWork counts the delete files that the step would remove or replace
// beside its groups: those that apply to no data file and, when that was asked
// for, position deletes that can become fewer. Partitions whose position deletes
// do not fit the memory are tooLarge.
func (c *compaction) deleteWork(tbl *table.Table, plan *rewrite.Plan) (files int, tooLarge []rewrite.Refusal) {
	if tableRefused(plan) {
		return 0, nil
	}
	if c.o.RewriteDeletes {
		files, tooLarge = plan.Mergeable(tbl)
	}

	return files + len(plan.Dangling), tooLarge
}

// tableRefused tells a plan of a table that is left alone altogether.
func tableRefused(plan *rewrite.Plan) bool {
	return slices.ContainsFunc(plan.Refused, func(r rewrite.Refusal) bool { return r.What == "table" })
}

// deleteRounds change delete files alone, each round under a claim of its own
// and with one commit, from round n on. A rewrite that was committed has taken
// the dangling ones along. Whether there is work is looked up before a claim is
// taken.
func (c *compaction) deleteRounds(ctx context.Context, n int) error {
	if !c.o.RewriteDeletes && (c.committed() > 0 || len(c.plan.Dangling) == 0) {
		return nil
	}
	for more := true; more; n++ {
		if ctx.Err() != nil {
			return fmt.Errorf("before round %d: %w", n, context.Cause(ctx))
		}
		tbl, err := c.m.Catalog.LoadTable(ctx, c.ident)
		if err != nil {
			return fmt.Errorf("load %s: %w", identString(c.ident), err)
		}
		plan, err := c.plan.Replan(ctx, tbl)
		if err != nil {
			return fmt.Errorf("plan %s: %w", name(tbl), err)
		}
		if work, _ := c.deleteWork(tbl, plan); work == 0 || c.o.MaxRounds > 0 && n > c.o.MaxRounds {
			return nil
		}
		more = false
		attempt := func(ctx context.Context, claim Claim, n int, rep *RoundReport) error {
			left, err := c.attemptDeletes(ctx, claim, n, rep)
			more = left > 0

			return err
		}
		if err := c.round(ctx, n, attempt); err != nil {
			return fmt.Errorf("round %d: %w", n, err)
		}
	}

	return nil
}

// attemptDeletes loads, plans, writes and commits one change of delete files
// under the claim, and returns how many partitions wait for another. What it
// wrote and did not commit is removed, unless the commit may have happened.
func (c *compaction) attemptDeletes(ctx context.Context, claim Claim, n int, rep *RoundReport) (int, error) {
	tbl, err := c.m.Catalog.LoadTable(ctx, c.ident)
	if err != nil {
		return 0, fmt.Errorf("load %s under the claim: %w", identString(c.ident), err)
	}
	plan, err := c.plan.Replan(ctx, tbl)
	if err != nil {
		return 0, fmt.Errorf("plan %s under the claim: %w", name(tbl), err)
	}
	work, tooLarge := c.deleteWork(tbl, plan)
	if n == 1 {
		c.describePlan(plan, tooLarge)
		c.rep.SnapshotBefore, c.rep.SnapshotAfter = currentHead(tbl), currentHead(tbl)
	}
	if work == 0 {
		return 0, nil
	}
	rep.Parent = currentHead(tbl)
	change, err := rewrite.ChangeDeletes(ctx, tbl, plan, c.o.RewriteDeletes)
	if err != nil {
		return 0, fmt.Errorf("change delete files of %s: %w", name(tbl), err)
	}
	if change.Empty() {
		return 0, nil
	}
	res, err := c.commitDeletes(claim, n, tbl, change) //nolint:contextcheck // It works under the claim's context, which ctx is.
	if err != nil {
		return 0, err
	}
	rep.SnapshotID, rep.Found, rep.Committed = &res.SnapshotID, res.FoundBySearch, true
	rep.Change.IndependentlyProven = true
	removed := len(change.Dangling) + len(change.Merged)
	c.rep.DeletesRemoved += removed
	c.rep.DeletesAdded += len(change.Added)
	c.m.Log.Info().Str("table", name(tbl)).Int("round", n).Int64("snapshot_id", res.SnapshotID).
		Int("files_in", removed).Int("files_out", len(change.Added)).Msg("delete files committed")

	return change.Left, nil
}

// commitDeletes stages the snapshot, sends it through the guarded commit, and
// removes what is certainly not referenced when that failed.
func (c *compaction) commitDeletes(claim Claim, n int, tbl *table.Table, change rewrite.Deletes) (commitResult, error) {
	ctx := claim.Context()
	rec := &recorder{}
	round := strconv.Itoa(n)
	staged, err := stageDeletes(ctx, rec.bind(tbl), change, c.m.summary(round))
	if err != nil {
		c.undoDeletes(ctx, tbl, change, rec)

		return commitResult{}, err
	}
	req := commitRequest{base: tbl, staged: staged, change: snapshotChange{round: round, outputs: change.Created()}}
	res, err := c.m.commit(ctx, claim, req)
	switch {
	case err == nil:
		return res, nil
	case res.DidNotHappen:
		c.undoDeletes(ctx, tbl, change, rec)
	default:
		c.rep.Kept = append(append(c.rep.Kept, change.Created()...), rec.created()...)
	}

	return res, err
}

func stageDeletes(ctx context.Context, tbl *table.Table, change rewrite.Deletes, summary map[string]string) (table.TableCommit, error) {
	tx := tbl.NewTransaction()
	if err := tx.AssertRefSnapshotID(table.MainBranch); err != nil {
		return table.TableCommit{}, fmt.Errorf("pin main of %s: %w", name(tbl), err)
	}
	if err := rewrite.StageDeletes(ctx, tx, change, summary); err != nil {
		return table.TableCommit{}, fmt.Errorf("stage delete files of %s: %w", name(tbl), err)
	}
	staged, err := tx.TableCommit()
	if err != nil {
		return table.TableCommit{}, fmt.Errorf("stage commit of %s: %w", name(tbl), err)
	}

	return staged, nil
}

// undoDeletes removes everything a round wrote, after it became certain that its
// commit did not happen.
func (c *compaction) undoDeletes(ctx context.Context, tbl *table.Table, change rewrite.Deletes, rec *recorder) {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	if err := change.Remove(ctx, tbl); err != nil {
		c.m.Log.Warn().Err(err).Str("table", name(tbl)).Msg("uncommitted delete files are left behind")
		c.rep.Kept = append(c.rep.Kept, change.Created()...)
	}
	if err := rec.remove(ctx, tbl); err != nil {
		c.m.Log.Warn().Err(err).Str("table", name(tbl)).Msg("staged metadata files are left behind")
		c.rep.Kept = append(c.rep.Kept, rec.created()...)
	}
}
