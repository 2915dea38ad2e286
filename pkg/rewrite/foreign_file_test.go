package rewrite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// foreignFile is a Parquet file as another program writes it, and what its
// manifest entry says.
type foreignFile struct {
	fields []arrow.Field // with field ids in their metadata
	rows   []string      // JSON objects
	props  []parquet.WriterProperty
	arrow  []pqarrow.WriterOption
	raw    []byte            // what the file is, instead of rows in fields
	group  int64             // rows of a row group, 0 for all
	count  func(int64) int64 // changes the record count in the manifest
	size   func(int64) int64 // changes the file size in the manifest
}

// stored is a column of a foreign file with its field id, none if it is 0.
func stored(id int, name string, typ arrow.DataType) arrow.Field {
	f := arrow.Field{Name: name, Type: typ, Nullable: true}
	if id > 0 {
		f.Metadata = arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{strconv.Itoa(id)})
	}

	return f
}

// addFile adds a foreign file to an unpartitioned table.
func (e *env) addFile(f foreignFile) string {
	e.t.Helper()
	path, count, size := e.writeForeign(f)
	b, err := iceberg.NewDataFileBuilder(e.load().Spec(), iceberg.EntryContentData, "file://"+path, iceberg.ParquetFile, nil, nil, nil, count, size)
	require.NoError(e.t, err)
	if meta := e.load().Metadata(); meta.Version() >= 3 {
		b.FirstRowID(meta.NextRowID())
	}
	e.commit(func(tx *table.Transaction) {
		require.NoError(e.t, tx.AddDataFiles(e.t.Context(), []iceberg.DataFile{b.Build()}, nil, table.WithoutAutoNameMapping()))
	})

	return path
}

// writeForeign puts a foreign file where the table's data is and says what a
// manifest entry of it has.
func (e *env) writeForeign(f foreignFile) (path string, count, size int64) {
	e.t.Helper()
	sc := arrow.NewSchema(f.fields, nil)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, sc, strings.NewReader("["+strings.Join(f.rows, ",")+"]"))
	require.NoError(e.t, err)
	defer rec.Release()
	path = filepath.Join(e.dir, fmt.Sprintf("t/data/foreign-%d.parquet", len(e.onDisk())))
	require.NoError(e.t, os.MkdirAll(filepath.Dir(path), 0o755))
	out, err := os.Create(path)
	require.NoError(e.t, err)
	tbl := array.NewTableFromRecords(sc, []arrow.RecordBatch{rec})
	defer tbl.Release()
	group := f.group
	if group == 0 {
		group = 1 << 20
	}
	require.NoError(e.t, pqarrow.WriteTable(tbl, out, group, parquet.NewWriterProperties(f.props...), pqarrow.NewArrowWriterProperties(f.arrow...)))
	if f.raw != nil {
		require.NoError(e.t, os.WriteFile(path, f.raw, 0o600))
	}
	info, err := os.Stat(path)
	require.NoError(e.t, err)
	count, size = rec.NumRows(), info.Size()
	if f.count != nil {
		count = f.count(count)
	}
	if f.size != nil {
		size = f.size(size)
	}

	return path, count, size
}

// wanted is rows of the table's own types as tableRows prints them.
func (e *env) wanted(times int, rows ...string) []string {
	e.t.Helper()
	rec := batchJSON(e.t, e.load(), rows...)
	defer rec.Release()
	var out []string
	for range times {
		out = append(out, recordRows(rec)...)
	}
	slices.Sort(out)

	return out
}

func recordRows(rec arrow.RecordBatch) []string {
	var out []string
	for i := range int(rec.NumRows()) {
		var cells []string
		for c, col := range rec.Columns() {
			cells = append(cells, rec.ColumnName(c)+"="+col.ValueStr(i)+fmt.Sprintf("/%t", col.IsNull(i)))
		}
		out = append(out, strings.Join(cells, " "))
	}

	return out
}
