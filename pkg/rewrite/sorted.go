package rewrite

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"

	"github.com/apache/arrow-go/v18/arrow"

	"compactor/pkg/rewrite/rowsort"
)

// batches is a stream of rows; each batch belongs to the consumer.
type batches = iter.Seq2[arrow.RecordBatch, error]

// sorted is the stream in the group's order. All of it is read before the first
// row comes out. What does not fit the memory goes to temporary files, which are
// gone when the stream ends or is left, whatever the reason.
func (g *groupRun) sorted(ctx context.Context, in batches) batches {
	return func(yield func(arrow.RecordBatch, error) bool) {
		s := rowsort.New(rowsort.Options{
			Order: g.group.sorting.order, Memory: g.allotment.sortBytes, BatchBytes: g.allotment.batchBytes, BatchRows: g.batchRows(),
			Create: rowsort.TempFiles(g.rewriter.opts.TempDir),
		})
		defer func() {
			g.logSpilled(s.Spilled())
			if err := s.Close(); err != nil {
				g.rewriter.opts.Logger.Warn().Err(err).Str("group", g.group.ID).Msg("temporary files are left behind")
			}
		}()
		for rec, err := range in {
			if err != nil {
				yield(nil, err)

				return
			}
			g.read += rec.NumRows()
			g.report()
			if err := s.Add(ctx, rec); err != nil {
				yield(nil, g.sortError(err))

				return
			}
		}
		for rec, err := range s.Rows(ctx) {
			if err != nil {
				yield(nil, g.sortError(err))

				return
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// errSort means that sorting failed, and not one of the inputs.
var errSort = errors.New("sort rows")

func (g *groupRun) sortError(err error) error {
	dir := g.rewriter.opts.TempDir
	if dir == "" {
		dir = os.TempDir()
	}

	return fmt.Errorf("%w, temporary files in %s: %w", errSort, dir, err)
}

func (g *groupRun) logSpilled(s rowsort.Spilled) {
	if s.Runs > 0 {
		g.rewriter.opts.Logger.Debug().Str("group", g.group.ID).Int("runs", s.Runs).Int64("bytes", s.Bytes).Msg("sorted through temporary files")
	}
}

// orderCheck makes sure that rows are in an order, by keys that are made anew from
// the rows; nil lets everything pass.
type orderCheck struct {
	checker rowsort.Checker
	text    string
}

func newOrderCheck(s *sorting) *orderCheck {
	if s == nil {
		return nil
	}

	return &orderCheck{checker: rowsort.Checker{Order: s.order}, text: s.text()}
}

func (c *orderCheck) check(rec arrow.RecordBatch) error {
	if c == nil {
		return nil
	}
	row, err := c.checker.Check(rec)
	if err != nil {
		return fmt.Errorf("check order of rows: %w", err)
	}
	if row >= 0 {
		return fmt.Errorf("%w: row %d of the outputs is out of order %s", ErrIntegrity, row, c.text)
	}

	return nil
}
