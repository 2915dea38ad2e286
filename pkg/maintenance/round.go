package maintenance

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"compactor/pkg/rewrite"
)

// claimed is work that needs the claim. Its context dies with the claim.
type claimed func(context.Context, Claim, *RoundReport) error

// underClaim takes the claim of a table, works, and gives the claim back
// whatever happened, a panic included. closed gets the report of the round
// after the release.
func (m *Maintainer) underClaim(ctx context.Context, ident table.Identifier, n int,
	work claimed, closed func(RoundReport),
) error {
	claim, err := m.Claimer.Acquire(ctx, ident)
	if err != nil {
		return fmt.Errorf("claim %s: %w", identString(ident), err)
	}
	rep := RoundReport{Round: n, ClaimWait: Seconds(claim.Waited())}
	held := m.now()
	defer func() {
		if rerr := claim.Release(ctx); rerr != nil {
			m.Log.Warn().Err(rerr).Str("table", identString(ident)).Msg("claim release")
		}
		rep.ClaimHold = Seconds(m.now().Sub(held))
		closed(rep)
	}()
	err = work(claim.Context(), claim, &rep) //nolint:contextcheck // The claim's context is a child of ctx.

	return lostOr(ctx, claim, err)
}

// roundAttempt is the work of one round: load, prepare, prove and commit once.
type roundAttempt func(ctx context.Context, claim Claim, n int, rep *RoundReport) error

// round is one claim and at most one commit. It returns after the claim was
// released, whatever happened.
func (c *compaction) round(ctx context.Context, n int, attempt roundAttempt) error {
	work := func(ctx context.Context, claim Claim, rep *RoundReport) error {
		for tries := 0; ; tries++ {
			err := attempt(ctx, claim, n, rep)
			if err == nil || c.o.OnConflict != ConflictReplans || !errors.Is(err, ErrConflict) || tries >= maxReplans {
				return err
			}
			c.m.Log.Warn().Err(err).Str("table", identString(c.ident)).Msg("conflict, planning the round anew")
		}
	}

	return c.m.underClaim(ctx, c.ident, n, work, c.close)
}

// lostOr calls an error what it is when the work died with its claim.
func lostOr(ctx context.Context, claim Claim, err error) error {
	if err == nil || ctx.Err() != nil || claim.Context().Err() == nil || ends(err) {
		return err
	}

	return classed(ErrClaimLost, context.Cause(claim.Context()), err) //nolint:contextcheck // The cause of the claim's own end.
}

// close adds a finished round to the step's report.
func (c *compaction) close(r RoundReport) {
	c.rep.addRound(r)
	if r.SnapshotID != nil {
		c.rep.Rewritten.add(r.Change)
		c.rep.SnapshotAfter = r.SnapshotID
	}
}

// addRound counts what a round had of the claim.
func (s *StepReport) addRound(r RoundReport) {
	s.Rounds = append(s.Rounds, r)
	s.ClaimWait += r.ClaimWait
	s.ClaimHold += r.ClaimHold
	s.LongestHold = max(s.LongestHold, r.ClaimHold)
}

// attempt loads, plans, rewrites, proves and commits once, all under the
// claim. What it wrote and did not commit is removed, unless the commit may
// have happened.
func (c *compaction) attempt(ctx context.Context, claim Claim, n int, rep *RoundReport) error {
	started := c.m.now()
	tbl, groups, err := c.prepare(ctx, n)
	if err != nil || len(groups) == 0 {
		return err
	}
	rep.Parent = currentHead(tbl)
	busy := c.m.now()
	results, err := c.m.Rewriter.Rewrite(ctx, tbl, groups)
	if err != nil {
		return fmt.Errorf("rewrite %d groups of %s: %w", len(groups), name(tbl), err)
	}
	rewriting := c.m.now().Sub(busy)
	good := c.sortOut(results)
	if err := integrity(results); err != nil {
		c.discard(ctx, tbl, good)

		return err
	}
	if len(good) == 0 {
		c.plan.Drop(groups)

		return nil
	}
	proof, err := c.prove(ctx, tbl, good)
	if err != nil {
		c.discard(ctx, tbl, good)

		return err
	}
	res, err := c.commitRound(claim, n, tbl, good, proof) //nolint:contextcheck // It works under the claim's context, which ctx is.
	if err != nil {
		return err
	}
	rep.Groups, rep.Change, rep.SnapshotID, rep.Found = len(good), changeOf(good), &res.SnapshotID, res.FoundBySearch
	rep.Committed = true
	c.rep.addEngines(good)
	c.rep.replaceSmall(c.plan, good)
	c.rep.DeletesRemoved += len(proof.DeadDeletes)
	c.plan.Drop(groups)
	c.pace.learn(rep.Change.BytesIn, rewriting, c.m.now().Sub(started))
	c.m.Log.Info().Str("table", name(tbl)).Int("round", n).Int64("snapshot_id", res.SnapshotID).
		Int("files_in", rep.Change.FilesIn).Int("files_out", rep.Change.FilesOut).Msg("round committed")

	return nil
}

