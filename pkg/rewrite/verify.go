package rewrite

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"
)

// Verify reads the inputs of each result with their deletes applied, and its
// outputs, and compares one hash per row over all columns, summed modulo 2^128.
// The order of rows does not matter. Results that failed are left out.
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
	outputs, err := inspect(ctx, tbl, outputs, r.inspectionMemory)
	if err != nil {
		return err
	}
	lineage := res.Group.lineage && tbl.Metadata().Version() >= 3
	before, err := r.hashGroup(ctx, tbl, res.Group, lineage)
	if err != nil {
		return err
	}
	written := res.Group
	written.Files = outputs
	after, err := r.hashGroup(ctx, tbl, written, lineage)
	if err != nil {
		return err
	}
	if before != after {
		return fmt.Errorf("%w: the inputs hash to %s, the outputs to %s", ErrIntegrity, before, after)
	}

	return nil
}

// hashGroup hashes the rows of a group's files within its share of the memory.
func (r *Rewriter) hashGroup(ctx context.Context, tbl *table.Table, g Group, lineage bool) (checksum, error) {
	var sum checksum
	err := r.reserve(ctx, tbl, g, func(a allotment) (err error) {
		sum, err = hashRows(ctx, tbl, g.Files, lineage, a)

		return err
	})

	return sum, err
}

func hashRows(ctx context.Context, tbl *table.Table, files []File, lineage bool, a allotment) (checksum, error) {
	var sum checksum
	o := readOptions{batchRows: maxBatchRows, batchBytes: a.batchBytes, lineage: lineage}
	err := eachBatch(ctx, tbl, files, o, func(rec arrow.RecordBatch) { sum.addBatch(rec) })

	return sum, err
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
