package rewrite

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"golang.org/x/sync/semaphore"

	"compactor/pkg/rewrite/splice"
	"compactor/pkg/rewrite/splice/layout"
	"compactor/pkg/rewrite/splice/refuse"
)

const (
	// spliceWhole is the size up to which a file is fetched in one request.
	spliceWhole = 8 << 20
	// spliceAhead is how many files are fetched ahead of the row group that is
	// being put together.
	spliceAhead = 16
	// spliceFetches is how many files are fetched at once.
	spliceFetches = 8
	// fetchCopies is how often a file is in memory while it is fetched: in the
	// store's own buffer too.
	fetchCopies = 2
)

// spliceUnit is a loaded row group of an input.
type spliceUnit struct {
	splice.Unit
	input *spliceInput
	cost  int64 // bytes it holds of the reader's budget
}

// spliceInput is a file whose units are being taken. It is closed once they are
// in memory.
type spliceInput struct {
	file   *splice.File
	source iceio.File    // nil once it is closed
	closed chan struct{} // of a file that is not fetched whole
}

// spliceReader fetches the files of a group in their order, ahead of who takes
// them, as far as its budget of bytes goes.
type spliceReader struct {
	storage iceio.IO
	fields  *layout.Finder
	budget  int64
	held    *semaphore.Weighted
	guard   func(splice.Unit, iceberg.DataFile) error
	deleted deletedRows
}

func newSpliceReader(storage iceio.IO, fields *layout.Finder, budget int64) *spliceReader {
	return &spliceReader{storage: storage, fields: fields, budget: budget, held: semaphore.NewWeighted(budget)}
}

// fetched is a file that is being fetched, or an error.
type fetched struct {
	units []spliceUnit
	err   error
}

// run sends the units of the files, in order, until the context ends. Whoever
// receives a unit gives its cost back to held.
func (r *spliceReader) run(ctx context.Context, files []File, out chan<- spliceUnit) error {
	defer close(out)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan chan fetched, spliceAhead)
	go r.fetchAll(ctx, files, queue)
	var failed error
	for slot := range queue {
		got := <-slot
		if failed == nil {
			failed = got.err
		}
		if failed == nil {
			got.units, failed = r.send(ctx, got.units, out)
		}
		if failed != nil {
			cancel(failed)
		}
		closeAll(got)
	}
	if failed == nil {
		failed = context.Cause(ctx)
	}

	return failed
}

// fetchAll fetches several files at once and queues them in order.
func (r *spliceReader) fetchAll(ctx context.Context, files []File, queue chan<- chan fetched) {
	defer close(queue)
	fetchers := semaphore.NewWeighted(spliceFetches)
	for _, f := range files {
		// The budget is asked for in the order of the files, or a later one could
		// hold what an earlier one waits for.
		cost := r.wholeCost(f)
		if r.held.Acquire(ctx, fetchCopies*cost) != nil || fetchers.Acquire(ctx, 1) != nil {
			return
		}
		if cost == 0 {
			// Nothing is fetched ahead of a large file: its row groups ask for their
			// part of the budget one by one.
			large := fetched{}
			large.units, large.err = r.open(f, 0)
			fetchers.Release(1)
			slot := make(chan fetched, 1)
			slot <- large
			select {
			case queue <- slot:
			case <-ctx.Done():
				closeAll(large)

				return
			}
			if len(large.units) > 0 {
				select {
				case <-large.units[0].input.closed:
				case <-ctx.Done():
					return
				}
			}

			continue
		}
		slot := make(chan fetched, 1)
		go func() {
			defer fetchers.Release(1)
			units, err := r.open(f, cost)
			slot <- fetched{units, err}
		}()
		select {
		case queue <- slot:
		case <-ctx.Done():
			closeAll(<-slot)

			return
		}
	}
}

