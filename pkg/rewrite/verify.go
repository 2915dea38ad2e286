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
			err := r.reserve(ctx, tbl, res.Group, func(a allotment) error { return verifyGroup(ctx, tbl, res, a) })
			if err != nil {
				return fmt.Errorf("verify %s: %w", groupName(res.Group), err)
			}

			return nil
		})
	}

	return work.Wait() //nolint:wrapcheck // wrapped with the group above
}

func verifyGroup(ctx context.Context, tbl *table.Table, res Result, a allotment) error {
	lineage := res.Group.lineage && tbl.Metadata().Version() >= 3
	before, err := hashRows(ctx, tbl, res.Group.Files, lineage, a)
	if err != nil {
		return err
	}
	outputs := make([]File, 0, len(res.Outputs))
	for _, df := range res.Outputs {
		outputs = append(outputs, File{Data: df, SequenceNumber: tbl.CurrentSnapshot().SequenceNumber})
	}
	after, err := hashRows(ctx, tbl, outputs, lineage, a)
	if err != nil {
		return err
	}
	if before != after {
		return fmt.Errorf("%w: the inputs hash to %s, the outputs to %s", ErrIntegrity, before, after)
	}

	return nil
}

func hashRows(ctx context.Context, tbl *table.Table, files []File, lineage bool, a allotment) (checksum, error) {
	var sum checksum
	o := readOptions{batchRows: batchRowsOf(tbl, files, a), wholeBytes: a.batchBytes, lineage: lineage}
	err := eachBatch(ctx, tbl, files, o, func(rec arrow.RecordBatch) { sum.addBatch(rec) })

	return sum, err
}

// batchRowsOf bounds the batches of a read by memory alone.
func batchRowsOf(tbl *table.Table, files []File, a allotment) int {
	var rows, bytes int64
	for _, f := range files {
		rows += f.Data.Count()
		bytes += f.Data.FileSizeBytes()
	}
	width := max(1, expansion*bytes/max(1, rows), fixedWidth(tbl.Schema()))

	return int(min(maxBatchRows, max(minBatchRows, a.batchBytes/width)))
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
