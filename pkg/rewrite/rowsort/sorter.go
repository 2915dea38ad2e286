package rowsort

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

const (
	// spillShare of the memory is the size of a batch in a file, so that many
	// runs can be merged at once.
	spillShare    = 64
	leastSpill    = 64 << 10
	mostSpill     = 1 << 20
	mostBatchRows = 64 << 10
	// copies is how often a batch of a run that is being merged is held:
	// compressed, as it was read, and as part of a finished batch.
	copies = 3
	// leastFan is the least number of runs that are merged at once.
	leastFan = 2
	// mostRuns bounds the files that are open at once: systems allow a process a
	// thousand or so, and several groups may be sorted side by side.
	mostRuns = 64
)

// Options configure a Sorter.
type Options struct {
	Order Order
	// Memory in bytes for rows and keys, at least a few times a batch that is
	// added. 0 sets no limit, and no file is written.
	Memory int64
	// BatchBytes is about the size of the batches that Rows gives. 0 is 1 MiB.
	BatchBytes int64
	// BatchRows is the most rows of a batch that Rows gives. 0 is 65,536.
	BatchRows int
	// Create makes an empty file for a run; TempFiles is the usual way.
	Create func() (File, error)
}

// Sorter sorts the rows of batches. It is not safe for concurrent use.
type Sorter struct {
	opts    Options
	schema  *arrow.Schema // as batches come and go
	storage *arrow.Schema // as they are held and written
	held    []part        // sorted batches in memory
	size    int64
	runs    []*run
	widest  int64 // largest batch in a file
	spilled Spilled
}

// Spilled counts what went through files.
type Spilled struct {
	Runs  int
	Bytes int64 // as stored, over all merges
}

// part is a sorted batch with the keys of its rows.
type part struct {
	rec   arrow.RecordBatch
	keys  keys
	bytes int64 // of the batch
}

// New returns a Sorter. Close has to be called.
func New(o Options) *Sorter {
	if o.BatchBytes <= 0 {
		o.BatchBytes = mostSpill
	}
	if o.BatchRows <= 0 {
		o.BatchRows = mostBatchRows
	}

	return &Sorter{opts: o}
}

// Spilled tells what has gone through files so far.
func (s *Sorter) Spilled() Spilled { return s.spilled }

// Add takes a batch, which it releases. When the memory is full it writes a run
// to a file, which may fail; the Sorter is of no use then, but to be closed.
// Batches have one schema.
func (s *Sorter) Add(ctx context.Context, rec arrow.RecordBatch) error {
	if s.schema == nil {
		s.schema, s.storage = rec.Schema(), storageSchema(rec.Schema())
	}
	p, err := s.sorted(ctx, rec)
	if err != nil {
		return err
	}
	if p.rec == nil {
		return nil
	}
	s.held = append(s.held, p)
	s.size += p.bytes + p.keys.size()
	if s.opts.Memory > 0 && s.size > s.opts.Memory/2 {
		return s.spill(ctx)
	}

	return nil
}

// sorted sorts one batch, which it releases; the part has no batch when there
// are no rows.
func (s *Sorter) sorted(ctx context.Context, rec arrow.RecordBatch) (part, error) {
	defer rec.Release()
	if rec.NumRows() == 0 {
		return part{}, nil
	}
	k, err := s.opts.Order.keysOf(rec)
	if err != nil {
		return part{}, err
	}
	stored := recast(rec, s.storage)
	defer stored.Release()
	rows := k.sorted()
	// Rows in order are copied as well: a batch may be a stretch of a larger one.
	taken, err := take(ctx, stored, rows)
	if err != nil {
		return part{}, err
	}

	return part{rec: taken, keys: k.permuted(rows), bytes: batchBytes(taken)}, nil
}

// take gathers rows of a batch.
func take(ctx context.Context, rec arrow.RecordBatch, rows []int32) (arrow.RecordBatch, error) {
	b := array.NewInt32Builder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(rows, nil)
	indices := b.NewInt32Array()
	defer indices.Release()
	columns := make([]arrow.Array, 0, rec.NumCols())
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, col := range rec.Columns() {
		taken, err := compute.TakeArrayOpts(ctx, col, indices, compute.TakeOptions{})
		if err != nil {
			return nil, fmt.Errorf("order column %s: %w", rec.ColumnName(i), err)
		}
		columns = append(columns, taken)
	}

	return array.NewRecordBatch(rec.Schema(), columns, int64(len(rows))), nil
}

