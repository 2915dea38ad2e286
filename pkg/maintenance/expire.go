package maintenance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/iceberg-go/table"
)

// ExpireOptions say which snapshots of a table expire. Settings of a branch or
// tag win over them.
type ExpireOptions struct {
	OlderThan   time.Duration // snapshots older than this expire
	RetainLast  int           // snapshots of a branch that stay whatever their age; at least 1
	SnapshotIDs []int64       // exactly these expire, whatever the rules say
	// KeepFiles expires metadata only.
	KeepFiles bool
	// CleanExpiredMetadata also removes schemas and partition specs that
	// nothing uses any more.
	CleanExpiredMetadata bool
	// OverrideDeleteDisabled deletes files although the catalog says that
	// deleting is its own business.
	OverrideDeleteDisabled bool
	// Deletes bounds the deletes of the run. What is over the bound stays, with
	// the way to it, and the next call goes on; until that is gone no further
	// snapshot expires. Nil: no bound.
	Deletes *DeleteBudget
	DryRun  bool // plan only: no claim, no write
	// SweepBatch is how many files are looked at per pass of the clean-up;
	// 0: enough for nearly every table.
	SweepBatch int64
}

// Expire removes snapshots, and refs past their age, from a table's metadata
// with one commit under the table's claim, and then, after the claim was given
// back, deletes the files that only those snapshots could reach. look is the
// table as it was loaded without the claim: it only decides whether there is
// work at all.
//
// Effects, in order: claim, load, plan, commit, release, proof that no ref came
// up meanwhile, load, delete. A crash before the commit changes nothing;
// one after it leaves unreachable files, which the next call finds through the
// table's metadata log and deletes. When the outcome of the commit is not
// known, or a ref was lost with it, no file is deleted.
//
// Errors: ErrClaimHeld, ErrClaimLost, ErrConflict, ErrAmbiguous, ErrHalt,
// ErrRefused (gc.enabled is off, or a named snapshot is in use), ErrPartial
// (expired, but files were left), ErrStopped, or the failure of a part. The
// report is valid with an error too. A repeated call is safe.
func (m *Maintainer) Expire(ctx context.Context, look *table.Table, o ExpireOptions) (StepReport, error) {
	started := m.now()
	e := &expiry{m: m, o: o, ident: look.Identifier(), rep: StepReport{Step: StepExpire, Expire: &ExpireReport{}}}
	e.rep.SnapshotBefore, e.rep.SnapshotAfter = currentHead(look), currentHead(look)
	err := m.closeStep(ctx, &e.rep, started, e.run(ctx, look))

	return e.rep, err
}

// expiry is the state of one Expire call.
type expiry struct {
	m     *Maintainer
	o     ExpireOptions
	rep   StepReport
	ident table.Identifier
}

func (e *expiry) run(ctx context.Context, look *table.Table) error {
	if err := refuseCollection(look.Properties()); err != nil {
		return err
	}
	plan, err := e.plan(ctx, look)
	if err != nil {
		return err
	}
	e.describe(look, plan)
	left := e.leftBefore(ctx, look)
	if plan.empty() && left.empty() {
		e.rep.Status, e.rep.Reason = StatusNothing, "no snapshot is old enough to expire"

		return nil
	}
	if e.o.DryRun {
		return e.dryRun(ctx, look, plan, left)
	}
	if _, bounded := e.o.Deletes.bound(); bounded && !e.o.KeepFiles {
		if whole, err := e.finishFirst(ctx, look, left); err != nil || !whole || plan.empty() {
			return err
		}
		left = remains{}
	}
	done := left
	if !plan.empty() {
		expired, err := e.commit(ctx)
		if err != nil {
			return err
		}
		done = left.with(expired)
	}
	if done.empty() {
		e.rep.Status, e.rep.Reason = StatusNothing, "another writer has done the work meanwhile"

		return nil
	}

	return e.cleanUp(ctx, done)
}

// plan decides what expires. It reads manifest lists only to find unused
// metadata.
func (e *expiry) plan(ctx context.Context, tbl *table.Table) (expiryPlan, error) {
	plan, err := planExpiry(tbl.Metadata(), e.o, e.m.now())
	if err != nil {
		return expiryPlan{}, fmt.Errorf("plan expiry of %s: %w", name(tbl), err)
	}
	if !e.o.CleanExpiredMetadata {
		return plan, nil
	}
	fio, err := tbl.FS(ctx)
	if err != nil {
		return expiryPlan{}, fmt.Errorf("open file io of %s: %w", name(tbl), err)
	}
	kept := without(tbl.Metadata().Snapshots(), plan.ids())
	lists, err := readLists(ctx, fio, kept, false)
	if err != nil {
		return expiryPlan{}, fmt.Errorf("look for unused metadata of %s: %w", name(tbl), err)
	}
	plan.schemas, plan.specs = unusedMetadata(tbl.Metadata(), kept, lists.order)

	return plan, nil
}

