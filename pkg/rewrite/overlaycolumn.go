package rewrite

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"compactor/pkg/rewrite/splice/format"
)

// overlayValues is how many values are converted at once.
const overlayValues = 1024

// convertColumns writes the columns anew, behind a file of the given size, and
// makes the footer point at them. Their statistics are dropped: those of INT96
// have no order that writers agree on.
func convertColumns(pf *file.Reader, footer *format.FileMetaData, columns []instants, size int64, to io.Writer) error {
	fields := make(schema.FieldList, 0, len(columns))
	for _, c := range columns {
		field, err := levelled(pf.MetaData().Schema.Column(c.column), fmt.Sprint(c.column))
		if err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
		fields = append(fields, field)
	}
	root, err := schema.NewGroupNode("schema", parquet.Repetitions.Required, fields, -1)
	if err != nil {
		return fmt.Errorf("make schema of converted columns: %w", err)
	}
	// Version 1 pages may end inside a row, so any batch may be written.
	props := parquet.NewWriterProperties(parquet.WithDictionaryDefault(false), parquet.WithStats(false),
		parquet.WithCompression(compress.Codecs.Snappy), parquet.WithDataPageVersion(parquet.DataPageV1))

	return guarded(func() error {
		out, err := file.NewParquetWriterWithError(to, root, file.WithWriterProps(props))
		if err != nil {
			return fmt.Errorf("begin converted columns: %w", err)
		}
		for g := range pf.NumRowGroups() {
			if err := convertGroup(pf.RowGroup(g), columns, out); err != nil {
				return fmt.Errorf("row group %d: %w", g, err)
			}
		}
		if err := out.Close(); err != nil {
			return fmt.Errorf("end converted columns: %w", err)
		}

		return pointAt(footer, columns, size, out)
	})
}

// levelled is a column of microseconds with the levels of another, whatever
// groups those come from.
func levelled(like *schema.Column, name string) (schema.Node, error) {
	repeated := int(like.MaxRepetitionLevel())
	optional := int(like.MaxDefinitionLevel()) - repeated
	repetition := parquet.Repetitions.Required
	if optional > 0 {
		repetition = parquet.Repetitions.Optional
		optional--
	}
	var node schema.Node
	node, err := schema.NewPrimitiveNode(name, repetition, parquet.Types.Int64, -1, -1)
	for i := 0; i < optional+repeated && err == nil; i++ {
		if repetition = parquet.Repetitions.Optional; i >= optional {
			repetition = parquet.Repetitions.Repeated
		}
		node, err = schema.NewGroupNode(name, repetition, schema.FieldList{node}, -1)
	}
	if err != nil {
		return nil, fmt.Errorf("make schema: %w", err)
	}

	return node, nil
}

func convertGroup(group *file.RowGroupReader, columns []instants, out *file.Writer) error {
	target, err := out.AppendRowGroupChecked()
	if err != nil {
		return fmt.Errorf("begin row group: %w", err)
	}
	for _, c := range columns {
		source, err := group.Column(c.column)
		if err != nil {
			return fmt.Errorf("open column %s: %w", c.name, err)
		}
		writer, err := target.NextColumn()
		if err != nil {
			return fmt.Errorf("begin column %s: %w", c.name, err)
		}
		put, ok := writer.(*file.Int64ColumnChunkWriter)
		if !ok {
			return fmt.Errorf("begin column %s: a writer of %T", c.name, writer)
		}
		var levels int64
		switch r := source.(type) {
		case *file.Int96ColumnChunkReader:
			levels, err = copyConverted(r, r.ReadBatch, c.ofInt96, put)
		case *file.Int64ColumnChunkReader:
			levels, err = copyConverted(r, r.ReadBatch, c.ofNanos, put)
		default:
			err = fmt.Errorf("a reader of %T", source)
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
		if chunk, err := group.MetaData().ColumnChunk(c.column); err != nil || chunk.NumValues() != levels {
			return fmt.Errorf("%w: column %s has %d values, its footer says otherwise", errUnreadable, c.name, levels)
		}
		if err := writer.Close(); err != nil {
			return fmt.Errorf("end column %s: %w", c.name, err)
		}
	}

	if err := target.Close(); err != nil {
		return fmt.Errorf("end row group: %w", err)
	}

	return nil
}

// copyConverted copies a column chunk with its levels and counts them.
func copyConverted[T any](r file.ColumnChunkReader, read func(int64, []T, []int16, []int16) (int64, int, error),
	convert func(T) (int64, error), w *file.Int64ColumnChunkWriter,
) (levels int64, err error) {
	in, out := make([]T, overlayValues), make([]int64, overlayValues)
	def, rep := make([]int16, overlayValues), make([]int16, overlayValues)
	for r.HasNext() {
		n, values, err := read(overlayValues, in, def, rep)
		if err != nil {
			return 0, fmt.Errorf("read values: %w", err)
		}
		if n == 0 {
			break
		}
		for i, v := range in[:values] {
			if out[i], err = convert(v); err != nil {
				return 0, err
			}
		}
		if _, err := w.WriteBatch(out[:values], def[:n], rep[:n]); err != nil {
			return 0, fmt.Errorf("write values: %w", err)
		}
		levels += n
	}
	if err := r.Err(); err != nil {
		return 0, fmt.Errorf("read values: %w", err)
	}

	return levels, nil
}

// pointAt makes a footer name the converted chunks.
func pointAt(footer *format.FileMetaData, columns []instants, size int64, out *file.Writer) error {
	written, err := out.FileMetadata()
	if err != nil {
		return fmt.Errorf("read footer of converted columns: %w", err)
	}
	leaves := leafElements(footer.Schema)
	for i, c := range columns {
		if c.column >= len(leaves) {
			return fmt.Errorf("%w: it has %d columns", errUnreadable, len(leaves))
		}
		element, long, unit := &footer.Schema[leaves[c.column]], format.Int64, format.Micros
		if c.nanos {
			unit = format.Nanos
		}
		element.Type, element.Converted = &long, nil
		element.Logical = format.LogicalType{Kind: format.LogicalTimestamp, UTC: c.utc, Unit: unit}
		for g := range footer.RowGroups {
			chunk, err := written.RowGroup(g).ColumnChunk(i)
			if err != nil {
				return fmt.Errorf("read footer of converted columns: %w", err)
			}
			old := footer.RowGroups[g].Columns[c.column].Meta
			footer.RowGroups[g].Columns[c.column] = format.ColumnChunk{Meta: &format.ColumnMetaData{
				Type: format.Int64, Encodings: []format.Encoding{format.Plain, format.RLE}, Path: old.Path, Codec: format.Snappy,
				NumValues: chunk.NumValues(), TotalUncompressed: chunk.TotalUncompressedSize(), TotalCompressed: chunk.TotalCompressedSize(),
				DataPageOffset: size + chunk.DataPageOffset(),
			}}
		}
	}

	return nil
}

// leafElements are the indexes of the columns in a schema.
func leafElements(elements []format.SchemaElement) []int {
	var out []int
	for i, e := range elements {
		if e.Type != nil {
			out = append(out, i)
		}
	}

	return out
}