// prepare loads the table under the claim (the CAS parent) and picks the
// groups of this round. The first round plans on the head it finds, which may
// be newer than the one that was looked at; later rounds keep their list and
// check it against the new head.
func (c *compaction) prepare(ctx context.Context, n int) (*table.Table, []rewrite.Group, error) {
	tbl, err := c.m.Catalog.LoadTable(ctx, c.ident)
	if err != nil {
		return nil, nil, fmt.Errorf("load %s under the claim: %w", identString(c.ident), err)
	}
	plan, err := c.planRound(ctx, tbl, n)
	if err != nil {
		return nil, nil, fmt.Errorf("plan %s under the claim: %w", name(tbl), err)
	}
	c.plan = plan
	if n == 1 {
		_, tooLarge := c.deleteWork(tbl, c.plan)
		c.describePlan(c.plan, tooLarge)
		c.rep.SnapshotBefore, c.rep.SnapshotAfter = currentHead(tbl), currentHead(tbl)
	}
	take := c.pace.take(c.plan.Groups)

	return tbl, c.plan.Groups[:take], nil
}

func (c *compaction) planRound(ctx context.Context, tbl *table.Table, n int) (*rewrite.Plan, error) {
	if n == 1 {
		return c.plan.Replan(ctx, tbl) //nolint:wrapcheck // The caller says what was planned.
	}

	return c.plan.Refresh(ctx, tbl) //nolint:wrapcheck // The caller says what was planned.
}

// integrity returns the failure of a group whose rows did not come out as they
// went in. It halts the whole round: no other group is committed beside it.
func integrity(results []rewrite.Result) error {
	for _, r := range results {
		if errors.Is(r.Err, rewrite.ErrIntegrity) {
			return fmt.Errorf("group %s: %w", r.Group.ID, r.Err)
		}
	}

	return nil
}

// sortOut separates the groups that failed or were refused and names them in
// the report.
func (c *compaction) sortOut(results []rewrite.Result) []rewrite.Result {
	good := make([]rewrite.Result, 0, len(results))
	for _, r := range results {
		c.rep.Refused = append(c.rep.Refused, refusals(r.Refused)...)
		c.m.warnRefused(c.ident, r)
		if r.Err == nil {
			good = append(good, r)

			continue
		}
		if len(r.Refused) > 0 && errors.Is(r.Err, rewrite.ErrRefused) { // nothing is left of the group
			continue
		}
		refusal := Refusal{What: "group " + r.Group.ID, Reason: r.Err.Error(), Files: len(r.Group.Files), Bytes: r.Group.Bytes}
		log := c.m.Log.Error()
		if errors.Is(r.Err, rewrite.ErrRefused) {
			c.rep.Refused = append(c.rep.Refused, refusal)
			log = c.m.Log.Warn()
		} else {
			c.rep.Failed = append(c.rep.Failed, refusal)
		}
		log.Err(r.Err).Str("table", identString(c.ident)).Str("group", r.Group.ID).Msg("group left as it is")
	}

	return good
}

