package splice

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/parquet"

	"compactor/pkg/rewrite/splice/column"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/layout"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/remake"
	"compactor/pkg/rewrite/splice/stats"
)

// trimmer takes rows out of a chunk: pages that lose none are moved, the others
// are decoded and encoded anew. Every column has page borders of its own, and
// keeps the order of its rows on its own.
type trimmer struct {
	unit   Unit
	column layout.Column
	leaf   int // in the file
	chunk  *page.Chunk
	opts   *Options
	whole  stats.Summary // of the chunk as it is
	known  []stats.Summary
	spans  []span

	out     []column.Source
	kept    stats.Summary // of what comes out of the pages that are decoded
	gone    stats.Summary // of what does not
	nans    int64         // in rows that are gone
	decoded int64         // pages
}

// span are the rows of a page, counted from the row group's first.
type span struct {
	from, to int64
	loses    bool
}

// trimmed takes the chunk apart into pages that are moved and pages that are made
// anew. It returns nothing where that is not worth it, or where the bounds of what
// is left would not be known: all of the chunk has to be decoded then.
func (u Unit) trimmed(c layout.Column, leaf int, w *Options) ([]column.Source, error) {
	t := &trimmer{unit: u, column: c, leaf: leaf, opts: w, whole: u.summary(c, leaf)}
	if t.whole.Unknown || u.group().Columns[leaf].Meta.TotalCompressed < w.TrimBytes {
		return nil, nil
	}
	var err error
	if t.chunk, err = u.walk(c, leaf); err != nil {
		return nil, err
	}
	if ok, err := t.measure(); !ok || err != nil || !t.worthIt() {
		return nil, err
	}
	t.known = u.pageSummaries(c, leaf, t.chunk)
	for from := 0; from < len(t.spans); {
		to := from + 1
		for to < len(t.spans) && t.spans[to].loses == t.spans[from].loses {
			to++
		}
		if !t.spans[from].loses {
			t.move(from, to)
		} else if err := t.remake(from, to); err != nil {
			return nil, err
		}
		from = to
	}

	return t.finish()
}

// measure finds the rows of each page. It returns false where a row goes on from
// one page to the next.
func (t *trimmer) measure() (bool, error) {
	var buf []byte
	var row int64
	for i := range t.chunk.Pages {
		p := &t.chunk.Pages[i]
		var parts page.Parts
		var rows int
		switch d := p.Header.DataV2; {
		case d != nil:
			rows = int(d.NumRows)
		case t.column.Leaf.MaxRep == 0:
			rows = p.Values()
		default:
			var err error
			if parts, buf, err = page.Split(p, t.chunk.Codec, t.column.Leaf, t.opts.Column.Pool, buf); err != nil {
				return false, err //nolint:wrapcheck // says what it is
			}
			begins := false
			if rows, begins, err = page.Rows(p, parts.Rep, t.column.Leaf); err != nil || !begins {
				return false, err //nolint:wrapcheck // says what it is
			}
		}
		s := span{from: row, to: row + int64(rows)}
		row = s.to
		if row > t.unit.group().NumRows {
			return false, nil
		}
		s.loses = t.unit.dropped.any(s.from, s.to)
		t.spans = append(t.spans, s)
	}

	return row == t.unit.group().NumRows, nil
}

// worthIt asks for half of the bytes to stay as they are.
func (t *trimmer) worthIt() bool {
	var moved, all int
	for i, s := range t.spans {
		n := len(t.chunk.Pages[i].Raw)
		all += n
		if !s.loses {
			moved += n
		}
	}

	return moved > 0 && 2*moved >= all
}

func (t *trimmer) move(from, to int) {
	s := column.Source{
		Part: true, Rows: t.spans[to-1].to - t.spans[from].from,
		Chunk: &page.Chunk{Codec: t.chunk.Codec, Dictionary: t.chunk.Dictionary, Pages: t.chunk.Pages[from:to]},
	}
	if t.known != nil {
		s.Pages = t.known[from:to]
	}
	t.out = append(t.out, s)
}