// send hands units on and returns those that were not.
func (r *spliceReader) send(ctx context.Context, units []spliceUnit, out chan<- spliceUnit) ([]spliceUnit, error) {
	for len(units) > 0 {
		u := units[0]
		if u.input.source != nil {
			u.cost = min(u.Held(), r.budget)
			if err := r.held.Acquire(ctx, u.cost); err != nil {
				return units, context.Cause(ctx)
			}
		}
		loaded, err := u.Load()
		if err != nil {
			return units, err //nolint:wrapcheck // wrapped by the caller with the file
		}
		u.Unit = loaded
		if len(units) == 1 {
			if err := u.input.close(); err != nil {
				return units, err
			}
		}
		select {
		case out <- u:
			units = units[1:]
		case <-ctx.Done():
			return units, context.Cause(ctx)
		}
	}

	return nil, nil
}

func closeAll(f fetched) {
	for _, u := range f.units {
		_ = u.input.close() // reading has failed already
	}
}

// wholeCost is what fetching the file itself takes of the budget.
func (r *spliceReader) wholeCost(f File) int64 {
	if size := f.Data.FileSizeBytes(); size <= spliceWhole {
		return size
	}

	return 0
}

// open reads the footer, and all of a small file.
func (r *spliceReader) open(f File, cost int64) (units []spliceUnit, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", f.Data.FilePath(), err)
		}
	}()
	in, err := r.storage.Open(f.Data.FilePath())
	if err != nil {
		return nil, err //nolint:wrapcheck // wrapped above
	}
	input := &spliceInput{source: in, closed: make(chan struct{})}
	defer func() {
		if len(units) == 0 {
			err = errors.Join(err, input.close())
		}
	}()
	if input.file, err = r.openInput(input, f.Data.FileSizeBytes()); err != nil {
		return nil, err
	}
	r.held.Release((fetchCopies - 1) * cost)
	if n := input.file.Footer.NumRows; n != f.Data.Count() {
		return nil, &refuse.Error{Rule: ruleCount, Detail: fmt.Sprintf("%s: %d, not %d", f.Data.FilePath(), n, f.Data.Count())}
	}
	gone := r.deleted.of(f.Data.FilePath())
	all := input.file.Units()
	nans := &splice.FileNaNs{Units: len(all)}
	if f.entry != nil {
		nans.Counts = f.entry.nans
	}
	for _, u := range all {
		if err := r.guard(u, f.Data); err != nil {
			return nil, err
		}
		u = u.WithLineage(splice.Lineage{FirstRowID: f.FirstRowID, Sequence: f.SequenceNumber}).WithNaNs(nans)
		if gone != nil {
			u = u.Without(gone)
		}
		if u.Rows() > 0 {
			units = append(units, spliceUnit{Unit: u, input: input})
		}
	}
	if len(units) > 0 {
		units[0].cost = cost
	} else {
		r.held.Release(cost)
	}

	return units, nil
}

// openInput reads a small file whole, and closes it.
func (r *spliceReader) openInput(i *spliceInput, size int64) (*splice.File, error) {
	end, err := i.source.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("find end of file: %w", err)
	}
	if end != size {
		return nil, &refuse.Error{Rule: ruleFileSize, Detail: fmt.Sprintf("%d bytes, not %d", end, size)}
	}
	if _, err := i.source.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("rewind file: %w", err)
	}
	if size > spliceWhole {
		return splice.OpenFile(i.source, size, r.fields) //nolint:wrapcheck // wrapped by the caller
	}
	raw := make([]byte, size)
	if _, err := io.ReadFull(i.source, raw); err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	if err := i.close(); err != nil {
		return nil, err
	}

	return splice.OpenBytes(raw, r.fields) //nolint:wrapcheck // wrapped by the caller
}

func (i *spliceInput) close() error {
	if i.source == nil {
		return nil
	}
	in := i.source
	i.source = nil
	close(i.closed)
	if err := in.Close(); err != nil {
		return fmt.Errorf("close file: %w", err)
	}

	return nil
}