// warnRefused logs the files that were left out of a group.
func (m *Maintainer) warnRefused(ident table.Identifier, r rewrite.Result) {
	for _, one := range r.Refused {
		m.Log.Warn().Str("table", identString(ident)).Str("group", r.Group.ID).Str("what", one.What).Str("reason", one.Reason).
			Int("files", one.Files).Msg("files left as they are")
	}
}

func (c *compaction) prove(ctx context.Context, tbl *table.Table, good []rewrite.Result) (rewrite.Proof, error) {
	proof, err := c.m.Rewriter.Prove(ctx, tbl, c.plan, good)
	if err != nil {
		return rewrite.Proof{}, fmt.Errorf("prove rewrite of %s: %w", name(tbl), err)
	}
	if !c.o.Verify {
		return proof, nil
	}
	if err := c.m.Rewriter.Verify(ctx, tbl, good); err != nil {
		return rewrite.Proof{}, fmt.Errorf("verify rewrite of %s: %w", name(tbl), err)
	}

	return proof, nil
}

// commitRound stages the snapshot, sends it through the guarded commit, and
// removes what is certainly not referenced when that failed.
func (c *compaction) commitRound(claim Claim, n int, tbl *table.Table, good []rewrite.Result,
	proof rewrite.Proof,
) (commitResult, error) {
	rec := &recorder{}
	round := strconv.Itoa(n)
	staged, err := stage(claim.Context(), rec.bind(tbl), good, proof, c.m.summary(round))
	if err != nil {
		c.undo(claim.Context(), tbl, good, rec)

		return commitResult{}, err
	}
	outputs := outputPaths(good)
	req := commitRequest{base: tbl, staged: staged, change: snapshotChange{round: round, outputs: outputs}}
	res, err := c.m.commit(claim.Context(), claim, req)
	switch {
	case err == nil:
		return res, nil
	case res.DidNotHappen:
		c.undo(claim.Context(), tbl, good, rec)
	default:
		c.rep.Kept = append(append(c.rep.Kept, outputs...), rec.created()...)
	}

	return res, err
}

// stage builds the snapshot of a round on the loaded table: its manifests and
// manifest list are written, the catalog is not asked.
func stage(ctx context.Context, tbl *table.Table, good []rewrite.Result, proof rewrite.Proof,
	summary iceberg.Properties,
) (table.TableCommit, error) {
	tx := tbl.NewTransaction()
	if err := tx.AssertRefSnapshotID(table.MainBranch); err != nil {
		return table.TableCommit{}, fmt.Errorf("pin main of %s: %w", name(tbl), err)
	}
	if err := rewrite.Stage(ctx, tx, good, proof, summary); err != nil {
		return table.TableCommit{}, fmt.Errorf("stage rewrite of %s: %w", name(tbl), err)
	}
	staged, err := tx.TableCommit()
	if err != nil {
		return table.TableCommit{}, fmt.Errorf("stage commit of %s: %w", name(tbl), err)
	}

	return staged, nil
}

// discard removes the data files of a rewrite that will not be committed.
func (c *compaction) discard(ctx context.Context, tbl *table.Table, results []rewrite.Result) {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	if _, err := c.m.Rewriter.RemoveOutputs(ctx, tbl, results); err != nil {
		c.m.Log.Warn().Err(err).Str("table", name(tbl)).Msg("uncommitted files are left behind")
		c.rep.Kept = append(c.rep.Kept, outputPaths(results)...)
	}
}

// undo removes everything a round wrote, after it became certain that its
// commit did not happen.
func (c *compaction) undo(ctx context.Context, tbl *table.Table, results []rewrite.Result, rec *recorder) {
	c.discard(ctx, tbl, results)
	ctx, cancel := afterwards(ctx)
	defer cancel()
	if err := rec.remove(ctx, tbl); err != nil {
		c.m.Log.Warn().Err(err).Str("table", name(tbl)).Msg("staged metadata files are left behind")
		c.rep.Kept = append(c.rep.Kept, rec.created()...)
	}
}

func outputPaths(results []rewrite.Result) []string {
	var paths []string
	for _, r := range results {
		for _, f := range r.Outputs {
			paths = append(paths, f.FilePath())
		}
	}

	return paths
}