func (e *expiry) describe(tbl *table.Table, plan expiryPlan) {
	rep := e.rep.Expire
	rep.Snapshots = make([]ExpiredSnapshot, 0, len(plan.snapshots))
	for _, s := range plan.snapshots {
		one := ExpiredSnapshot{ID: s.SnapshotID, Committed: time.UnixMilli(s.TimestampMs).UTC()}
		if s.Summary != nil {
			one.Operation = string(s.Summary.Operation)
		}
		rep.Snapshots = append(rep.Snapshots, one)
	}
	rep.Retained = len(tbl.Metadata().Snapshots()) - len(plan.snapshots)
	rep.Refs, rep.Schemas, rep.Specs = plan.refs, plan.schemas, plan.specs
}

func (e *expiry) dryRun(ctx context.Context, look *table.Table, plan expiryPlan, left remains) error {
	e.rep.Status = StatusPlanned
	s := left.with(remainsOf(look.Metadata(), plan))
	e.rep.Expire.Resumed = len(left.snapshots)
	e.rep.Reason = fmt.Sprintf("would expire %d of %d snapshots", len(plan.snapshots), len(look.Metadata().Snapshots()))
	if e.o.KeepFiles {
		e.rep.Expire.Files.Why = "the files are to be kept"

		return nil
	}
	after, err := afterExpiry(look, plan)
	if err != nil {
		return err
	}
	if err := e.sweep(ctx, after, s, false); err != nil {
		return fmt.Errorf("find what becomes unreachable in %s: %w", name(look), err)
	}
	e.rep.Reason += fmt.Sprintf(" and delete %d files", e.rep.Expire.Files.Planned)
	if limit, bounded := e.o.Deletes.bound(); bounded && e.rep.Expire.Files.Planned > limit {
		e.rep.Reason += fmt.Sprintf(", at most %d in a run (--max-deletes)", limit)
	}

	return nil
}

// commit expires under the claim. What it returns is gone from the table, and
// no ref was lost with it.
func (e *expiry) commit(ctx context.Context) (remains, error) {
	var base *table.Table // set by a commit
	var ch expiryChange
	work := func(ctx context.Context, claim Claim, rep *RoundReport) error {
		tbl, err := e.m.Catalog.LoadTable(ctx, e.ident)
		if err != nil {
			return fmt.Errorf("load %s under the claim: %w", identString(e.ident), err)
		}
		if err := refuseCollection(tbl.Properties()); err != nil {
			return err
		}
		plan, err := e.plan(ctx, tbl)
		if err != nil {
			return err
		}
		e.describe(tbl, plan)
		e.rep.SnapshotBefore, e.rep.SnapshotAfter = currentHead(tbl), currentHead(tbl)
		if plan.empty() {
			return nil
		}
		rep.Parent = currentHead(tbl)
		ch = expiryChange{plan}
		res, err := e.m.commit(ctx, claim, commitRequest{base: tbl, staged: expiryCommit(tbl, plan), change: ch})
		if err != nil {
			return err
		}
		rep.Found, rep.Committed, base = res.FoundBySearch, true, tbl

		return nil
	}
	if err := e.m.underClaim(ctx, e.ident, 1, work, e.rep.addRound); err != nil || base == nil {
		return remains{}, err
	}
	if err := e.prove(ctx, base, ch); err != nil {
		return remains{}, err
	}

	return remainsOf(base.Metadata(), ch.plan), nil
}

// prove asks the table after the commit whether a ref was lost with it.
func (e *expiry) prove(ctx context.Context, base *table.Table, ch expiryChange) error {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	after, err := e.m.Catalog.LoadTable(ctx, e.ident)
	if err == nil {
		err = ch.provenUnreferenced(ctx, base, after)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrConflict):
		return fmt.Errorf("expire %s: %w", name(base), err)
	default:
		e.rep.Reason = fmt.Sprintf("%d snapshots expired, but no file was deleted: %v", len(ch.plan.snapshots), err)

		return fmt.Errorf("%s: %w", e.rep.Reason, classed(ErrPartial, nil, err))
	}
}
