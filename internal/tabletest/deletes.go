package tabletest

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// The reserved field ids of position-delete files (Iceberg spec, "Reserved
// Field IDs").
const (
	fieldFilePath = 2147483546
	fieldPos      = 2147483545
)

// SharedPositionDelete commits one position-delete file, scoped to the
// partition, that deletes the rows of an unpartitioned table whose column id
// has one of the given values. iceberg-go itself would write one per data file.
func SharedPositionDelete(tb testing.TB, tbl *table.Table, ids []int64) *table.Table {
	tb.Helper()
	ctx := context.Background()
	fio, err := tbl.FS(ctx)
	require.NoError(tb, err)
	raw, n := positionDeletes(tb, tbl, ids)
	require.Equal(tb, len(ids), n, "rows to delete that were found")
	path := fmt.Sprintf("%s/data/shared-deletes-%d.parquet", tbl.Location(), tbl.CurrentSnapshot().SnapshotID)
	w, ok := fio.(icebergio.WriteFileIO)
	require.True(tb, ok)
	require.NoError(tb, w.WriteFile(path, raw))
	b, err := iceberg.NewDataFileBuilder(tbl.Spec(), iceberg.EntryContentPosDeletes, path, iceberg.ParquetFile,
		nil, nil, nil, int64(n), int64(len(raw)))
	require.NoError(tb, err)
	tx := tbl.NewTransaction()
	delta := tx.NewRowDelta(nil).AddDeletes(b.Build())
	require.NoError(tb, delta.Commit(ctx))
	next, err := tx.Commit(ctx)
	require.NoError(tb, err)

	return next
}

// positionDeletes encodes the positions of the rows with the given ids.
func positionDeletes(tb testing.TB, tbl *table.Table, ids []int64) ([]byte, int) {
	tb.Helper()
	meta := func(id int) arrow.Metadata {
		return arrow.MetadataFrom(map[string]string{"PARQUET:field_id": fmt.Sprint(id)})
	}
	sc := arrow.NewSchema([]arrow.Field{
		{Name: "file_path", Type: arrow.BinaryTypes.String, Metadata: meta(fieldFilePath)},
		{Name: "pos", Type: arrow.PrimitiveTypes.Int64, Metadata: meta(fieldPos)},
	}, nil)
	paths, positions := array.NewStringBuilder(memory.DefaultAllocator), array.NewInt64Builder(memory.DefaultAllocator)
	for _, path := range Files(tb, tbl) {
		for _, pos := range findIDs(tb, tbl, path, ids) {
			paths.Append(path)
			positions.Append(pos)
		}
	}
	n := positions.Len()
	rec := array.NewRecordBatch(sc, []arrow.Array{paths.NewArray(), positions.NewArray()}, int64(n))
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(sc, &buf, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	require.NoError(tb, err)
	require.NoError(tb, w.Write(rec))
	require.NoError(tb, w.Close())

	return buf.Bytes(), n
}

// findIDs returns the positions in a data file of the rows with these ids.
func findIDs(tb testing.TB, tbl *table.Table, path string, ids []int64) []int64 {
	tb.Helper()
	ctx := context.Background()
	tasks, err := tbl.Scan().PlanFiles(ctx)
	require.NoError(tb, err)
	var out []int64
	for _, task := range tasks {
		if task.File.FilePath() != path {
			continue
		}
		task.Start, task.Length = 0, task.File.FileSizeBytes()
		_, batches, err := tbl.Scan(table.WithSelectedFields("id")).ReadTasks(ctx, []table.FileScanTask{task})
		require.NoError(tb, err)
		at := int64(0)
		for rec, err := range batches {
			require.NoError(tb, err)
			col, ok := rec.Column(0).(*array.Int64)
			require.True(tb, ok)
			for i := range col.Len() {
				for _, id := range ids {
					if col.Value(i) == id {
						out = append(out, at+int64(i))
					}
				}
			}
			at += int64(col.Len())
			rec.Release()
		}

		return out
	}

	return out
}
