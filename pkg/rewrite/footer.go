package rewrite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"
)

const (
	// inspectors is how many footers are read at once.
	inspectors = 4
	// inspectWhole is the size up to which a file is fetched whole to be
	// inspected, which is one request instead of one for each column.
	inspectWhole = 1 << 20
	// inspectBuffer is what is fetched at once of a larger file's column.
	inspectBuffer = 128 << 10
	// inspectPage is the largest page that is decompressed without asking for
	// memory.
	inspectPage = 4 << 20
)

// errLargePage means that a page is above the limit of an inspection.
var errLargePage = errors.New("page too large to be looked at")

// admit asks for memory and tells how much may be used until it is given back.
type admit func(ctx context.Context) (bytes int64, done func(), err error)

// inspect reads the footer of every file and returns the files with what it
// says. A file is refused when values would be lost by reading it, such as when
// its columns cannot be told apart; it is left out, and is in the second result.
func inspect(ctx context.Context, tbl *table.Table, files []File, memory admit) ([]File, []refusedFile, error) {
	storage, err := tbl.FS(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("open storage of table: %w", err)
	}
	keys, err := readKeyForms(ctx, tbl, storage, files)
	if err != nil {
		return nil, nil, err
	}
	out, reasons := make([]File, len(files)), make([]error, len(files))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(inspectors)
	for i, f := range files {
		work.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			known, err := inspectFile(tbl, storage, f, keys, inspectPage)
			if errors.Is(err, errLargePage) {
				known, err = inspectLarge(ctx, memory, func(limit int64) (*fileShape, error) {
					return inspectFile(tbl, storage, f, keys, limit)
				})
			}
			if errors.Is(err, ErrRefused) {
				reasons[i] = err

				return nil
			}
			if err != nil {
				return fmt.Errorf("data file %s: %w", f.Data.FilePath(), err)
			}
			f.shape = known
			out[i] = f

			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return nil, nil, err //nolint:wrapcheck // wrapped with the file above
	}
	left, refused := separate(out, files, reasons)

	return left, refused, nil
}

// inspectAll is inspect for files of which none may be refused.
func inspectAll(ctx context.Context, tbl *table.Table, files []File, memory admit) ([]File, error) {
	out, refused, err := inspect(ctx, tbl, files, memory)
	if err == nil && len(refused) > 0 {
		err = refused[0].error()
	}

	return out, err
}

// inspectLarge looks again with all the memory that can be had for it. A page
// is held twice, as stored and decompressed.
func inspectLarge(ctx context.Context, memory admit, look func(limit int64) (*fileShape, error)) (*fileShape, error) {
	share, done, err := memory(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	known, err := look(max(inspectPage, share/2))
	if errors.Is(err, errLargePage) {
		return nil, fmt.Errorf("a page of the file needs more than %d bytes of memory", share)
	}

	return known, err
}

func inspectFile(tbl *table.Table, storage iceio.IO, f File, keys keyForms, limit int64) (s *fileShape, err error) {
	defer func() {
		// A damaged footer makes the Parquet library panic.
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("%w: read footer: %v", errUnreadable, p)
		}
	}()
	in, err := storage.Open(f.Data.FilePath())
	if err != nil {
		return nil, unreadable(err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	source, err := sourceOf(in, f.Data.FileSizeBytes())
	if err != nil {
		return nil, unreadable(err)
	}
	props := parquet.NewReaderProperties(nil)
	props.BufferedStreamEnabled, props.BufferSize = true, inspectBuffer
	props.MaxUncompressedPageSize, props.MaxCompressedPageSize = limit, limit
	pf, err := file.NewParquetReader(source, file.WithReadProps(props))
	if err != nil {
		return nil, unreadable(err)
	}
	inside, err := readContents(tbl, f, pf.MetaData(), keys)
	if err != nil {
		return nil, err
	}
	s, err = measure(pf)
	if err == nil {
		s.contents = inside
	}

	return s, err
}

// sourceOf fetches a small file whole. A size that is not the file's own is
// left to the Parquet library, which looks for itself.
func sourceOf(in iceio.File, size int64) (parquet.ReaderAtSeeker, error) {
	end, err := in.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("find end of file: %w", err)
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("rewind file: %w", err)
	}
	if end != size || size > inspectWhole {
		return in, nil
	}
	raw := make([]byte, size)
	if _, err := io.ReadFull(in, raw); err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}

	return bytes.NewReader(raw), nil
}

// readContents checks that all rows of a file can be read as they are: that
// there are as many as its manifest says, and that the columns can be told by id
// or by name and their types can be converted. It returns the columns for which
// that takes more than iceberg-go does.
func readContents(tbl *table.Table, f File, footer *metadata.FileMetaData, keys keyForms) (contents, error) {
	var out contents
	if footer.NumRows != f.Data.Count() {
		return out, fmt.Errorf("%w: it has %d rows, its manifest says %d", ErrRefused, footer.NumRows, f.Data.Count())
	}
	if err := soundGroups(footer); err != nil {
		return out, err
	}
	stored, err := readFileSchema(tbl, footer)
	if err != nil {
		return out, err
	}
	if out.instants, err = instantsOf(tbl, footer, stored); err != nil {
		return out, err
	}
	if out.prefixed, err = prefixedOf(tbl, footer, stored); err != nil {
		return out, err
	}
	if err := stored.readable(tbl, out.instants); err != nil {
		return out, err
	}
	spec := tbl.Metadata().PartitionSpecByID(int(f.Data.SpecID()))
	if spec == nil {
		return out, fmt.Errorf("%w: partition spec %d is not in the table metadata", ErrRefused, f.Data.SpecID())
	}
	if out.constants, err = constantsOf(tbl, f, *spec, stored); err != nil {
		return out, err
	}

	return out, stored.comparable(f.Deletes, keys, out.instants)
}

// soundGroups refuses a file whose row groups cannot be what its footer says they
// are. The Parquet library reads a row group of a negative number of rows as one
// of as many as its pages hold.
func soundGroups(footer *metadata.FileMetaData) error {
	var rows int64
	for i := range footer.NumRowGroups() {
		n := footer.RowGroup(i).NumRows()
		if n < 0 {
			return fmt.Errorf("%w: row group %d has %d rows by its footer", ErrRefused, i, n)
		}
		rows += n
	}
	if rows != footer.NumRows {
		return fmt.Errorf("%w: its row groups have %d rows, its footer says %d", ErrRefused, rows, footer.NumRows)
	}

	return nil
}

// identityFields are the fields whose partition value is the column's value.
func identityFields(spec iceberg.PartitionSpec) []iceberg.PartitionField {
	var out []iceberg.PartitionField
	for _, field := range spec.Fields() {
		switch field.Transform.(type) {
		case iceberg.IdentityTransform, *iceberg.IdentityTransform:
			out = append(out, field)
		}
	}

	return out
}
