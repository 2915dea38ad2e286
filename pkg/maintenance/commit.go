package maintenance

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/apache/iceberg-go/table"

	"compactor/internal/catalog"
	"compactor/internal/tablename"
)

// commitRequest is one staged commit: what was loaded under the claim, and
// what is to be sent on top of it.
type commitRequest struct {
	base   *table.Table // loaded under the claim; its head of main is the CAS parent
	staged table.TableCommit
	change change
}

// change is what a step asks of the catalog: what it may send, and how the
// table shows afterwards whether that has happened.
type change interface {
	// permits says whether the step may send an update; ref is the name of the
	// branch or tag that the update is about, if any.
	permits(action, ref string) bool
	// ready looks at the table once more right before the request, which is
	// sent only when it returns nil. It may use the catalog.
	ready(ctx context.Context, m *Maintainer, base *table.Table) error
	// judge tells from a freshly loaded table what became of the request.
	judge(ctx context.Context, m *Maintainer, base, now *table.Table) (verdict, commitResult, error)
	// leftovers says what became of the files when the outcome stayed open.
	leftovers() string
}

// commitResult is what is known after the request.
type commitResult struct {
	SnapshotID     int64  // head of main after the commit
	MetadataPath   string // metadata file after the commit, empty when found by search
	FoundBySearch  bool   // the answer was unclear, the table showed the commit
	DidNotHappen   bool   // certain: what was staged and written may be removed
	Foreign        *table.Snapshot
	ForeignSummary string
}

// commit is the guarded commit. Effects, in order:
//
//  1. the staged updates are checked: only what the step's change permits is
//     sent, and the requirements must assert the head that was loaded;
//  2. the claim is verified with its authority, and the change looks at the
//     table once more if it has a reason to;
//  3. one request is sent, with the deadline that the claim allows, detached
//     from cancellation so that its answer is not thrown away;
//  4. the answer is classed, and an unclear one is resolved by what the table
//     then shows.
//
// It never sends a second request. Errors: ErrClaimLost (nothing was sent),
// ErrConflict, ErrAmbiguous, or the catalog's clean refusal. The result is
// valid with an error too: DidNotHappen says whether files may be removed.
func (m *Maintainer) commit(ctx context.Context, claim Claim, req commitRequest) (commitResult, error) {
	updates, err := permitted(req.staged.Updates, req.change)
	if err != nil {
		return commitResult{DidNotHappen: true}, err
	}
	if err := assertsHead(req.staged.Requirements, currentHead(req.base)); err != nil {
		return commitResult{DidNotHappen: true}, err
	}
	deadline, err := claim.Verify(ctx)
	if err != nil {
		return commitResult{DidNotHappen: true}, fmt.Errorf("verify claim before commit: %w", err)
	}
	if ctx.Err() != nil {
		return commitResult{DidNotHappen: true}, fmt.Errorf("commit %s: %w", name(req.base), context.Cause(ctx))
	}
	sendCtx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	if err := req.change.ready(sendCtx, m, req.base); err != nil {
		return commitResult{DidNotHappen: true}, fmt.Errorf("check %s before commit: %w", name(req.base), err)
	}
	meta, loc, err := m.Catalog.CommitTable(sendCtx, req.base.Identifier(), req.staged.Requirements, updates)
	switch catalog.Classify(err) {
	case catalog.Committed:
		return commitResult{SnapshotID: headOf(meta), MetadataPath: loc}, nil
	case catalog.Rejected:
		return commitResult{DidNotHappen: true}, fmt.Errorf("commit %s: the catalog refused: %w", name(req.base), err)
	case catalog.Conflict:
		return m.resolve(ctx, req, err, true)
	default:
		return m.resolve(ctx, req, err, false)
	}
}

// permitted drops what iceberg-go adds to a rewrite unasked (the automatic name
// mapping) and refuses everything that the change does not permit.
func permitted(updates []table.Update, by change) ([]table.Update, error) {
	kept := make([]table.Update, 0, len(updates))
	for _, u := range updates {
		var body struct {
			Ref        string            `json:"ref-name"`
			Properties map[string]string `json:"updates"`
		}
		if err := wire(u, &body); err != nil {
			return nil, err
		}
		_, mapping := body.Properties[table.DefaultNameMappingKey]
		switch action := u.Action(); {
		case by.permits(action, body.Ref):
			kept = append(kept, u)
		case action == table.UpdateSetProperties && mapping && len(body.Properties) == 1:
		default:
			return nil, fmt.Errorf("staged commit has the unexpected update %q: %w", action, ErrHalt)
		}
	}

	return kept, nil
}

// assertsHead holds the request to the binding constraint: it must assert that
// main still is the snapshot that was loaded under the claim.
func assertsHead(reqs []table.Requirement, head *int64) error {
	for _, r := range reqs {
		var body struct {
			Type       string `json:"type"`
			Ref        string `json:"ref"`
			SnapshotID *int64 `json:"snapshot-id"`
		}
		if err := wire(r, &body); err != nil {
			return err
		}
		if body.Type != "assert-ref-snapshot-id" || body.Ref != table.MainBranch {
			continue
		}
		if head != nil && body.SnapshotID != nil && *head == *body.SnapshotID || head == nil && body.SnapshotID == nil {
			return nil
		}

		return fmt.Errorf("staged commit asserts another parent than the snapshot loaded under the claim: %w", ErrHalt)
	}

	return fmt.Errorf("staged commit does not assert the head of main: %w", ErrHalt)
}

// wire reads a part of a commit request as the catalog will see it.
func wire(part, into any) error {
	raw, err := json.Marshal(part)
	if err != nil {
		return fmt.Errorf("encode part of the commit: %w", err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("decode part of the commit: %w", err)
	}

	return nil
}

func headOf(meta table.Metadata) int64 {
	if s := meta.CurrentSnapshot(); s != nil {
		return s.SnapshotID
	}

	return 0
}

func name(tbl *table.Table) string {
	return identString(tbl.Identifier())
}

func identString(ident table.Identifier) string { return tablename.String(ident) }

// pause waits for d or until ctx ends; it reports whether the wait was whole.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
