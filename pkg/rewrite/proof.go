package rewrite

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// Proof is what has to hold before a rewrite may be committed, and the delete
// files that go with it.
type Proof struct {
	SnapshotID, SequenceNumber   int64
	RowsIn, RowsDeleted, RowsOut int64
	// DeadDeletes applied to a rewritten file and apply to no file that stays.
	DeadDeletes []iceberg.DataFile
}

// Prove checks, for every result that did not fail, in this order:
//
//  1. each input is live in the plan's snapshot, and exactly the deletes that
//     were applied to it apply to it there;
//  2. rows in, less the deleted rows counted independently, equal rows out;
//  3. groups whose deletes cannot be counted without reading the inputs, and
//     with Options.Verify all groups, hash the same before and after;
//  4. rows in, deleted and out agree in total;
//  5. each delete file to be removed applies to no data file that stays.
//
// It sets IndependentlyProven on the results. The error wraps ErrIntegrity when
// a check failed: nothing may be committed then. Any other error, such as
// unreachable storage, proves nothing either way, and the call may be repeated.
func (r *Rewriter) Prove(ctx context.Context, tbl *table.Table, plan *Plan, results []Result) (Proof, error) {
	p := Proof{SnapshotID: plan.SnapshotID, SequenceNumber: plan.SequenceNumber}
	if snap := tbl.CurrentSnapshot(); snap == nil || snap.SnapshotID != plan.SnapshotID {
		return p, fmt.Errorf("prove snapshot %d: it is not the table's current snapshot", plan.SnapshotID)
	}
	storage, err := tbl.FS(ctx)
	if err != nil {
		return p, fmt.Errorf("open storage of table: %w", err)
	}
	gone := make(map[string]bool)
	for i := range results {
		res := &results[i]
		if res.Err != nil {
			continue
		}
		if err := r.proveGroup(ctx, counter{tbl: tbl, storage: storage}, plan, res); err != nil {
			return p, fmt.Errorf("prove %s: %w", groupName(res.Group), err)
		}
		for _, f := range res.Group.Files {
			gone[f.Data.FilePath()] = true
		}
		p.RowsIn += res.RowsIn
		p.RowsDeleted += res.RowsDeleted
		p.RowsOut += res.RowsOut
	}
	if p.RowsIn-p.RowsDeleted != p.RowsOut {
		return p, fmt.Errorf("%w: %d rows in, %d deleted, %d out", ErrIntegrity, p.RowsIn, p.RowsDeleted, p.RowsOut)
	}
	dead := deadDeletes{plan: plan, gone: gone, storage: storage}
	p.DeadDeletes, err = dead.find(ctx)

	return p, err
}

func (r *Rewriter) proveGroup(ctx context.Context, c counter, plan *Plan, res *Result) error {
	if err := inputsAsPlanned(plan, res.Group); err != nil {
		return err
	}
	var in, out int64
	for _, f := range res.Group.Files {
		in += f.Data.Count()
	}
	for _, df := range res.Outputs {
		out += df.Count()
	}
	deleted, counted, err := r.countDeleted(ctx, c, res.Group)
	if err != nil {
		return err
	}
	if counted && in-deleted != out {
		return fmt.Errorf("%w: %d rows in, %d deleted by independent count, %d out", ErrIntegrity, in, deleted, out)
	}
	res.IndependentlyProven = !hasEquality(res.Group)
	res.RowsIn, res.RowsDeleted, res.RowsOut = in, in-out, out
	if r.opts.Verify || !res.IndependentlyProven {
		return r.Verify(ctx, c.tbl, []Result{*res})
	}

	return nil
}

func (r *Rewriter) countDeleted(ctx context.Context, c counter, g Group) (deleted int64, counted bool, err error) {
	if !hasEquality(g) {
		deleted, err = c.positional(ctx, g)

		return deleted, true, err
	}
	err = r.reserve(ctx, c.tbl, g, func(a allotment) error {
		var err error
		deleted, counted, err = c.equality(ctx, g, a)

		return err
	})

	return deleted, counted, err
}

// inputsAsPlanned compares what was read with what the plan's snapshot says now.
func inputsAsPlanned(plan *Plan, g Group) error {
	for _, f := range g.Files {
		path := f.Data.FilePath()
		live, ok := plan.set.byPath[path]
		if !ok || live.seq != f.SequenceNumber {
			return fmt.Errorf("%w: data file %s is not live in snapshot %d", ErrIntegrity, path, plan.SnapshotID)
		}
		now, err := plan.set.deletes.forFile(live)
		if err != nil {
			return err
		}
		if !slices.Equal(names(now.files()), names(f.Deletes)) {
			return fmt.Errorf("%w: data file %s was read with other deletes than snapshot %d has", ErrIntegrity, path, plan.SnapshotID)
		}
	}

	return nil
}

// names are delete files as text: deletion vectors share a path.
func names(files []iceberg.DataFile) []string {
	out := make([]string, 0, len(files))
	for _, df := range files {
		name := df.FilePath()
		if ref, at := df.ReferencedDataFile(), df.ContentOffset(); ref != nil && at != nil {
			name = fmt.Sprintf("%s@%d for %s", name, *at, *ref)
		}
		out = append(out, name)
	}
	slices.Sort(out)

	return out
}
