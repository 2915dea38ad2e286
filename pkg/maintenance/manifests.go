package maintenance

import (
	"context"
	"fmt"

	"github.com/apache/iceberg-go/table"
)

// ManifestsOptions say how the manifests of a table are rewritten.
type ManifestsOptions struct {
	TargetSize int64 // bytes of a rewritten manifest; 0: DefaultManifestSize
	Memory     int64 // bytes the entries of one batch may take; 0: 1 GiB
	DryRun     bool  // plan only: no claim, no write
	When       int   // manifests below which there is nothing to do; 0: always
}

// DefaultManifestSize is Iceberg's own default for manifests, in bytes.
const DefaultManifestSize = 8 << 20

// ManifestsReport is what a rewrite of manifests did, or in a dry run would
// do.
type ManifestsReport struct {
	Before    int             `json:"manifests_before"`
	After     int             `json:"manifests_after"`
	Rewritten int             `json:"manifests_rewritten"`
	Created   int             `json:"manifests_created"`
	Entries   int64           `json:"entries"` // live entries moved
	Groups    []ManifestGroup `json:"groups,omitempty"`
}

// ManifestGroup is a set of manifests of one partition spec and one content
// that are merged.
type ManifestGroup struct {
	SpecID    int      `json:"spec_id"`
	Content   string   `json:"content"` // data or deletes
	Manifests []string `json:"manifests"`
	Bytes     int64    `json:"bytes"`
	Expected  int      `json:"expected_manifests"`
}

// RewriteManifests merges the small manifests of a table's current snapshot,
// those of data files and those of delete files alike, each partition spec by
// itself and with the files of one partition next to each other. It makes one
// commit under the table's claim and touches no data file. look is the table
// as it was loaded without the claim: it only decides whether there is work.
//
// Before the commit every written manifest is read again and compared with
// what went in, entry by entry. Errors: ErrClaimHeld, ErrClaimLost,
// ErrConflict, ErrAmbiguous, ErrHalt (the comparison failed), ErrRefused,
// ErrStopped, or the failure of a part. The report is valid with an error too.
// A repeated call is safe, and finds nothing to do after a good one.
func (m *Maintainer) RewriteManifests(ctx context.Context, look *table.Table, o ManifestsOptions) (StepReport, error) {
	started := m.now()
	if o.TargetSize <= 0 {
		o.TargetSize = DefaultManifestSize
	}
	if o.Memory <= 0 {
		o.Memory = 1 << 30
	}
	s := &manifestStep{m: m, o: o, ident: look.Identifier(), rep: StepReport{Step: StepManifests, Manifests: &ManifestsReport{}}}
	s.rep.SnapshotBefore, s.rep.SnapshotAfter = currentHead(look), currentHead(look)
	err := m.closeStep(ctx, &s.rep, started, s.run(ctx, look))

	return s.rep, err
}

// manifestStep is the state of one RewriteManifests call.
type manifestStep struct {
	m     *Maintainer
	o     ManifestsOptions
	rep   StepReport
	ident table.Identifier
}

func (s *manifestStep) run(ctx context.Context, look *table.Table) error {
	plan, err := planManifests(ctx, look, s.o.TargetSize)
	if err != nil {
		return err
	}
	s.describe(plan)
	switch {
	case len(plan.groups) == 0:
		s.rep.Status, s.rep.Reason = StatusNothing, plan.reason

		return nil
	case plan.total < s.o.When:
		s.rep.Status = StatusNothing
		s.rep.Reason = fmt.Sprintf("the policy asks for it from %d manifests on, there are %d", s.o.When, plan.total)

		return nil
	}
	if err := inPlace(look); err != nil {
		return err
	}
	if s.o.DryRun {
		s.rep.Status = StatusPlanned
		s.rep.Reason = fmt.Sprintf("would merge %d manifests into about %d", s.rep.Manifests.Rewritten, s.rep.Manifests.Created)

		return nil
	}
	if err := s.m.underClaim(ctx, s.ident, 1, s.attempt, s.rep.addRound); err != nil {
		return err
	}
	if s.rep.Status == "" {
		s.rep.Status = StatusDone
		s.rep.Reason = fmt.Sprintf("%d manifests merged into %d", s.rep.Manifests.Rewritten, s.rep.Manifests.Created)
	}

	return nil
}

