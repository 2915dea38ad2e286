package maintenance

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"
)

// StepOrphans names the step that removes unreferenced files.
const StepOrphans = "orphans"

// OrphanFloor is the age below which a file is not removed unless the operator
// takes the risk: it may belong to a write that has not been committed yet.
const OrphanFloor = 24 * time.Hour

// The share guard counts only when at least this many files look like orphans.
const shareGuardFrom = 100

// memoryShare is the part of the memory budget that suspects may take.
const memoryShare = 4

// OrphanOptions say what counts as an orphan and how it is removed.
type OrphanOptions struct {
	OlderThan time.Duration // least age by the store's clock; at least OrphanFloor, unless RiskInFlight
	MaxShare  float64       // stop when a larger share of the listed files looks like orphans; 0: 0.5
	// RiskInFlight accepts an age below OrphanFloor.
	RiskInFlight bool
	// Locations are folders of the table outside of its location that are
	// listed too, such as its write.data.path.
	Locations []string
	// AcceptLostRefs are branches and tags that an expiry took away by mistake
	// and whose files may go.
	AcceptLostRefs []string
	// OverrideDeleteDisabled deletes where the catalog says that files are its own to
	// delete.
	OverrideDeleteDisabled bool
	Memory                 int64         // budget in bytes; 0: no limit
	MaxHold                time.Duration // longest time one claim is held; 0: one claim for all
	MaxRounds              int           // most claims; 0: no limit
	Deletes                *DeleteBudget // nil: no bound
	DryRun                 bool          // plan only: no claim, no delete
}

// Orphans deletes the files below the table's location that no snapshot
// references. It makes no commit. look is the table as it was loaded without
// the claim. Effects, in order:
//
//  1. what the metadata names is collected, then the folders are listed: both
//     without the claim, nothing is deleted; a ref that an expiry took away
//     although it was not past its age ends the step (see lostRef);
//  2. the claim is taken; the table is loaded again and everything it has come
//     to name meanwhile is taken off the list; lost refs are looked for again;
//  3. the rest is deleted in batches, the claim being verified before each,
//     until the list is empty or the claim was held for MaxHold; then the claim
//     is released and taken anew.
//
// A crash anywhere leaves orphans, never a missing file; a repeated call
// continues. Errors: ErrRefused (nothing was deleted), ErrPartial (some
// deletes failed, the report counts them), ErrClaimHeld, ErrClaimLost,
// ErrStopped, or the failure of a part. The report is valid with an error too.
func (m *Maintainer) Orphans(ctx context.Context, look *table.Table, o OrphanOptions) (StepReport, error) {
	started := m.now()
	s := &orphanSweep{m: m, o: o, ident: look.Identifier(), rep: StepReport{Step: StepOrphans, Orphans: &OrphanReport{}}}
	err := s.run(ctx, look)
	if err != nil && ctx.Err() != nil && !ends(err) {
		err = classed(ErrStopped, context.Cause(ctx), err)
	}
	if err != nil {
		s.rep.Status = statusOf(err)
		s.rep.Reason = err.Error()
	}
	s.rep.Duration = Seconds(m.now().Sub(started))

	return s.rep, err
}

// orphanSweep is the state of one Orphans call.
type orphanSweep struct {
	m       *Maintainer
	o       OrphanOptions
	ident   table.Identifier
	rep     StepReport
	refs    *references
	history *history
	orphans []suspect // not yet deleted
	planned int
}

func (s *orphanSweep) run(ctx context.Context, tbl *table.Table) error {
	s.rep.SnapshotBefore, s.rep.SnapshotAfter = currentHead(tbl), currentHead(tbl)
	if err := s.allowed(ctx, tbl); err != nil {
		return err
	}
	if err := s.plan(ctx, tbl); err != nil {
		return err
	}
	switch {
	case len(s.orphans) == 0:
		s.rep.Status = StatusNothing
		s.rep.Reason = s.withUnlisted(fmt.Sprintf("no orphans among %d files", s.rep.Orphans.Listed))

		return nil
	case s.o.DryRun:
		s.rep.Status = StatusPlanned
		s.rep.Reason = fmt.Sprintf("would delete %d orphans of %d files", s.planned, s.rep.Orphans.Listed)
		if limit, bounded := s.o.Deletes.bound(); bounded && s.planned > limit {
			s.rep.Reason += fmt.Sprintf(", at most %d in a run (--max-deletes)", limit)
		}
		s.rep.Reason = s.withUnlisted(s.rep.Reason)
		s.rep.Orphans.describe(s.orphans)

		return nil
	}

	return s.rounds(ctx)
}

