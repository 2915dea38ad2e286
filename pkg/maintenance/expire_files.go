package maintenance

import (
	"context"
	"fmt"
	"slices"

	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

// leftBefore finds what an earlier expiry left, where files are deleted at all.
// Those files are no reason to fail this run.
func (e *expiry) leftBefore(ctx context.Context, look *table.Table) remains {
	if e.o.KeepFiles {
		return remains{}
	}
	fio, err := look.FS(ctx)
	if err == nil && e.deletesForbidden(fio) {
		return remains{}
	}
	left, err := e.m.unfinished(ctx, look)
	if err != nil {
		e.m.Log.Warn().Err(err).Str("table", name(look)).Msg("files that an earlier expiry may have left stay where they are")
	}

	return left
}

// finishFirst deletes what an earlier expiry left before more expires, and says
// whether all of it is gone and deletes are left to ask for. The way to those
// files leads through the state before the last expiry: one more would cut it off.
func (e *expiry) finishFirst(ctx context.Context, look *table.Table, left remains) (whole bool, err error) {
	limit, _ := e.o.Deletes.bound()
	if e.o.Deletes.spent() {
		e.describe(look, expiryPlan{})
		e.rep.Status, e.rep.Reason = StatusLeft, fmt.Sprintf("the deletes of the run are used up (--max-deletes %d)", limit)

		return false, nil
	}
	if left.empty() {
		return true, nil
	}
	e.describe(look, expiryPlan{})
	if err := e.cleanUp(ctx, left); err != nil {
		return false, err
	}

	return e.rep.Expire.Files.Left == 0 && !e.o.Deletes.spent(), nil
}

func (e *expiry) deletesForbidden(fio icebergio.IO) bool {
	d, ok := fio.(interface{ DeletesDisabled() bool })

	return ok && d.DeletesDisabled() && !e.o.OverrideDeleteDisabled
}

// cleanUp deletes what gone leaves behind.
func (e *expiry) cleanUp(ctx context.Context, gone remains) error {
	e.rep.Status = StatusDone
	e.rep.Reason = fmt.Sprintf("%d snapshots expired", len(e.rep.Expire.Snapshots))
	e.rep.Expire.Resumed += gone.resumed
	if e.o.KeepFiles {
		e.rep.Expire.Files.Why = "the files are to be kept"

		return nil
	}
	now, err := e.m.Catalog.LoadTable(ctx, e.ident)
	if err == nil {
		err = e.sweep(ctx, now, gone, true)
	}
	files := e.rep.Expire.Files
	if err != nil {
		e.rep.Reason += fmt.Sprintf(", %d of %d unreachable files deleted: %v; the next expiry goes on", files.Deleted, files.Planned, err)

		return fmt.Errorf("%s: %w", e.rep.Reason, classed(ErrPartial, nil, err))
	}
	e.rep.Reason += fmt.Sprintf(", %d unreachable files deleted", files.Deleted)
	if files.Why != "" {
		e.rep.Reason += fmt.Sprintf(", %d left: %s", files.Left, files.Why)
		e.m.Log.Warn().Str("table", name(now)).Int("files", files.Left).Str("reason", files.Why).Msg("unreachable files are left")
	}

	return nil
}

// sweep runs the clean-up on the table as it is now.
func (e *expiry) sweep(ctx context.Context, now *table.Table, gone remains, really bool) error {
	kept, err := e.keptSnapshots(ctx, now)
	if err != nil {
		return err
	}
	for _, s := range kept {
		if slices.Contains(gone.ids(), s.SnapshotID) {
			return fmt.Errorf("snapshot %d is in the table again, nothing is deleted", s.SnapshotID)
		}
	}
	if gone.table != now.Metadata().TableUUID() {
		return fmt.Errorf("%s is another table now, nothing is deleted", name(now))
	}
	fio, err := now.FS(ctx)
	if err != nil {
		return fmt.Errorf("open file io of %s: %w", name(now), err)
	}
	files := &e.rep.Expire.Files
	if e.deletesForbidden(fio) {
		files.Why = "the catalog sends s3.delete-enabled=false: deleting files is its own business"
		really = false
	}
	s := sweep{
		m: e.m, fio: fio, now: now, kept: kept, gone: gone.snapshots, stats: gone.stats, last: lostParents(now.Metadata()),
		batch: e.o.SweepBatch, budget: e.o.Deletes, really: really, files: files,
	}
	err = s.run(ctx)
	if s.capped {
		limit, _ := e.o.Deletes.bound()
		files.Why = fmt.Sprintf("--max-deletes %d, the next expiry goes on", limit)
		if !s.found() {
			files.Why = fmt.Sprintf("--max-deletes %d, and no later expiry finds them: the removal of orphans deletes them", limit)
		}
	}
	if !e.o.DryRun {
		files.Paths = nil
	}

	return err
}

// keptSnapshots are the snapshots of the table by the catalog's answer and by
// the metadata file it points to: a catalog that leaves snapshots out of its
// answer must not make their files look unreachable.
func (e *expiry) keptSnapshots(ctx context.Context, now *table.Table) ([]table.Snapshot, error) {
	kept := slices.Clone(now.Metadata().Snapshots())
	if e.o.DryRun {
		return kept, nil // The state after the expiry has no file yet.
	}
	stored, err := stateAt(ctx, now, now.MetadataLocation())
	if err != nil {
		return nil, err
	}
	for _, s := range stored.Snapshots() {
		if now.Metadata().SnapshotByID(s.SnapshotID) == nil {
			kept = append(kept, s)
		}
	}

	return kept, nil
}
