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
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"
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
// says. A file is refused when rows would be lost by reading it: when its
// columns cannot be told apart, or when a value of its partition is not in the
// file. The first refused file is named in the error.
func inspect(ctx context.Context, tbl *table.Table, files []File, memory admit) ([]File, error) {
	storage, err := tbl.FS(ctx)
	if err != nil {
		return nil, fmt.Errorf("open storage of table: %w", err)
	}
	out := make([]File, len(files))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(inspectors)
	for i, f := range files {
		work.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			known, err := inspectFile(tbl, storage, f, inspectPage)
			if errors.Is(err, errLargePage) {
				known, err = inspectLarge(ctx, memory, func(limit int64) (*fileShape, error) {
					return inspectFile(tbl, storage, f, limit)
				})
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
		return nil, err //nolint:wrapcheck // wrapped with the file above
	}

	return out, nil
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

func inspectFile(tbl *table.Table, storage iceio.IO, f File, limit int64) (s *fileShape, err error) {
	defer func() {
		// A damaged footer makes the Parquet library panic.
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("%w: read footer: %v", errUnreadable, p)
		}
	}()
	in, err := storage.Open(f.Data.FilePath())
	if err != nil {
		return nil, errors.Join(errUnreadable, err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	source, err := sourceOf(in, f.Data.FileSizeBytes())
	if err != nil {
		return nil, errors.Join(errUnreadable, err)
	}
	props := parquet.NewReaderProperties(nil)
	props.BufferedStreamEnabled, props.BufferSize = true, inspectBuffer
	props.MaxUncompressedPageSize, props.MaxCompressedPageSize = limit, limit
	pf, err := file.NewParquetReader(source, file.WithReadProps(props))
	if err != nil {
		return nil, errors.Join(errUnreadable, err)
	}
	if err := columnsKnown(tbl, f.Data, pf.MetaData()); err != nil {
		return nil, err
	}

	return measure(pf)
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

// columnsKnown checks that the file's columns can be told by id or by name, and
// that every identity partition value is stored in the file. Files that were
// taken over from Hive hold such a value in their path alone; the engine reads
// it as missing, and a rewrite would make that final.
func columnsKnown(tbl *table.Table, df iceberg.DataFile, footer *metadata.FileMetaData) error {
	has, err := fieldIDs(tbl, footer)
	if err != nil {
		return err
	}
	spec := tbl.Metadata().PartitionSpecByID(int(df.SpecID()))
	if spec == nil {
		return fmt.Errorf("partition spec %d: not in the table metadata", df.SpecID())
	}
	for _, field := range identityFields(*spec) {
		if df.Partition()[field.FieldID] == nil || has(field.SourceID()) {
			continue
		}
		if name, live := tbl.Schema().FindColumnName(field.SourceID()); live {
			return fmt.Errorf("column %s is not in the file, its value %v stands in the partition %s alone and would be lost",
				name, df.Partition()[field.FieldID], field.Name)
		}
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

// fieldIDs tells which fields of the table the file has.
func fieldIDs(tbl *table.Table, footer *metadata.FileMetaData) (func(id int) bool, error) {
	root := footer.Schema.Root()
	ids := make(map[int]bool)
	tagged := true
	for i := range root.NumFields() {
		tagged = tagged && root.Field(i).FieldID() >= 0
		collectIDs(root.Field(i), ids)
	}
	if tagged {
		return func(id int) bool { return ids[id] }, nil
	}
	mapping := tbl.Metadata().NameMapping()
	if mapping == nil {
		return nil, errors.New("its columns carry no field ids and the table has no name mapping, so they cannot be told apart")
	}
	sc, err := pqarrow.FromParquet(footer.Schema, nil, footer.KeyValueMetadata())
	if err != nil {
		return nil, fmt.Errorf("convert file schema to arrow: %w", err)
	}
	mapped, err := table.ArrowSchemaToIceberg(sc, false, mapping)
	if err != nil {
		return nil, fmt.Errorf("map column names to field ids: %w", err)
	}

	return func(id int) bool {
		_, found := mapped.FindFieldByID(id)

		return found
	}, nil
}

func collectIDs(node schema.Node, ids map[int]bool) {
	if node.FieldID() >= 0 {
		ids[int(node.FieldID())] = true
	}
	if group, ok := node.(*schema.GroupNode); ok {
		for i := range group.NumFields() {
			collectIDs(group.Field(i), ids)
		}
	}
}
