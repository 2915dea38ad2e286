package rewrite

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"compactor/pkg/rewrite/splice/stats"
)

// errEncoding means that a chunk is in an encoding that cannot be read.
var errEncoding = errors.New("unknown encoding")

// prefixedOf finds the columns of the table that a file has in an encoding that
// the Parquet library does not know for them, DELTA_BYTE_ARRAY of values of a fixed
// length: it would end the whole process over it, in a goroutine of its own. Version
// 2 of parquet-mr's writer, which is Spark's, writes long decimals and UUIDs so. A
// file with any other encoding that the library does not know is refused.
func prefixedOf(tbl *table.Table, footer *metadata.FileMetaData, stored fileSchema) ([]int, error) {
	if len(stored.leaves) != footer.Schema.NumColumns() {
		return nil, nil
	}
	fields, err := iceberg.IndexByID(tbl.Schema())
	if err != nil {
		return nil, fmt.Errorf("index schema of table: %w", err)
	}
	var out []int
	for i, id := range stored.leaves {
		field, known := fields[id]
		if !known {
			continue
		}
		prefixed, err := isPrefixed(footer, i)
		if errors.Is(err, errEncoding) {
			return nil, fmt.Errorf("%w: column %s cannot be read: %w", ErrRefused, field.Name, err)
		}
		if err != nil {
			return nil, err
		}
		if prefixed {
			out = append(out, i)
		}
	}

	return out, nil
}

// isPrefixed looks at the encodings of a column in all row groups.
func isPrefixed(footer *metadata.FileMetaData, column int) (found bool, err error) {
	for g := range footer.NumRowGroups() {
		chunk, err := footer.RowGroup(g).ColumnChunk(column)
		if err != nil {
			return false, fmt.Errorf("%w: read metadata of column %d: %w", errUnreadable, column, err)
		}
		for _, e := range chunk.Encodings() {
			switch {
			case decodes(chunk.Type(), e):
			case stats.Prefixed(chunk.Type(), e):
				found = true
			default:
				return false, fmt.Errorf("%w: %s of %s", errEncoding, e, chunk.Type())
			}
		}
	}

	return found, nil
}

// decodes reports whether the Parquet library knows an encoding for a type. The
// encodings of a chunk are those of its levels too.
func decodes(t parquet.Type, e parquet.Encoding) bool {
	switch e {
	case parquet.Encodings.DeltaBinaryPacked:
		return t == parquet.Types.Int32 || t == parquet.Types.Int64
	case parquet.Encodings.DeltaLengthByteArray, parquet.Encodings.DeltaByteArray:
		return t == parquet.Types.ByteArray
	case parquet.Encodings.ByteStreamSplit:
		return !slices.Contains([]parquet.Type{parquet.Types.ByteArray, parquet.Types.Boolean, parquet.Types.Int96}, t)
	default:
		return true
	}
}
