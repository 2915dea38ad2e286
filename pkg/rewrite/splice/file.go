package splice

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/parquet/metadata"

	"compactor/pkg/rewrite/splice/codec"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/layout"
	"compactor/pkg/rewrite/splice/refuse"
)

// Rules of refusal.
const (
	RuleEncrypted refuse.Rule = "encrypted file"
	RuleElsewhere refuse.Rule = "column data in another file"
	RuleFooter    refuse.Rule = "footer too large"
	RuleCodec     refuse.Rule = "compression codec that is not known"
)

// ErrCorrupt means that a file is not what the format allows.
var ErrCorrupt = errors.New("corrupt file")

const (
	magic     = "PAR1"
	magicAAD  = "PARE"
	tailBytes = 8
	// firstRead is how much of a file's end is fetched at first.
	firstRead = 64 << 10
	// largestIndexes is how much of a file's page indexes is kept, in bytes.
	largestIndexes = 1 << 20
	// largestFooter is the size up to which a footer is read, in bytes.
	largestFooter = 32 << 20
)

// File is an open Parquet file. It is safe for concurrent use when its source
// is.
type File struct {
	Footer *format.FileMetaData
	Layout *layout.Layout
	src    io.ReaderAt
	whole  []byte // of a file in memory
	tail   []byte // the end of another file: footer, and page indexes if they are small
	size   int64
	body   int64 // offset at which the footer begins
	// decoded is the footer as the Parquet library knows it, for what is decoded.
	decoded func() (*metadata.FileMetaData, error)
}

// OpenBytes is OpenFile for a file in memory. Its units are parts of raw, which
// must not change.
func OpenBytes(raw []byte, fields *layout.Finder) (*File, error) {
	return open(&File{whole: raw, size: int64(len(raw))}, fields)
}

// OpenFile reads the footer and finds the table's fields in the file. The error is
// a refusal, wraps ErrCorrupt or that of a part, or comes from the source. The
// source has to stay open until the last unit is loaded; whoever opened it closes
// it.
func OpenFile(src io.ReaderAt, size int64, fields *layout.Finder) (*File, error) {
	f, err := open(&File{src: src, size: size}, fields)
	if err != nil {
		return nil, err
	}

	return f, f.keepTail()
}

func open(f *File, fields *layout.Finder) (*File, error) {
	raw, err := f.readFooter()
	if err != nil {
		return nil, err
	}
	if f.Footer, err = format.ReadFooter(raw); err != nil {
		return nil, err //nolint:wrapcheck // says what it is
	}
	f.decoded = sync.OnceValues(func() (*metadata.FileMetaData, error) { return metadata.NewFileMetaData(raw, nil) })
	if f.Footer.Encrypted {
		return nil, &refuse.Error{Rule: RuleEncrypted}
	}
	if f.Layout, err = fields.Of(f.Footer); err != nil {
		return nil, err //nolint:wrapcheck // says what it is
	}
	if err := f.check(); err != nil {
		return nil, err
	}

	return f, nil
}

// keepTail keeps what is needed after the source is closed: the footer, and the
// indexes between the last page and the footer.
func (f *File) keepTail() (err error) {
	start := int64(len(magic))
	for i := range f.Footer.RowGroups {
		for c := range f.Footer.RowGroups[i].Columns {
			m := f.Footer.RowGroups[i].Columns[c].Meta
			start = max(start, m.Start()+m.TotalCompressed)
		}
	}
	if f.body-start > largestIndexes {
		start = f.body
	}
	start = min(start, f.size-min(f.size, firstRead))
	f.tail, err = f.bytes(start, f.size-start)

	return err
}

