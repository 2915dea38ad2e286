package maintenance

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/iceberg-go/table"
)

// verdict is what one look at the table says about a commit.
type verdict int

const (
	stillOpen    verdict = iota // the parent is still the head: the request may land late
	happened                    // the table shows our change
	didNotHappen                // main moved past the parent and the table shows nothing of our change
)

// resolve finds out what became of a request whose answer was unclear. It
// reloads the table until the table gives a verdict or the time is up. Reads
// go on after cancellation: files may be removed only after a verdict.
//
// conflict says that the catalog answered with a conflict. That is no verdict
// by itself: a proxy that repeats a request turns an accepted commit into one.
func (m *Maintainer) resolve(ctx context.Context, req commitRequest, cause error, conflict bool) (commitResult, error) {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.resolveFor())
	defer cancel()
	m.Log.Warn().Err(cause).Str("table", name(req.base)).Msg("commit answer is unclear, looking at the table")
	var lastErr error
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 4*time.Second) {
		v, res, err := m.look(bound, req)
		lastErr = err
		switch {
		case err == nil && v == happened:
			return res, nil
		case err == nil && v == didNotHappen:
			return res, fmt.Errorf("commit %s on snapshot %s: main moved to %s: %w",
				name(req.base), headText(req.base), res.ForeignSummary, classed(ErrConflict, nil, cause))
		case err == nil && conflict && wait > time.Second:
			// A conflict with an unmoved head is somebody else's "no"; it is
			// looked at a few times, not until the time is up.
			return res, fmt.Errorf("commit %s: the catalog answered with a conflict, but main is still %s; "+
				"%s: %w", name(req.base), headText(req.base), req.change.leftovers(), classed(ErrConflict, nil, cause))
		}
		if !pause(bound, wait) {
			return commitResult{}, fmt.Errorf("commit %s: %w; %s: %w",
				name(req.base), ErrAmbiguous, req.change.leftovers(), classed(cause, nil, lastErr))
		}
	}
}

// look loads the table once and lets the change judge.
func (m *Maintainer) look(ctx context.Context, req commitRequest) (verdict, commitResult, error) {
	tbl, err := m.Catalog.LoadTable(ctx, req.base.Identifier())
	if err != nil {
		return stillOpen, commitResult{}, fmt.Errorf("reload %s: %w", name(req.base), err)
	}

	return req.change.judge(ctx, m, req.base, tbl)
}

// snapshotChange puts one new snapshot on main. It is what compact and
// manifests send.
type snapshotChange struct {
	round   string   // SummaryRound of the snapshot
	outputs []string // files that only this snapshot can name
}

func (snapshotChange) permits(action, ref string) bool {
	return action == table.UpdateAddSnapshot || action == table.UpdateSetSnapshotRef && ref == table.MainBranch
}

// ready has nothing to add: the requirement on main is all that a new snapshot
// depends on.
func (snapshotChange) ready(context.Context, *Maintainer, *table.Table) error { return nil }

func (snapshotChange) leftovers() string { return "the files of this round are kept" }

func (c snapshotChange) judge(ctx context.Context, m *Maintainer, base, now *table.Table) (verdict, commitResult, error) {
	fresh := newSnapshots(base, now)
	for _, s := range fresh {
		if m.isOurs(s, c.round) {
			return happened, commitResult{SnapshotID: s.SnapshotID, MetadataPath: now.MetadataLocation(), FoundBySearch: true}, nil
		}
	}
	named, err := m.namesOutput(ctx, now, fresh, c.outputs)
	if err != nil {
		return stillOpen, commitResult{}, err
	}
	if named != 0 {
		return happened, commitResult{SnapshotID: named, MetadataPath: now.MetadataLocation(), FoundBySearch: true}, nil
	}

	return movedOn(base, now)
}

// movedOn is the verdict on a request of which the table shows nothing: it can
// no longer land once the head that it asserts is not the head any more.
func movedOn(base, now *table.Table) (verdict, commitResult, error) {
	if sameHead(base, now) {
		return stillOpen, commitResult{}, nil
	}
	res := commitResult{DidNotHappen: true, Foreign: now.CurrentSnapshot()}
	res.ForeignSummary = describe(res.Foreign)

	return didNotHappen, res, nil
}

func (m *Maintainer) isOurs(s table.Snapshot, round string) bool {
	return s.Summary != nil &&
		s.Summary.Properties[SummaryRunID] == m.RunID && s.Summary.Properties[SummaryRound] == round
}

// newSnapshots are those of now that the loaded base did not have. Only they
// can name a file that this round wrote.
func newSnapshots(base, now *table.Table) []table.Snapshot {
	var fresh []table.Snapshot
	for _, s := range now.Metadata().Snapshots() {
		if base.Metadata().SnapshotByID(s.SnapshotID) == nil {
			fresh = append(fresh, s)
		}
	}

	return fresh
}

// namesOutput returns the id of a snapshot that has a manifest naming one of
// outputs, or 0.
func (m *Maintainer) namesOutput(ctx context.Context, tbl *table.Table, snaps []table.Snapshot, outputs []string) (int64, error) {
	if len(snaps) == 0 || len(outputs) == 0 {
		return 0, nil
	}
	ours := make(map[string]struct{}, len(outputs))
	for _, p := range outputs {
		ours[p] = struct{}{}
	}
	fio, err := tbl.FS(ctx)
	if err != nil {
		return 0, fmt.Errorf("open file io of %s: %w", name(tbl), err)
	}
	seen := map[string]struct{}{}
	for _, s := range snaps {
		manifests, err := s.Manifests(fio)
		if err != nil {
			return 0, fmt.Errorf("read manifest list of snapshot %d: %w", s.SnapshotID, err)
		}
		for _, mf := range manifests {
			if _, done := seen[mf.FilePath()]; done {
				continue
			}
			seen[mf.FilePath()] = struct{}{}
			for entry, err := range mf.Entries(fio, false) {
				if err != nil {
					return 0, fmt.Errorf("read manifest %s: %w", mf.FilePath(), err)
				}
				if _, hit := ours[entry.DataFile().FilePath()]; hit {
					return s.SnapshotID, nil
				}
			}
		}
	}

	return 0, nil
}

func sameHead(a, b *table.Table) bool {
	x, y := currentHead(a), currentHead(b)

	return x != nil && y != nil && *x == *y || x == nil && y == nil
}

func headText(tbl *table.Table) string {
	if id := currentHead(tbl); id != nil {
		return fmt.Sprint(*id)
	}

	return "empty"
}

// describe names a snapshot for an operator: id, operation, and who wrote it.
func describe(s *table.Snapshot) string {
	if s == nil {
		return "no snapshot"
	}
	out := fmt.Sprintf("snapshot %d", s.SnapshotID)
	if s.Summary == nil {
		return out
	}
	out += fmt.Sprintf(" (operation %s", s.Summary.Operation)
	for _, key := range []string{"engine-name", "app-id", "spark.app.id", "added-data-files", "added-records"} {
		if v := s.Summary.Properties[key]; v != "" {
			out += fmt.Sprintf(", %s %s", key, v)
		}
	}

	return out + ")"
}
