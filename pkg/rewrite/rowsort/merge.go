package rowsort

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// source gives sorted parts, each behind the one before.
type source struct {
	// next returns nil at the end. The batch of a part belongs to the caller.
	next func() (*part, error)
	// drop releases what was not asked for.
	drop func()
}

// inMemory hands out what is held, one source for each batch.
func (s *Sorter) inMemory() []source {
	out := make([]source, 0, len(s.held))
	for _, p := range s.held {
		left := &p
		out = append(out, source{
			next: func() (*part, error) {
				given := left
				left = nil

				return given, nil
			},
			drop: func() {
				if left != nil {
					left.rec.Release()
					left = nil
				}
			},
		})
	}
	s.held, s.size = nil, 0

	return out
}

// sources reads runs from their beginning.
func (s *Sorter) sources(runs []*run) ([]source, error) {
	out := make([]source, 0, len(runs))
	for _, r := range runs {
		if err := r.open(); err != nil {
			return nil, err
		}
		next := func() (*part, error) {
			rec, err := r.next()
			if rec == nil || err != nil {
				return nil, err
			}
			k, err := s.opts.Order.keysOf(rec)
			if err != nil {
				rec.Release()

				return nil, err
			}

			return &part{rec: rec, keys: k, bytes: batchBytes(rec)}, nil
		}
		out = append(out, source{next: next, drop: func() {}})
	}

	return out, nil
}

// cursor is the next row of a source.
type cursor struct {
	part   *part
	row    int
	prefix uint64
	number int // of the source: earlier ones win ties
	next   func() (*part, error)
}

func (c *cursor) key() []byte { return c.part.keys.at(c.row) }

// queue is a heap of cursors.
type queue []*cursor

// Len implements heap.Interface, as do the methods below.
func (q queue) Len() int { return len(q) }

// Swap exchanges two cursors.
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push adds a cursor at the end.
func (q *queue) Push(x any) { *q = append(*q, x.(*cursor)) }

// Pop takes the last cursor off.
func (q *queue) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	*q = (*q)[:last]

	return c
}

// Less orders cursors by key, then by source.
func (q queue) Less(i, j int) bool {
	a, b := q[i], q[j]
	if a.prefix != b.prefix {
		return a.prefix < b.prefix
	}

	return cmp.Or(bytes.Compare(a.key(), b.key()), cmp.Compare(a.number, b.number)) < 0
}

// merge hands out the rows of all sources in order, in batches of about a size.
// It releases what it took from the sources, also after an error.
func (s *Sorter) merge(ctx context.Context, from []source, size batchSize, out func(part) error) error {
	m := &merger{size: size, out: out}
	defer m.close(from)
	for i, next := range from {
		c := &cursor{number: i, next: next.next}
		if more, err := m.advance(c); err != nil {
			return err
		} else if more {
			m.queue = append(m.queue, c)
		}
	}
	heap.Init(&m.queue)
	for len(m.queue) > 0 {
		c := m.queue[0]
		m.take(c)
		more, err := m.advance(c)
		if err != nil {
			return err
		}
		if more {
			heap.Fix(&m.queue, 0)
		} else {
			heap.Pop(&m.queue)
		}
		if m.bytes >= m.size.bytes || len(m.rows) >= m.size.rows {
			if err := context.Cause(ctx); err != nil {
				return fmt.Errorf("merge sorted rows: %w", err)
			}
			if err := m.flush(ctx); err != nil {
				return err
			}
		}
	}

	return m.flush(ctx)
}

// merger gathers the rows of the next batch.
type merger struct {
	size  batchSize
	out   func(part) error
	queue queue

	pieces []*piece
	byPart map[*part]*piece
	rows   []pick
	bytes  int64
}

// piece is the stretch of a part that goes into the next batch.
type piece struct {
	part       *part
	start, end int
	width      int64
	done       bool // its source has gone on to another part
	base       int32
}

// pick is one row of the next batch.
type pick struct {
	piece *piece
	row   int
}

// advance moves a cursor to its next row and reports whether there is one.
func (m *merger) advance(c *cursor) (bool, error) {
	if c.part != nil {
		c.row++
	}
	for c.part == nil || c.row >= len(c.part.keys.ends) {
		if c.part != nil {
			m.leave(c.part)
		}
		p, err := c.next()
		c.part, c.row = p, 0
		if p == nil || err != nil {
			return false, err
		}
	}
	c.prefix = prefix(c.key())

	return true, nil
}

// leave lets a part go once the batch that has its last rows is out.
func (m *merger) leave(p *part) {
	if known := m.byPart[p]; known != nil {
		known.done = true
	} else {
		p.rec.Release()
	}
}

func (m *merger) take(c *cursor) {
	p := m.byPart[c.part]
	if p == nil {
		p = &piece{part: c.part, start: c.row, width: c.part.bytes / max(1, c.part.rec.NumRows())}
		if m.byPart == nil {
			m.byPart = make(map[*part]*piece)
		}
		m.byPart[c.part] = p
		m.pieces = append(m.pieces, p)
	}
	p.end = c.row + 1
	m.rows = append(m.rows, pick{p, c.row})
	m.bytes += p.width
}

// flush hands out the rows that were gathered.
func (m *merger) flush(ctx context.Context) error {
	if len(m.rows) == 0 {
		return nil
	}
	rec, err := m.gather(ctx)
	bytes := m.bytes
	for _, p := range m.pieces {
		if p.done {
			p.part.rec.Release()
		}
	}
	m.pieces, m.byPart, m.rows, m.bytes = nil, nil, m.rows[:0], 0
	if err != nil {
		return err
	}

	return m.out(part{rec: rec, bytes: bytes})
}

// gather joins the stretches and puts their rows in order.
func (m *merger) gather(ctx context.Context) (arrow.RecordBatch, error) {
	if len(m.pieces) == 1 { // a stretch of one part is in order
		p := m.pieces[0]

		return p.part.rec.NewSlice(int64(p.start), int64(p.end)), nil
	}
	first := m.pieces[0].part.rec
	columns := make([]arrow.Array, 0, first.NumCols())
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	base := int32(0)
	for _, p := range m.pieces {
		p.base = base
		base += int32(p.end - p.start)
	}
	for i := range int(first.NumCols()) {
		joined, err := join(m.pieces, i)
		if err != nil {
			return nil, fmt.Errorf("join column %s: %w", first.ColumnName(i), err)
		}
		columns = append(columns, joined)
	}
	rows := make([]int32, len(m.rows))
	for i, r := range m.rows {
		rows[i] = r.piece.base + int32(r.row-r.piece.start)
	}
	joined := array.NewRecordBatch(first.Schema(), columns, int64(base))
	defer joined.Release()

	return take(ctx, joined, rows)
}

func join(pieces []*piece, column int) (arrow.Array, error) {
	slices := make([]arrow.Array, 0, len(pieces))
	defer func() {
		for _, a := range slices {
			a.Release()
		}
	}()
	for _, p := range pieces {
		slices = append(slices, array.NewSlice(p.part.rec.Column(column), int64(p.start), int64(p.end)))
	}

	return array.Concatenate(slices, memory.DefaultAllocator) //nolint:wrapcheck // the caller names the column
}

// close releases what was taken and not handed out.
func (m *merger) close(from []source) {
	for _, p := range m.pieces {
		if p.done {
			p.part.rec.Release()
		}
	}
	for _, c := range m.queue {
		if c.part != nil {
			c.part.rec.Release()
		}
	}
	for _, f := range from {
		f.drop()
	}
}
