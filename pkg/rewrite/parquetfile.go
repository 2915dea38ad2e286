package rewrite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

// schemaKey is where writers put the table's schema in a file.
const schemaKey = "iceberg.schema"

// fileForm is what the output files of a group have in common.
type fileForm struct {
	tbl     *table.Table    // as the writer sees it
	read    *iceberg.Schema // of the batches
	stored  *iceberg.Schema // of the file: names that Parquet allows
	arrow   *arrow.Schema   // of stored, with field ids
	leaves  map[int]leafColumn
	columns []parquet.WriterProperty
	sorting *sorting
	json    string
}

// newFileForm works out the schema of the files. lineage adds the columns of row
// ids.
func newFileForm(out *table.Table, s *sorting, lineage bool) (*fileForm, error) {
	f := &fileForm{tbl: out, read: out.Schema(), sorting: s}
	if lineage {
		f.read = iceberg.SchemaWithRowLineage(out.Schema())
	}
	var err error
	if f.stored, f.leaves, err = storedColumns(f.read, out.Properties()); err != nil {
		return nil, err
	}
	f.arrow, err = table.SchemaToArrowSchemaWithOptions(f.stored, table.ArrowSchemaOptions{IncludeFieldIDs: true, TableProperties: out.Properties()})
	if err != nil {
		return nil, fmt.Errorf("convert table schema to arrow: %w", err)
	}
	f.columns = columnProperties(out.Properties(), f.read, f.leaves)
	text, err := json.Marshal(out.Schema())
	if err != nil {
		return nil, fmt.Errorf("write schema of table: %w", err)
	}
	f.json = string(text)

	return f, nil
}

func arrowProperties() pqarrow.ArrowWriterProperties {
	return pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema())
}

// parquetFile is an output that is being written.
type parquetFile struct {
	form   *fileForm
	path   string
	target *countedFile
	writer *pqarrow.FileWriter
	limit  int64 // bytes of a row group
	nans   nanCounter
}

// countedFile counts what one file has been given.
type countedFile struct {
	iceio.FileWriter
	bytes int64
}

// Write implements io.Writer.
func (c *countedFile) Write(p []byte) (int, error) {
	n, err := c.FileWriter.Write(p)
	c.bytes += int64(n)

	return n, err //nolint:wrapcheck // a transparent decorator
}

// ReadFrom implements io.ReaderFrom.
func (c *countedFile) ReadFrom(src io.Reader) (int64, error) {
	n, err := c.FileWriter.ReadFrom(src)
	c.bytes += n

	return n, err //nolint:wrapcheck // a transparent decorator
}

// notClosing keeps the Parquet library from closing the file, whose error would
// not be seen.
type notClosing struct{ *countedFile }

// Close does nothing.
func (notClosing) Close() error { return nil }

// create begins a file of row groups of at most groupRows. sample are its first
// rows.
func (f *fileForm) create(storage iceio.WriteFileIO, path string, groupRows int64, sample arrow.RecordBatch) (*parquetFile, error) {
	sizes := fileSizes{groupRows: groupRows, columns: int64(len(f.leaves))}
	for _, col := range sample.Columns() {
		sizes.widest = max(sizes.widest, int64(col.Data().SizeInBytes())/max(1, sample.NumRows()))
	}
	props, err := parquetProperties(f.tbl.Properties(), sizes)
	if err != nil {
		return nil, err
	}
	props = append(props, f.columns...)
	props = append(props, parquet.WithSortingColumns(f.sorting.sortingColumns(f.leaves)))
	target, err := storage.Create(path)
	if err != nil {
		return nil, fmt.Errorf("begin output: %w", err)
	}
	out := &parquetFile{form: f, path: path, target: &countedFile{FileWriter: target}, limit: rowGroupBytes(f.tbl.Properties()), nans: make(nanCounter)}
	err = guarded(func() error {
		out.writer, err = pqarrow.NewFileWriter(f.arrow, notClosing{out.target}, parquet.NewWriterProperties(props...), arrowProperties())
		if err != nil {
			return err //nolint:wrapcheck // wrapped below
		}

		return out.writer.AppendKeyValueMetadata(schemaKey, f.json)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("begin output %s: %w", path, err), target.Close())
	}

	return out, nil
}

