package rewrite

import (
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// writePositions writes a position-delete file and returns its size.
func writePositions(t *testing.T, path string, at []position) int64 {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, table.PositionalDeleteArrowSchema)
	defer b.Release()
	for _, p := range at {
		b.Field(0).(*array.StringBuilder).Append(p.path)
		b.Field(1).(*array.Int64Builder).Append(p.pos)
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	tbl := array.NewTableFromRecords(table.PositionalDeleteArrowSchema, []arrow.RecordBatch{rec})
	defer tbl.Release()
	out, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, pqarrow.WriteTable(tbl, out, 1<<20, nil, pqarrow.DefaultWriterProps()))
	info, err := os.Stat(path)
	require.NoError(t, err)

	return info.Size()
}
