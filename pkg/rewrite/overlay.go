package rewrite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"compactor/pkg/rewrite/splice/format"
)

// footerEnd is the length of the footer and the mark behind it.
const footerEnd = 8

// converted is the table with the files that have instants, or columns in an
// encoding that the Parquet library does not know, as iceberg-go can read them.
// Rows, their order and the file's name stay, so deletes apply as before. A file is
// converted each time it is opened; what was converted is in a temporary file in
// dir.
func converted(tbl *table.Table, files []File, dir string) *table.Table {
	byPath := make(map[string]contents)
	for _, f := range files {
		if f.shape != nil && f.shape.overlaid() {
			byPath[f.Data.FilePath()] = f.shape.contents
		}
	}
	if len(byPath) == 0 {
		return tbl
	}
	open := func(ctx context.Context) (iceio.IO, error) {
		storage, err := tbl.FS(ctx)
		if err != nil {
			return nil, fmt.Errorf("open storage of table: %w", err)
		}

		return overlays{IO: storage, columns: byPath, dir: dir}, nil
	}

	return table.New(tbl.Identifier(), tbl.Metadata(), tbl.MetadataLocation(), open, nil)
}

// overlays is storage in which some files have columns of another form.
type overlays struct {
	iceio.IO
	columns map[string]contents
	dir     string
}

// overlaid reports whether there are columns to be converted.
func (c contents) overlaid() bool { return len(c.instants)+len(c.prefixed) > 0 }

// Open implements iceio.IO.
func (o overlays) Open(name string) (iceio.File, error) {
	in, err := o.IO.Open(name)
	columns := o.columns[name]
	if err != nil || !columns.overlaid() {
		return in, err //nolint:wrapcheck // a transparent decorator
	}
	var out *overlay
	err = guarded(func() (err error) {
		out, err = newOverlay(in, columns, o.dir)

		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("convert columns: %w", err), in.Close())
	}

	return out, nil
}

// overlay is a file, followed by converted column chunks, followed by a footer
// that points at these.
type overlay struct {
	iceio.File
	*io.SectionReader
	spill *os.File
}

var _ iceio.File = (*overlay)(nil)

// newOverlay takes over its file unless it fails.
func newOverlay(in iceio.File, columns contents, dir string) (_ *overlay, err error) {
	size, footer, err := readFooter(in)
	if err != nil {
		return nil, err
	}
	spill, err := os.CreateTemp(dir, "compactor-columns-*")
	if err != nil {
		return nil, fmt.Errorf("create file for converted columns: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, spill.Close())
		}
	}()
	// Without its name it is gone when it is closed or the process ends.
	if err := os.Remove(spill.Name()); err != nil {
		return nil, fmt.Errorf("unlink file for converted columns: %w", err)
	}
	props := parquet.NewReaderProperties(nil)
	props.BufferedStreamEnabled, props.BufferSize = true, inspectBuffer
	pf, err := file.NewParquetReader(in, file.WithReadProps(props))
	if err != nil {
		return nil, fmt.Errorf("open file: %w", err)
	}
	middle, err := convertAll(pf, footer, columns, plainer{in: in, end: size, to: spill})
	if err != nil {
		return nil, err
	}
	end := footer.Append(nil)
	end = binary.LittleEndian.AppendUint32(end, uint32(len(end)))
	if _, err := spill.Write(append(end, "PAR1"...)); err != nil {
		return nil, fmt.Errorf("write footer: %w", err)
	}
	whole := size + middle + int64(len(end)) + 4
	out := &overlay{File: in, SectionReader: io.NewSectionReader(joined{in, spill, size}, 0, whole), spill: spill}

	return out, sameColumns(pf, out, columns.instants)
}

// convertAll writes the columns anew, behind the file, and returns how many bytes
// they take.
func convertAll(pf *file.Reader, footer *format.FileMetaData, columns contents, p plainer) (int64, error) {
	size := p.end
	if len(columns.instants) > 0 {
		if err := convertColumns(pf, footer, columns.instants, size, openEnd{p.to}); err != nil {
			return 0, err
		}
	}
	middle, err := p.to.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, fmt.Errorf("find end of converted columns: %w", err)
	}
	p.at = size + middle
	if err := plainColumns(&p, footer, columns.prefixed, pf.MetaData().Schema); err != nil {
		return 0, err
	}

	return p.at - size, nil
}

