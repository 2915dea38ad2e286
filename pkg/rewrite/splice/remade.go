package splice

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/iceberg-go"

	"compactor/pkg/rewrite/splice/column"
	"compactor/pkg/rewrite/splice/layout"
	"compactor/pkg/rewrite/splice/remake"
	"compactor/pkg/rewrite/splice/stats"
)

// Lineage is what rows of a file inherit that do not say it themselves (Iceberg
// specification, Row Lineage).
type Lineage struct {
	// FirstRowID is the id of the file's first row, nil when it has none.
	FirstRowID *int64
	// Sequence is the sequence number at which the rows were added.
	Sequence int64
}

// rowSet is a set of rows of a row group.
type rowSet struct{ words []uint64 }

func (s *rowSet) add(row int64) { s.words[row/64] |= 1 << (row % 64) }

func (s *rowSet) has(row int64) bool { return s.words[row/64]&(1<<(row%64)) != 0 }

// any reports whether one of the rows is in the set.
func (s *rowSet) any(from, to int64) bool {
	for row := from; row < to; row++ {
		if row%64 == 0 && row+64 <= to && s.words[row/64] == 0 {
			row += 63
		} else if s.has(row) {
			return true
		}
	}

	return false
}

// Without leaves out the rows whose position in the file is deleted. Pages that
// lose rows are decoded, or all pages of their column. The unit may have no row
// left.
func (u Unit) Without(deleted func(pos int64) bool) Unit {
	rows := u.group().NumRows
	gone := &rowSet{words: make([]uint64, (rows+63)/64)}
	u.kept = rows
	for row := range rows {
		if deleted(u.first + row) {
			gone.add(row)
			u.kept--
		}
	}
	if u.dropped = nil; u.kept < rows {
		u.dropped = gone
	}

	return u
}

// WithLineage gives the unit what its rows inherit. It matters where the output
// has the columns of row lineage.
func (u Unit) WithLineage(l Lineage) Unit {
	u.lineage = &l

	return u
}

// fill is what takes the place of nulls, nil where they stay.
func (u Unit) fill(c layout.Column, o layout.Origin) *remake.Fill {
	f := &remake.Fill{Def: o.Leaf.MaxDef}
	if o.Shape != nil {
		f.At = o.Shape.Def
	}
	if u.lineage != nil {
		switch first := u.lineage.FirstRowID; {
		case c.ID == iceberg.RowIDFieldID && first != nil:
			f.Number = func(row int64) int64 { return *first + u.first + row }

			return f
		case c.ID == iceberg.LastUpdatedSequenceNumberFieldID:
			f.Number = func(int64) int64 { return u.lineage.Sequence }

			return f
		}
	}
	if o.Default != nil {
		f.Value = o.Default

		return f
	}

	return nil
}

// complete reports whether a column is known to have no nulls.
func (u Unit) complete(c layout.Column, leaf int) bool {
	s := u.summary(c, leaf)

	return !s.Unknown && s.Nulls == 0
}

// remade decodes the column and encodes it as the output wants it.
func (u Unit) remade(c layout.Column, o layout.Origin, fill *remake.Fill, w *Options) (column.Source, error) {
	job := remake.Job{Leaf: c.Leaf, Rows: u.group().NumRows, Levels: o.Levels, Fill: fill, Properties: w.Remake}
	if o.Shape != nil {
		job.Shape = &remake.Shape{Def: o.Shape.Def, Rep: o.Shape.Rep}
	}
	if gone := u.dropped; gone != nil {
		job.Keep = func(row int64) bool { return !gone.has(row) }
	}
	if c.ID == iceberg.RowIDFieldID {
		// No id comes twice.
		job.Properties = append(job.Properties[:len(job.Properties):len(job.Properties)], parquet.WithDictionaryDefault(false))
	}
	var open func() (*file.Reader, error)
	if o.Source >= 0 {
		open = u.decoder
	}
	made, err := remake.Column(open, u.Group, o.Source, job)
	if err != nil {
		return column.Source{}, fmt.Errorf("decode: %w", err)
	}
	if made.Rows != u.kept {
		return column.Source{}, fmt.Errorf("%w: %d rows decoded of %d", ErrCorrupt, made.Rows, u.kept)
	}

	return column.Source{
		Chunk: made.Chunk, Rows: made.Rows, Summary: made.Summary, Decoded: true,
		NaNs: column.NaNs{Kept: made.NaNs, Counted: stats.NaNs(c.Leaf, o.Default) == 0, Dropped: made.GoneNaNs},
	}, nil
}

// decoder is the Parquet library's reader of what is in memory.
func (u Unit) decoder() (*file.Reader, error) {
	footer, err := u.File.decoded()
	if err != nil {
		return nil, fmt.Errorf("%w: read footer: %w", ErrCorrupt, err)
	}
	pf, err := file.NewParquetReader(io.NewSectionReader(u, 0, u.File.size), file.WithMetadata(footer))
	if err != nil {
		return nil, fmt.Errorf("%w: open file: %w", ErrCorrupt, err)
	}

	return pf, nil
}