// allowed refuses tables and options whose files must not be removed.
func (s *orphanSweep) allowed(ctx context.Context, tbl *table.Table) error {
	if v, set := tbl.Properties()[table.GCEnabledKey]; set {
		if on, err := strconv.ParseBool(strings.ToLower(v)); err != nil || !on {
			return fmt.Errorf("the table's property gc.enabled is %s: its files may belong to other tables too: %w", v, ErrRefused)
		}
	}
	if s.o.OlderThan < OrphanFloor && !s.o.RiskInFlight {
		return fmt.Errorf("orphans younger than %s are not removed, because they may belong to a write that is not yet committed "+
			"(asked for: %s): %w", OrphanFloor, s.o.OlderThan, ErrRefused)
	}
	files, err := openLister(ctx, tbl)
	if err != nil {
		return err
	}
	if files.DeletesDisabled() && !s.o.OverrideDeleteDisabled {
		return fmt.Errorf("the catalog says s3.delete-enabled=false: files are its own to delete "+
			"(storage.override_delete_disabled says otherwise): %w", ErrRefused)
	}

	return nil
}

// plan finds the orphans. It only reads.
func (s *orphanSweep) plan(ctx context.Context, tbl *table.Table) error {
	roots, unlisted, err := orphanRoots(tbl, s.o.Locations)
	if err != nil {
		return err
	}
	rep := s.rep.Orphans
	rep.Roots = roots
	places := make([]place, 0, len(roots))
	for _, r := range roots {
		places = append(places, folderOf(r))
	}
	s.refs = newReferences(places)
	if err := s.refs.load(ctx, tbl); err != nil {
		return fmt.Errorf("references of %s: %w", name(tbl), err)
	}
	if err := s.refs.vouchFor(tbl, s.o.Locations); err != nil {
		return err
	}
	rep.Unlisted = s.refs.unlisted(unlisted)
	rep.References = len(s.refs.files)
	files, err := openLister(ctx, tbl)
	if err != nil {
		return err
	}
	sv := &survey{
		roots: roots, refs: s.refs, age: s.o.OlderThan, memory: s.o.Memory / memoryShare,
		folders: partitionFolders(tbl.Metadata()), rep: rep,
	}
	s.m.Log.Info().Str("table", name(tbl)).Int("references", rep.References).Strs("roots", roots).Msg("listing files")
	if err := sv.list(ctx, files); err != nil {
		return err
	}
	skip, err := sv.otherTables(ctx, files, tbl)
	if err != nil {
		return err
	}
	if s.orphans, err = sv.judge(skip); err != nil {
		return err
	}
	s.planned = len(s.orphans)
	rep.count(s.orphans)
	if err := s.guard(sv); err != nil || s.planned == 0 {
		return err
	}
	s.history = &history{files: files, now: s.m.now(), read: map[string]*refState{}}

	return s.history.refuseLostRefs(ctx, tbl, s.o.AcceptLostRefs)
}

// guard stops when so many files look like orphans that something else is
// wrong: a wrong folder, a catalog that forgot snapshots.
func (s *orphanSweep) guard(sv *survey) error {
	share := s.o.MaxShare
	if share == 0 {
		share = 0.5
	}
	orphans := make([]int, len(sv.roots))
	for _, o := range s.orphans {
		for i, root := range sv.roots {
			if strings.HasPrefix(o.path, root) {
				orphans[i]++

				break
			}
		}
	}
	for i, n := range orphans {
		if n >= shareGuardFrom && float64(n) > share*float64(sv.perRoot[i]) {
			return fmt.Errorf("%d of %d files in %s look like orphans, more than the share of %g that is allowed: "+
				"look at them with a dry run, and raise the share if they are: %w", n, sv.perRoot[i], sv.roots[i], share, ErrRefused)
		}
	}

	return nil
}

func (s *orphanSweep) withUnlisted(reason string) string {
	if u := s.rep.Orphans.Unlisted; len(u) > 0 {
		reason += "; not listed, because not asked for: " + shorten(u)
	}
	for _, t := range s.rep.Orphans.Skipped {
		reason += "; skipped " + t.What + ": " + t.Reason
	}

	return reason
}