// sameColumns makes sure that the columns that were not converted are described
// as before: the footer is written by what the splice engine knows of footers.
func sameColumns(before *file.Reader, o *overlay, columns []instants) error {
	after, err := file.NewParquetReader(o)
	if err != nil {
		return fmt.Errorf("open file with converted columns: %w", err)
	}
	for i := range before.MetaData().Schema.NumColumns() {
		a, b := before.MetaData().Schema.Column(i), after.MetaData().Schema.Column(i)
		if slices.ContainsFunc(columns, func(c instants) bool { return c.column == i }) {
			continue
		}
		// Some writers give numbers a length too.
		length := a.PhysicalType() != parquet.Types.FixedLenByteArray || a.TypeLength() == b.TypeLength()
		if !a.LogicalType().Equals(b.LogicalType()) || a.PhysicalType() != b.PhysicalType() || !length || a.Path() != b.Path() ||
			a.MaxDefinitionLevel() != b.MaxDefinitionLevel() || a.MaxRepetitionLevel() != b.MaxRepetitionLevel() {
			return fmt.Errorf("%w: column %s has a type that is not known beside columns that have to be converted", ErrRefused, a.Path())
		}
	}

	return nil
}

// openEnd keeps the Parquet library from closing a file.
type openEnd struct{ io.Writer }

// readFooter reads a footer with all that the splice engine knows of it.
func readFooter(in io.ReaderAt) (size int64, _ *format.FileMetaData, err error) {
	seeker, ok := in.(io.Seeker)
	if !ok {
		return 0, nil, fmt.Errorf("%T has no end", in)
	}
	if size, err = seeker.Seek(0, io.SeekEnd); err != nil {
		return 0, nil, fmt.Errorf("find end of file: %w", err)
	}
	end := make([]byte, footerEnd)
	if _, err := in.ReadAt(end, max(0, size-footerEnd)); err != nil {
		return 0, nil, fmt.Errorf("read end of file: %w", err)
	}
	length := int64(binary.LittleEndian.Uint32(end))
	if string(end[4:]) != "PAR1" || length > size-footerEnd {
		return 0, nil, fmt.Errorf("%w: it does not end in a Parquet footer", errUnreadable)
	}
	raw := make([]byte, length)
	if _, err := in.ReadAt(raw, size-footerEnd-length); err != nil {
		return 0, nil, fmt.Errorf("read footer: %w", err)
	}
	footer, err := format.ReadFooter(raw)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	for i := range footer.Schema {
		// Older writers say it in the converted type alone.
		if e := &footer.Schema[i]; e.Converted != nil && *e.Converted == format.ConvertedDecimal {
			e.Logical = format.LogicalType{Kind: format.LogicalDecimal, Precision: e.Precision, Scale: e.Scale}
		}
	}

	return size, footer, nil
}

// Read implements io.Reader.
func (o *overlay) Read(p []byte) (int, error) { return o.SectionReader.Read(p) } //nolint:wrapcheck // io.EOF has to stay what it is

// ReadAt implements io.ReaderAt.
func (o *overlay) ReadAt(p []byte, off int64) (int, error) { return o.SectionReader.ReadAt(p, off) } //nolint:wrapcheck // io.EOF has to stay what it is

// Seek implements io.Seeker.
func (o *overlay) Seek(offset int64, whence int) (int64, error) {
	return o.SectionReader.Seek(offset, whence) //nolint:wrapcheck // a transparent decorator
}

// Close implements io.Closer.
func (o *overlay) Close() error {
	return errors.Join(o.File.Close(), o.spill.Close())
}

// joined is one reader behind another.
type joined struct {
	first, second io.ReaderAt
	border        int64
}

// ReadAt implements io.ReaderAt.
func (j joined) ReadAt(p []byte, off int64) (int, error) {
	if off >= j.border {
		return j.second.ReadAt(p, off-j.border) //nolint:wrapcheck // io.EOF has to stay what it is
	}
	head := min(int64(len(p)), j.border-off)
	n, err := j.first.ReadAt(p[:head], off)
	if int64(n) < head {
		return n, err //nolint:wrapcheck // as above
	}
	if int64(len(p)) == head {
		return n, nil
	}
	more, err := j.second.ReadAt(p[head:], 0)

	return n + more, err //nolint:wrapcheck // as above
}
