// Package remake decodes one column chunk, or some pages of it, and encodes it
// anew. It is for the few chunks that cannot be moved: rows were deleted, values
// were widened, or a file lacks what the table has. Every other column of the row group is moved.
//
// Decoding and encoding are those of the Parquet library, with one leaf column in
// memory. Levels are numbers to it: the tree that they stand for is replaced by
// the plainest one with as many levels (README.md, Nested Encoding), because
// levels do not say which of their ancestors is a list or a struct.
package remake

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/stats"
)

// ErrCorrupt means that a chunk cannot be decoded to what its footer promises.
var ErrCorrupt = errors.New("corrupt column chunk")

// Job says what becomes of a chunk.
type Job struct {
	// Leaf is the column in the output.
	Leaf page.Leaf
	// Rows is how many rows come in.
	Rows int64
	// Keep says which rows come out, counted from 0; nil for all.
	Keep func(row int64) bool
	// Levels has the definition level in the output for each one that comes in.
	// Nil leaves them as they are.
	Levels []int16
	// Shape makes nulls in the form of the column that is read, whose values are
	// not used.
	Shape *Shape
	// Fill makes values where the definition level is At.
	Fill *Fill
	// Properties are those of the writer.
	Properties []parquet.WriterProperty
	// Gone asks for a summary of what does not come out.
	Gone bool

	nans     int64 // that come out
	goneNaNs int64 // in rows that do not
	gone     stats.Summary
	nan      uint64 // bits of the first one
	nanForms bool   // there is one with other bits
}

// Shape is where a column that is missing has to branch off: at the levels of
// the innermost group that is there.
type Shape struct{ Def, Rep int }

// Fill makes values.
type Fill struct {
	// At is the definition level, as read, that is replaced by Def.
	At, Def int
	// Value is one PLAIN value for all rows, without the length of a byte array.
	Value []byte
	// Number gives each row a number of its own; it goes before Value.
	Number func(row int64) int64
}

// Made is a chunk made anew.
type Made struct {
	Chunk   *page.Chunk
	Summary stats.Summary
	Rows    int64
	// NaNs come out, GoneNaNs were in rows that do not.
	NaNs, GoneNaNs int64
	// Gone is the summary of rows that do not come out, if the job asks for it. Nulls
	// are those of a column outside of lists.
	Gone stats.Summary
}

// Column decodes a column of a row group and encodes it as the job says. Without
// an opener it starts from a column of nulls.
func Column(open func() (*file.Reader, error), rowGroup, column int, j Job) (m Made, err error) {
	defer func() {
		// The Parquet library panics on damaged input.
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrCorrupt, p)
		}
	}()
	var out bytes.Buffer
	if m.Rows, err = j.encode(&out, open, rowGroup, column); err != nil {
		return m, err
	}
	if j.nanForms {
		// A dictionary has one NaN for all that differ in their bits (nan.go).
		out.Reset()
		j.Properties = append(slices.Clone(j.Properties), parquet.WithDictionaryDefault(false))
		if m.Rows, err = j.encode(&out, open, rowGroup, column); err != nil {
			return m, err
		}
	}

	m.NaNs, m.GoneNaNs, m.Gone = j.nans, j.goneNaNs, j.gone
	if m.Rows == 0 && j.Gone {
		return m, nil
	}

	return m, m.takeApart(out.Bytes(), j.Leaf)
}

func (j *Job) encode(out *bytes.Buffer, open func() (*file.Reader, error), rowGroup, column int) (int64, error) {
	j.nans, j.goneNaNs, j.gone = 0, 0, stats.Summary{}
	if open == nil {
		return j.write(out, nil)
	}
	pf, err := open()
	if err != nil {
		return 0, err
	}
	if rowGroup >= pf.NumRowGroups() || column >= pf.RowGroup(rowGroup).NumColumns() {
		return 0, fmt.Errorf("%w: no column %d in row group %d", ErrCorrupt, column, rowGroup)
	}
	if err := stats.Decodable(pf, rowGroup, column); err != nil {
		return 0, err //nolint:wrapcheck // says what it is
	}
	reader, err := pf.RowGroup(rowGroup).Column(column)
	if err != nil {
		return 0, fmt.Errorf("%w: open: %w", ErrCorrupt, err)
	}

	return j.write(out, reader)
}

func (j *Job) write(out *bytes.Buffer, reader file.ColumnChunkReader) (int64, error) {
	root, err := schemaOf(j.Leaf)
	if err != nil {
		return 0, err
	}
	w, err := file.NewParquetWriterWithError(out, root, file.WithWriterProps(parquet.NewWriterProperties(j.Properties...)))
	if err != nil {
		return 0, fmt.Errorf("begin chunk: %w", err)
	}
	group, err := w.AppendRowGroupChecked()
	if err != nil {
		return 0, fmt.Errorf("begin chunk: %w", err)
	}
	column, err := group.NextColumn()
	if err != nil {
		return 0, fmt.Errorf("begin chunk: %w", err)
	}
	rows, err := j.convert(reader, column)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(column.Close(), group.Close(), w.Close()); err != nil {
		return 0, fmt.Errorf("finish chunk: %w", err)
	}

	return rows, nil
}

// takeApart finds the chunk in the file that was written around it.
func (m *Made) takeApart(raw []byte, leaf page.Leaf) error {
	const tail = 8
	if len(raw) < tail {
		return fmt.Errorf("%w: written file of %d bytes", ErrCorrupt, len(raw))
	}
	end := len(raw) - tail
	start := end - int(binary.LittleEndian.Uint32(raw[end:]))
	if start < 0 {
		return fmt.Errorf("%w: written footer of %d bytes", ErrCorrupt, end-start)
	}
	footer, err := format.ReadFooter(raw[start:end])
	if err != nil {
		return err //nolint:wrapcheck // says what it is
	}
	if len(footer.RowGroups) != 1 || len(footer.RowGroups[0].Columns) != 1 || footer.RowGroups[0].Columns[0].Meta == nil {
		return fmt.Errorf("%w: written file has not one chunk", ErrCorrupt)
	}
	meta := footer.RowGroups[0].Columns[0].Meta
	from := meta.Start()
	if m.Chunk, err = page.Walk(raw[from:from+meta.TotalCompressed], meta, leaf); err != nil {
		return err //nolint:wrapcheck // says what it is
	}
	if m.Summary = stats.Of(leaf, meta.Statistics, meta.NumValues); m.Summary.Unknown {
		m.Summary, err = stats.Measure(bytes.NewReader(raw), 0, 0)
	}

	return err //nolint:wrapcheck // says what it is
}
