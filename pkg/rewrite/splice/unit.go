package splice

import (
	"errors"
	"fmt"
	"io"
	"math"

	"compactor/pkg/rewrite/splice/column"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/layout"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/stats"
)

// largestIndex is the size up to which a column index is read, in bytes.
const largestIndex = 4 << 20

// Unit is a row group of an input. Rows of a unit stay together.
type Unit struct {
	File  *File
	Group int
	raw   []byte
	start int64 // of raw in the file

	first   int64 // row of the file
	dropped *rowSet
	kept    int64
	lineage *Lineage
	nans    *FileNaNs
}

func (u Unit) group() *format.RowGroup { return &u.File.Footer.RowGroups[u.Group] }

// Rows of the unit, without those that are left out.
func (u Unit) Rows() int64 { return u.kept }

// Bytes is the compressed size of the columns of the output.
func (u Unit) Bytes() int64 {
	var n int64
	for _, c := range u.File.Layout.Columns() {
		if c.Source >= 0 {
			n += u.group().Columns[c.Source].Meta.TotalCompressed
		}
	}

	return n
}

// span is the part of the file that holds the columns of the output.
func (u Unit) span() (start, end int64) {
	start = math.MaxInt64
	for _, c := range u.File.Layout.Columns() {
		if c.Source >= 0 {
			m := u.group().Columns[c.Source].Meta
			start = min(start, m.Start())
			end = max(end, m.Start()+m.TotalCompressed)
		}
	}
	if end == 0 {
		return 0, 0
	}

	return start, end
}

// Held is how many bytes Load takes.
func (u Unit) Held() int64 {
	start, end := u.span()

	return end - start
}

// Load reads the unit's bytes in one request. It may be repeated.
func (u Unit) Load() (Unit, error) {
	start, end := u.span()
	var err error
	u.start = start
	u.raw, err = u.File.bytes(start, end-start)

	return u, err
}

// sources takes apart what the unit has of one column of the output.
func (u Unit) sources(c layout.Column, o layout.Origin, w *Options) ([]column.Source, error) {
	if u.dropped != nil && o.Moved() && (u.fill(c, o) == nil || u.complete(c, o.Source)) {
		if parts, err := u.trimmed(c, o.Source, w); err != nil || len(parts) > 0 {
			return parts, err
		}
	}
	s, err := u.source(c, o, w)

	return []column.Source{s}, err
}

// source is what the unit has of the column in one piece.
func (u Unit) source(c layout.Column, o layout.Origin, w *Options) (column.Source, error) {
	fill := u.fill(c, o)
	switch {
	case o.Source < 0 && fill == nil:
		return column.Source{Rows: u.kept, Summary: stats.Summary{Nulls: u.kept}}, nil
	case u.dropped == nil && o.Moved() && (fill == nil || u.complete(c, o.Source)):
		return u.moved(c, o.Source)
	default:
		return u.remade(c, o, fill, w)
	}
}

// moved is the chunk as it is.
func (u Unit) moved(c layout.Column, leaf int) (column.Source, error) {
	s := column.Source{Rows: u.kept}
	chunk, err := u.walk(c, leaf)
	if err != nil {
		return s, err
	}
	s.Chunk = chunk
	if s.Summary = u.summary(c, leaf); u.believed(leaf) {
		s.Pages = u.pageSummaries(c, leaf, chunk)
	} else {
		s.Pages = make([]stats.Summary, len(chunk.Pages))
		for i := range s.Pages {
			s.Pages[i].Unknown = true
		}
	}
	if s.Summary.Unknown {
		s.Summary, err = stats.Measure(io.NewSectionReader(u, 0, u.File.size), u.Group, leaf)
	}

	return s, err //nolint:wrapcheck // says what it is
}

// walk finds the pages of a column.
func (u Unit) walk(c layout.Column, leaf int) (*page.Chunk, error) {
	meta := u.group().Columns[leaf].Meta
	at := meta.Start() - u.start

	return page.Walk(u.raw[at:at+meta.TotalCompressed], meta, c.Leaf) //nolint:wrapcheck // says what it is
}

// believed says whether the footer defines the order of a column's bounds, and
// its writer keeps to it.
func (u Unit) believed(leaf int) bool {
	footer := u.File.Footer
	if leaf >= len(footer.ColumnOrders) || !footer.ColumnOrders[leaf] {
		return false
	}
	t := u.group().Columns[leaf].Meta.Type

	return (t != format.Float && t != format.Double) || stats.Floats(footer.CreatedBy)
}

// summary is what the footer says of a column and may be believed.
func (u Unit) summary(c layout.Column, leaf int) stats.Summary {
	if !u.believed(leaf) {
		return stats.Summary{Unknown: true}
	}
	meta := u.group().Columns[leaf].Meta

	return stats.Of(c.Leaf, meta.Statistics, meta.NumValues)
}

// pageSummaries reads the column index. Nothing depends on it but the column
// index of the output, so a bad one counts as none.
func (u Unit) pageSummaries(c layout.Column, leaf int, chunk *page.Chunk) []stats.Summary {
	cc := &u.group().Columns[leaf]
	off, n := cc.ColumnIndexOffset, int64(cc.ColumnIndexLength)
	if len(chunk.Pages) < 2 || n <= 0 || n > largestIndex || off < 0 || off > u.File.body-n {
		return nil
	}
	raw := make([]byte, n)
	if _, err := u.ReadAt(raw, off); err != nil {
		return nil
	}
	index, err := format.ReadColumnIndex(raw)
	if err != nil || len(index.NullPages) != len(chunk.Pages) || index.NullCounts == nil {
		return nil
	}
	out := make([]stats.Summary, len(chunk.Pages))
	for i := range out {
		st := &format.Statistics{NullCount: &index.NullCounts[i], Min: index.Min[i], Max: index.Max[i]}
		if index.NullPages[i] {
			st.Min, st.Max = nil, nil
		}
		out[i] = stats.Of(c.Leaf, st, int64(chunk.Pages[i].Values()))
	}

	return out
}

// ReadAt implements io.ReaderAt over the parts of the file that are in memory.
func (u Unit) ReadAt(p []byte, off int64) (int, error) {
	part, at := u.raw, off-u.start
	if tail := off - (u.File.size - int64(len(u.File.tail))); u.File.whole != nil {
		part, at = u.File.whole, off
	} else if tail >= 0 {
		part, at = u.File.tail, tail
	}
	if at < 0 || at >= int64(len(part)) {
		return 0, fmt.Errorf("read at %d: %w", off, errNotHeld)
	}
	n := copy(p, part[at:])
	if n < len(p) {
		return n, io.EOF
	}

	return n, nil
}

var errNotHeld = errors.New("this part of the file is not in memory")

// Bounds is what the footer says of a top-level column and all rows of the row
// group, Unknown when it says nothing that may be believed. It returns false when
// the field is not there or is nested.
func (u Unit) Bounds(fieldID int) (stats.Summary, page.Leaf, bool) {
	for _, c := range u.File.Layout.Columns() {
		if c.ID != fieldID || len(c.Path) != 1 {
			continue
		}
		switch {
		case c.Source < 0:
			return stats.Summary{Nulls: u.group().NumRows}, c.Leaf, true
		case c.Stored != nil:
			return stats.Summary{Unknown: true}, c.Leaf, true
		}

		return u.summary(c, c.Source), c.Leaf, true
	}

	return stats.Summary{}, page.Leaf{}, false
}
