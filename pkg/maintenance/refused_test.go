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

	"compactor/pkg/rewrite"
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

// A file that cannot be read for certain is left alone, and a dry run says so;
// the others of its group are rewritten.
func TestRefusedFilesAreTheSameInADryRunAndARun(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.fragment(6)
	w.addUntagged()
	before := w.files()
	var refused [2][]Refusal
	for i, dry := range []bool{true, false} {
		rep, err := w.compact(CompactOptions{Plan: planSmall(), DryRun: dry})
		if dry {
			require.NoError(t, err)
			require.Len(t, rep.Plan.Groups, 1)
			assert.Len(t, rep.Plan.Groups[0].Files, 6)
			assert.Equal(t, before, w.files())
		} else {
			require.ErrorIs(t, err, ErrPartial)
			assert.Equal(t, 6, rep.Rewritten.FilesIn)
		}
		require.Len(t, rep.Refused, 1)
		assert.Empty(t, rep.Failed)
		assert.Contains(t, rep.Refused[0].What, "untagged.parquet")
		assert.Contains(t, rep.Refused[0].Reason, "carry no field ids")
		refused[i] = rep.Refused
	}
	assert.Equal(t, refused[0], refused[1])
	assert.Equal(t, 1, w.cat.commits)
	live := w.load().CurrentSnapshot().Summary.Properties
	assert.Equal(t, "2", live["total-data-files"])
	assert.Equal(t, "19", live["total-records"])
}

// Files of which nothing but refused ones are left are reported and no more.
func TestAGroupWithoutEnoughFilesThatCanBeReadIsLeft(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.fragment(1)
	w.addUntagged()
	before := w.files()
	for _, dry := range []bool{true, false} {
		rep, err := w.compact(CompactOptions{Plan: rewrite.PlanOptions{MinInputFiles: 2}, DryRun: dry})
		require.Error(t, err)
		require.Len(t, rep.Refused, 1)
		assert.Equal(t, 1, rep.Refused[0].Files)
		assert.Empty(t, rep.Failed)
	}
	assert.Equal(t, before, w.files())
	assert.Zero(t, w.cat.commits)
}