// Rows gives all rows in order. The batches belong to the consumer. It may be
// called once, after the last Add. An error ends it.
func (s *Sorter) Rows(ctx context.Context) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		out := func(p part) error {
			rec := recast(p.rec, s.schema)
			p.rec.Release()
			if !yield(rec, nil) {
				return errStopped
			}

			return nil
		}
		if err := s.finish(ctx, out); err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// errStopped means that the consumer wants no more rows.
var errStopped = errors.New("no more rows wanted")

func (s *Sorter) finish(ctx context.Context, out func(part) error) error {
	if len(s.runs) == 0 {
		return s.merge(ctx, s.inMemory(), s.finished(), out)
	}
	if err := s.spill(ctx); err != nil {
		return err
	}
	for len(s.runs) > s.fan() {
		if err := s.reduce(ctx, min(s.fan(), len(s.runs)-s.fan()+1)); err != nil {
			return err
		}
	}
	runs := s.runs
	s.runs = nil
	defer func() { _ = closeRuns(runs) }() // they are read, and hold nothing of worth
	sources, err := s.sources(runs)
	if err != nil {
		return err
	}

	return s.merge(ctx, sources, s.finished(), out)
}

// batchSize bounds a batch.
type batchSize struct {
	bytes int64
	rows  int
}

// finished is the size of the batches that Rows gives.
func (s *Sorter) finished() batchSize { return batchSize{s.opts.BatchBytes, s.opts.BatchRows} }

// spillBytes is the size of a batch in a file.
func (s *Sorter) spillBytes() int64 {
	return max(leastSpill, min(mostSpill, s.opts.Memory/spillShare))
}

// fan is how many runs can be merged at once.
func (s *Sorter) fan() int {
	return int(max(leastFan, s.opts.Memory/2/(copies*max(s.widest, leastSpill))))
}

// spill merges what is held into a run on disk.
func (s *Sorter) spill(ctx context.Context) error {
	if len(s.held) == 0 {
		return nil
	}
	made, err := s.write(ctx, s.inMemory())
	if err != nil {
		return err
	}
	if s.runs = append(s.runs, made); len(s.runs) > mostRuns {
		return s.reduce(ctx, min(s.fan(), mostRuns/2))
	}

	return nil
}

// reduce merges n neighbours into one run, so that ties stay in order. It takes the
// smallest ones: a run that was merged already is left until the others have its
// size, or every merge would write it again.
func (s *Sorter) reduce(ctx context.Context, n int) error {
	n = max(leastFan, n)
	at := smallest(s.runs, n)
	some := slices.Clone(s.runs[at : at+n])
	sources, err := s.sources(some)
	if err != nil {
		return err
	}
	made, err := s.write(ctx, sources)
	if err != nil {
		return err
	}
	s.runs = slices.Replace(s.runs, at, at+n, made)

	return closeRuns(some)
}

// smallest finds the n neighbours that have the fewest bytes together.
func smallest(runs []*run, n int) (at int) {
	var sum int64
	for _, r := range runs[:n] {
		sum += r.bytes
	}
	least := sum
	for i := n; i < len(runs); i++ {
		if sum += runs[i].bytes - runs[i-n].bytes; sum < least {
			least, at = sum, i-n+1
		}
	}

	return at
}

// write merges sources into a new run.
func (s *Sorter) write(ctx context.Context, from []source) (*run, error) {
	made, err := newRun(s.opts.Create, s.storage)
	if err != nil {
		return nil, err
	}
	err = s.merge(ctx, from, batchSize{s.spillBytes(), mostBatchRows}, func(p part) error {
		defer p.rec.Release()
		s.widest = max(s.widest, p.bytes)

		return made.write(p.rec)
	})
	if err == nil {
		err = made.finish()
	}
	if err != nil {
		return nil, errors.Join(err, made.close())
	}
	s.spilled.Runs++
	s.spilled.Bytes += made.bytes

	return made, nil
}

// Close releases rows and files. It may be called at any time, and again.
func (s *Sorter) Close() error {
	for _, p := range s.held {
		p.rec.Release()
	}
	s.held, s.size = nil, 0
	runs := s.runs
	s.runs = nil

	return closeRuns(runs)
}

// batchBytes is what the columns of a batch hold.
func batchBytes(rec arrow.RecordBatch) int64 {
	var total int64
	for _, col := range rec.Columns() {
		total += int64(col.Data().SizeInBytes())
	}

	return total
}
