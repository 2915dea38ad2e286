package rewrite

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"
)

// Verify reads the inputs of each result with their deletes applied, and its
// outputs, and compares one hash per row over all columns, summed modulo 2^128.
// The order of rows matters where pages were moved, which keeps it; the general
// engine may change it. Results that failed are left out.
//
// The error wraps ErrIntegrity when a group's hashes differ. Nothing is written;
// the call may be repeated.
func (r *Rewriter) Verify(ctx context.Context, tbl *table.Table, results []Result) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(r.opts.Parallel)
	for _, res := range results {
		if res.Err != nil {
			continue
		}
		work.Go(func() error {
			if err := r.verifyGroup(ctx, tbl, res); err != nil {
				return fmt.Errorf("verify %s: %w", groupName(res.Group), err)
			}

			return nil
		})
	}

	return work.Wait() //nolint:wrapcheck // wrapped with the group above
}

func (r *Rewriter) verifyGroup(ctx context.Context, tbl *table.Table, res Result) error {
	outputs := make([]File, 0, len(res.Outputs))
	for _, df := range res.Outputs {
		outputs = append(outputs, File{Data: df, SequenceNumber: tbl.CurrentSnapshot().SequenceNumber})
	}
	outputs, err := inspectAll(ctx, tbl, outputs, r.inspectionMemory)
	if err != nil {
		return err
	}
	read, written := res.Group, res.Group
	if written.Files = outputs; res.Engine.Name == EngineSplice {
		if read.Files, err = inspectAll(ctx, tbl, read.Files, r.inspectionMemory); err != nil {
			return err
		}
	}
	how := hashing{ordered: res.Engine.Name == EngineSplice, lineage: read.lineage && tbl.Metadata().Version() >= 3}
	before, err := r.hashGroup(ctx, tbl, read, how)
	if err != nil {
		return err
	}
	if spec := tbl.Spec(); written.SpecID == spec.ID() { // else each partition has an order of its own
		how.sorting = written.sorting
	}
	after, err := r.hashGroup(ctx, tbl, written, how)
	if err != nil {
		return err
	}
	if before != after {
		return fmt.Errorf("%w: the inputs hash to %s, the outputs to %s", ErrIntegrity, before, after)
	}

	return nil
}

// hashing says what a hash depends on, and in which order the rows have to be.
type hashing struct {
	ordered, lineage bool
	sorting          *sorting
}

// hashGroup hashes the rows of a group's files within its share of the memory.
func (r *Rewriter) hashGroup(ctx context.Context, tbl *table.Table, g Group, how hashing) (checksum, error) {
	sum := checksum{ordered: how.ordered}
	order := newOrderCheck(how.sorting)
	var misplaced error
	err := r.reserve(ctx, tbl, g, func(a allotment) error {
		o := readOptions{batchRows: maxBatchRows, batchBytes: a.batchBytes, lineage: how.lineage, tempDir: r.opts.TempDir}

		return eachBatch(ctx, tbl, g.Files, o, func(rec arrow.RecordBatch) {
			sum.addBatch(rec)
			if misplaced == nil {
				misplaced = order.check(rec)
			}
		})
	})

	return sum, errors.Join(err, misplaced)
}

// eachBatch reads files and releases each batch after it was seen.
func eachBatch(ctx context.Context, tbl *table.Table, files []File, o readOptions, see func(arrow.RecordBatch)) error {
	_, batches, err := openRows(ctx, tbl, files, o)
	if err != nil {
		return err
	}
	for rec, err := range batches {
		if err != nil {
			return err
		}
		see(rec)
		rec.Release()
	}

	return nil
}