// guarded turns a panic of the Parquet library into an error.
func guarded(work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("parquet library: %v", p)
		}
	}()

	return work()
}

// write takes a batch, which stays the caller's.
func (p *parquetFile) write(ctx context.Context, rec arrow.RecordBatch) error {
	converted, err := table.ToRequestedSchema(ctx, p.form.stored, p.form.read, rec, table.SchemaOptions{
		DowncastTimestamp: true, IncludeFieldIDs: true, TableProperties: p.form.tbl.Properties(),
	})
	if err != nil {
		return fmt.Errorf("convert rows for output %s: %w", p.path, err)
	}
	defer converted.Release()
	stored, err := relabel(converted, p.form.arrow)
	if err != nil {
		return fmt.Errorf("convert rows for output %s: %w", p.path, err)
	}
	defer stored.Release()
	p.nans.add(p.form.stored, stored)
	// Row groups are cut between writes, so none may be a large part of one.
	step := max(1, p.limit/8/max(1, batchWidth(stored)))
	for at := int64(0); at < stored.NumRows(); at += step {
		some := stored.NewSlice(at, min(at+step, stored.NumRows()))
		err := guarded(func() error { return p.append(some) })
		some.Release()
		if err != nil {
			return fmt.Errorf("write output %s: %w", p.path, err)
		}
	}

	return nil
}

func (p *parquetFile) append(rec arrow.RecordBatch) error {
	if p.writer.RowGroupTotalCompressedBytes() >= p.limit {
		if err := p.writer.NewBufferedRowGroupChecked(); err != nil {
			return err //nolint:wrapcheck // wrapped by the caller
		}
	}

	return p.writer.WriteBuffered(rec) //nolint:wrapcheck // wrapped by the caller
}

// close ends the file and describes it, with the metrics that the table asks for.
func (p *parquetFile) close(spec iceberg.PartitionSpec, partition map[int]any) (iceberg.DataFile, error) {
	var footer *metadata.FileMetaData
	err := guarded(func() (err error) {
		if err := p.writer.Close(); err != nil {
			return err //nolint:wrapcheck // wrapped below
		}
		footer, err = p.writer.FileMetadata()

		return err //nolint:wrapcheck // wrapped below
	})
	if err = errors.Join(err, p.target.Close()); err != nil {
		return nil, fmt.Errorf("end output %s: %w", p.path, err)
	}
	args := table.DataFileArgs{
		Schema: p.form.stored, Spec: spec, Format: iceberg.ParquetFile, Metadata: footer,
		FilePath: p.path, FileSize: p.target.bytes, Content: iceberg.EntryContentData,
		PartitionValues: partition, Properties: p.form.tbl.Properties(), FormatVersion: p.form.tbl.Metadata().Version(),
	}
	df, err := table.DataFileFromMetadata(args)
	if err != nil {
		return nil, fmt.Errorf("describe output %s: %w", p.path, err)
	}

	var unsound map[int]struct{}
	if footer.NumRowGroups() > 1 {
		unsound = withoutExtremes(footer)
	}

	return described(p.form.tbl, df, measured{unsound, p.nans, p.form.sorting.orderID()})
}

// abandon closes a file that is not wanted. The caller removes it.
func (p *parquetFile) abandon() { _ = p.target.Close() }

// needsLibrary reports whether outputs of the table are written by iceberg-go.
func needsLibrary(sc *iceberg.Schema) bool {
	return libraryTypes(&iceberg.StructType{FieldList: sc.Fields()})
}

// libraryTypes reports whether a column needs what only iceberg-go's own writer
// does: bounds of shapes, and shredding of variants.
func libraryTypes(t iceberg.Type) bool {
	switch t := t.(type) {
	case iceberg.GeometryType, iceberg.GeographyType, iceberg.VariantType:
		return true
	case *iceberg.StructType:
		for _, f := range t.FieldList {
			if libraryTypes(f.Type) {
				return true
			}
		}
	case *iceberg.ListType:
		return libraryTypes(t.Element)
	case *iceberg.MapType:
		return libraryTypes(t.KeyType) || libraryTypes(t.ValueType)
	}

	return false
}