func (s *manifestStep) describe(p manifestPlan) {
	rep := &ManifestsReport{Before: p.total, After: p.total}
	for _, g := range p.groups {
		one := ManifestGroup{SpecID: g.spec, Content: g.content.String(), Bytes: g.bytes, Expected: g.expected}
		one.Manifests = manifestPaths(g.manifests)
		rep.Groups = append(rep.Groups, one)
		rep.Rewritten += len(g.manifests)
		rep.Created += g.expected
	}
	rep.After += rep.Created - rep.Rewritten
	s.rep.Manifests = rep
}

// attempt loads, plans, writes, compares and commits, all under the claim.
// What it wrote and did not commit is removed, unless the commit may have
// happened.
func (s *manifestStep) attempt(ctx context.Context, claim Claim, rep *RoundReport) error {
	tbl, err := s.m.Catalog.LoadTable(ctx, s.ident)
	if err != nil {
		return fmt.Errorf("load %s under the claim: %w", identString(s.ident), err)
	}
	plan, err := planManifests(ctx, tbl, s.o.TargetSize)
	if err != nil {
		return err
	}
	s.describe(plan)
	s.rep.SnapshotBefore, s.rep.SnapshotAfter = currentHead(tbl), currentHead(tbl)
	if len(plan.groups) == 0 {
		s.rep.Status, s.rep.Reason = StatusNothing, plan.reason

		return nil
	}
	rep.Parent = currentHead(tbl)
	rec := &recorder{}
	w, err := newManifestRewrite(ctx, s.m, rec.bind(tbl), s.o)
	if err == nil {
		err = w.rewrite(ctx, plan)
	}
	if err == nil {
		err = w.prove(ctx)
	}
	if err != nil {
		s.undo(ctx, tbl, rec)

		return fmt.Errorf("rewrite manifests of %s: %w", name(tbl), err)
	}
	staged, err := w.stage(plan)
	if err != nil {
		s.undo(ctx, tbl, rec)

		return fmt.Errorf("stage manifests of %s: %w", name(tbl), err)
	}
	res, err := s.m.commit(ctx, claim, commitRequest{base: tbl, staged: staged, change: snapshotChange{round: roundManifests}})
	switch {
	case err == nil:
		s.done(res, w, rep)
	case res.DidNotHappen:
		s.undo(ctx, tbl, rec)
	default:
		s.rep.Kept = append(s.rep.Kept, rec.created()...)
	}

	return err
}

func (s *manifestStep) done(res commitResult, w *manifestRewrite, rep *RoundReport) {
	rep.SnapshotID, rep.Found, rep.Committed = &res.SnapshotID, res.FoundBySearch, true
	s.rep.SnapshotAfter = &res.SnapshotID
	s.rep.Manifests.Created = len(w.written)
	s.rep.Manifests.Entries = w.entries
	s.rep.Manifests.After = s.rep.Manifests.Before - s.rep.Manifests.Rewritten + len(w.written)
}

// undo removes what was written, after it became certain that the commit did
// not happen.
func (s *manifestStep) undo(ctx context.Context, tbl *table.Table, rec *recorder) {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	if err := rec.remove(ctx, tbl); err != nil {
		s.m.Log.Warn().Err(err).Str("table", name(tbl)).Msg("staged metadata files are left behind")
		s.rep.Kept = append(s.rep.Kept, rec.created()...)
	}
}

// roundManifests is the SummaryRound of the step's snapshot. Rounds of a
// compaction are numbers, so that the two are told apart in one run.
const roundManifests = "manifests"