// readFooter reads the end of the file (README.md, File format).
func (f *File) readFooter() ([]byte, error) {
	n := min(f.size, firstRead)
	if n < int64(len(magic)+tailBytes) {
		return nil, fmt.Errorf("%w: %d bytes", ErrCorrupt, f.size)
	}
	end, err := f.bytes(f.size-n, n)
	if err != nil {
		return nil, err
	}
	tail := end[n-tailBytes:]
	switch string(tail[4:]) {
	case magic:
	case magicAAD:
		return nil, &refuse.Error{Rule: RuleEncrypted}
	default:
		return nil, fmt.Errorf("%w: no magic at its end", ErrCorrupt)
	}
	length := int64(binary.LittleEndian.Uint32(tail))
	switch {
	case length > f.size-int64(len(magic)+tailBytes):
		return nil, fmt.Errorf("%w: footer of %d bytes in %d", ErrCorrupt, length, f.size)
	case length > largestFooter:
		return nil, &refuse.Error{Rule: RuleFooter, Detail: fmt.Sprintf("%d bytes", length)}
	}
	f.body = f.size - tailBytes - length
	if length <= n-tailBytes {
		return end[n-tailBytes-length : n-tailBytes], nil
	}

	return f.bytes(f.body, length)
}

// bytes reads a range, whose bounds the caller has checked.
func (f *File) bytes(off, n int64) ([]byte, error) {
	if f.whole != nil {
		return f.whole[off : off+n : off+n], nil
	}
	if at := off - (f.size - int64(len(f.tail))); at >= 0 && at+n <= int64(len(f.tail)) {
		return f.tail[at : at+n : at+n], nil
	}
	b := make([]byte, n)
	if got, err := f.src.ReadAt(b, off); int64(got) < n {
		return nil, fmt.Errorf("read %d bytes at %d: %w", n, off, errors.Join(err, io.ErrUnexpectedEOF))
	}

	return b, nil
}

// check compares the footer with itself and with the file's size.
func (f *File) check() error {
	var rows int64
	for i := range f.Footer.RowGroups {
		g := &f.Footer.RowGroups[i]
		if g.NumRows < 0 {
			return fmt.Errorf("%w: row group of %d rows", ErrCorrupt, g.NumRows)
		}
		rows += g.NumRows
		for c := range g.Columns {
			if err := f.checkChunk(&g.Columns[c]); err != nil {
				return fmt.Errorf("column %d of row group %d: %w", c, i, err)
			}
		}
		for _, c := range f.Layout.Columns() {
			if t, known := c.InFile(); known && g.Columns[c.Source].Meta.Type != t {
				return fmt.Errorf("%w: column %d is of two types", ErrCorrupt, c.Source)
			}
		}
		if err := f.checkPrefixes(g); err != nil {
			return err
		}
	}
	if rows != f.Footer.NumRows {
		return fmt.Errorf("%w: %d rows in row groups, %d in the footer", ErrCorrupt, rows, f.Footer.NumRows)
	}

	return nil
}

func (f *File) checkChunk(c *format.ColumnChunk) error {
	switch {
	case c.Encrypted:
		return &refuse.Error{Rule: RuleEncrypted}
	case c.FilePath != "":
		return &refuse.Error{Rule: RuleElsewhere}
	case c.Meta == nil:
		return fmt.Errorf("%w: no metadata", ErrCorrupt)
	case !codec.Known(c.Meta.Codec):
		return &refuse.Error{Rule: RuleCodec, Detail: fmt.Sprintf("%d", c.Meta.Codec)}
	}
	start := c.Meta.Start()
	if start < int64(len(magic)) || c.Meta.TotalCompressed < 0 || c.Meta.NumValues < 0 ||
		start > f.body || c.Meta.TotalCompressed > f.body-start {
		return fmt.Errorf("%w: %d values in %d bytes at %d", ErrCorrupt, c.Meta.NumValues, c.Meta.TotalCompressed, start)
	}

	return nil
}

// Units are the file's row groups, those without rows left out.
func (f *File) Units() []Unit {
	var out []Unit
	var first int64
	for i := range f.Footer.RowGroups {
		rows := f.Footer.RowGroups[i].NumRows
		if rows > 0 {
			out = append(out, Unit{File: f, Group: i, first: first, kept: rows})
		}
		first += rows
	}

	return out
}
