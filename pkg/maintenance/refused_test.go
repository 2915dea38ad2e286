package maintenance

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// addUntagged commits a data file whose columns carry no field ids.
func (w *world) addUntagged() {
	w.t.Helper()
	sc := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	b.Field(0).(*array.Int64Builder).Append(7)
	rec := b.NewRecordBatch()
	defer rec.Release()
	var raw bytes.Buffer
	rows := array.NewTableFromRecords(sc, []arrow.RecordBatch{rec})
	defer rows.Release()
	require.NoError(w.t, pqarrow.WriteTable(rows, &raw, 10, nil, pqarrow.DefaultWriterProps()))
	tbl := w.load()
	fs, err := tbl.FS(w.t.Context())
	require.NoError(w.t, err)
	path := fmt.Sprintf("%s/data/untagged.parquet", tbl.Location())
	require.NoError(w.t, fs.(icebergio.WriteFileIO).WriteFile(path, raw.Bytes()))
	df, err := iceberg.NewDataFileBuilder(tbl.Spec(), iceberg.EntryContentData, path, iceberg.ParquetFile, nil, nil, nil, 1, int64(raw.Len()))
	require.NoError(w.t, err)
	tx := tbl.NewTransaction()
	require.NoError(w.t, tx.AddDataFiles(w.t.Context(), []iceberg.DataFile{df.Build()}, nil, table.WithoutAutoNameMapping()))
	_, err = tx.Commit(w.t.Context())
	require.NoError(w.t, err)
}

// A group with a file that cannot be read for certain is refused by a run, and
// a dry run says so.
func TestRefusedFilesAreTheSameInADryRunAndARun(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.fragment(6)
	w.addUntagged()
	before := w.files()
	for _, dry := range []bool{true, false} {
		rep, err := w.compact(CompactOptions{Plan: planSmall(), DryRun: dry})
		if dry {
			require.ErrorIs(t, err, ErrRefused)
		} else {
			require.ErrorIs(t, err, ErrPartial)
		}
		require.Len(t, rep.Refused, 1)
		assert.Empty(t, rep.Failed)
		assert.Contains(t, rep.Refused[0].Reason, "untagged.parquet")
		assert.Contains(t, rep.Refused[0].Reason, "carry no field ids")
	}
	assert.Equal(t, before, w.files())
	assert.Zero(t, w.cat.commits)
}