// remake decodes neighbouring pages. They are encoded with a dictionary only if
// they had one, for all pages of a chunk have to.
func (t *trimmer) remake(from, to int) error {
	first, rows := t.spans[from].from, t.spans[to-1].to-t.spans[from].from
	pages := t.chunk.Pages[from:to]
	indices := slices.ContainsFunc(pages, func(p page.Page) bool { return p.Encoding().Dictionary() })
	part := remake.Part{Meta: t.unit.group().Columns[t.leaf].Meta, Dictionary: t.chunk.Dictionary, Pages: pages}
	made, err := remake.Pages(part, remake.Job{
		Leaf: t.column.Leaf, Rows: rows, Gone: true,
		Keep:       func(row int64) bool { return !t.unit.dropped.has(first + row) },
		Properties: append(slices.Clone(t.opts.Remake), parquet.WithDictionaryDefault(indices)),
	})
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	t.decoded += int64(len(pages))
	t.gone = stats.Merge(t.column.Leaf, t.gone, made.Gone)
	t.nans += made.GoneNaNs
	if made.Rows == 0 {
		return nil
	}
	t.kept = stats.Merge(t.column.Leaf, t.kept, made.Summary)
	s := column.Source{
		Part: true, Chunk: made.Chunk, Rows: made.Rows, Trimmed: true,
		NaNs: column.NaNs{Kept: made.NaNs, Counted: true},
	}
	if len(made.Chunk.Pages) == 1 {
		s.Pages = []stats.Summary{made.Summary}
	}
	t.out = append(t.out, s)

	return nil
}

// finish gives the first part what is known of all of them.
func (t *trimmer) finish() ([]column.Source, error) {
	var rows int64
	for _, s := range t.out {
		rows += s.Rows
	}
	if rows != t.unit.kept {
		return nil, fmt.Errorf("%w: %d rows in pages, %d of them are left", ErrCorrupt, rows, t.unit.kept)
	}
	summary := t.summary()
	if summary.Unknown {
		return nil, nil
	}
	t.out[0].Summary = summary
	t.out[0].NaNs.Dropped = t.nans
	t.out[0].PagesTrimmed = t.decoded

	return t.out, nil
}

// summary is what is left of the whole chunk's. Its bounds stay where no row is
// gone that had one, or where another row is seen that has it too. Else those
// of all pages have to be known. Bounds of texts in a column index may be cut, and do
// not count.
func (t *trimmer) summary() stats.Summary {
	leaf := t.column.Leaf
	out := stats.Summary{Nulls: t.whole.Nulls - t.gone.Nulls, Min: t.whole.Min, Max: t.whole.Max}
	if out.Nulls < 0 && leaf.MaxRep == 0 {
		return stats.Summary{Unknown: true}
	}
	if t.gone.Min == nil {
		return out
	}
	stays := func(bound, gone, kept []byte) bool {
		return bound != nil && (stats.Compare(leaf, gone, bound) != 0 || (kept != nil && stats.Compare(leaf, kept, bound) == 0))
	}
	if stays(out.Min, t.gone.Min, t.kept.Min) && stays(out.Max, t.gone.Max, t.kept.Max) {
		return out
	}
	if leaf.Type == format.ByteArray {
		return stats.Summary{Unknown: true}
	}
	left, all := t.ofPages()
	if all.Unknown || !bytes.Equal(all.Min, out.Min) || !bytes.Equal(all.Max, out.Max) {
		return stats.Summary{Unknown: true} // what is said of the pages is not what is said of the chunk
	}
	left.Nulls = out.Nulls

	return left
}

// ofPages merges what is known of the pages: what comes out, and all as they were.
func (t *trimmer) ofPages() (left, all stats.Summary) {
	left = t.kept
	for i, s := range t.spans {
		p := &t.chunk.Pages[i]
		if p.Values() == 0 {
			continue
		}
		known := stats.Of(t.column.Leaf, p.Statistics(), int64(p.Values()))
		if t.known != nil {
			known = t.known[i]
		}
		if all = stats.Merge(t.column.Leaf, all, known); !s.loses {
			left = stats.Merge(t.column.Leaf, left, known)
		}
	}

	return left, all
}
