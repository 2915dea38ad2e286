package rewrite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	_ "github.com/apache/iceberg-go/catalog/sql"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/table/dv"
	"github.com/stretchr/testify/require"
	_ "github.com/uptrace/bun/driver/sqliteshim"
	"github.com/zeebo/xxh3"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// database/sql keeps its opener until the catalog is closed with the process.
		goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

// env is a table in a real SQLite catalog over a folder.
type env struct {
	t    *testing.T
	cat  catalog.Catalog
	name table.Identifier
	dir  string
}

var idAndText = iceberg.NewSchema(0,
	iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
	iceberg.NestedField{ID: 2, Name: "s", Type: iceberg.PrimitiveTypes.String},
)

func newEnv(t *testing.T, sc *iceberg.Schema, spec iceberg.PartitionSpec, props iceberg.Properties) *env {
	t.Helper()

	return newEnvIn(t, t.TempDir(), sc, spec, props)
}

func newEnvIn(t *testing.T, dir string, sc *iceberg.Schema, spec iceberg.PartitionSpec, props iceberg.Properties) *env {
	t.Helper()
	e := openIn(t, dir)
	require.NoError(t, e.cat.CreateNamespace(t.Context(), table.Identifier{"db"}, nil))
	merged := iceberg.Properties{"format-version": "2"}
	for k, v := range props {
		merged[k] = v
	}
	_, err := e.cat.CreateTable(t.Context(), e.name, sc,
		catalog.WithPartitionSpec(&spec), catalog.WithProperties(merged), catalog.WithLocation("file://"+filepath.Join(dir, "t")))
	require.NoError(t, err)

	return e
}

func (e *env) load() *table.Table {
	e.t.Helper()
	tbl, err := e.cat.LoadTable(e.t.Context(), e.name)
	require.NoError(e.t, err)

	return tbl
}

// commit runs one transaction.
func (e *env) commit(do func(tx *table.Transaction)) *table.Table {
	e.t.Helper()
	tx := e.load().NewTransaction()
	do(tx)
	tbl, err := tx.Commit(e.t.Context())
	require.NoError(e.t, err)

	return tbl
}

// appendJSON appends rows given as JSON objects, one file for each partition.
func (e *env) appendJSON(rows ...string) *table.Table {
	e.t.Helper()

	return e.appendBatch(batchJSON(e.t, e.load(), rows...))
}

func batchJSON(t *testing.T, tbl *table.Table, rows ...string) arrow.RecordBatch {
	t.Helper()
	sc, err := table.SchemaToArrowSchemaWithOptions(tbl.Schema(), table.ArrowSchemaOptions{})
	require.NoError(t, err)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, sc, strings.NewReader("["+strings.Join(rows, ",")+"]"))
	require.NoError(t, err)

	return rec
}

func (e *env) appendBatch(rec arrow.RecordBatch) *table.Table {
	e.t.Helper()
	rdr, err := array.NewRecordReader(rec.Schema(), []arrow.RecordBatch{rec})
	require.NoError(e.t, err)
	defer rdr.Release()

	return e.commit(func(tx *table.Transaction) { require.NoError(e.t, tx.Append(e.t.Context(), rdr, nil)) })
}

// builder makes rows of the table's schema. The caller releases it.
func (e *env) builder() *array.RecordBuilder {
	e.t.Helper()
	sc, err := table.SchemaToArrowSchemaWithOptions(e.load().Schema(), table.ArrowSchemaOptions{})
	require.NoError(e.t, err)

	return array.NewRecordBuilder(memory.DefaultAllocator, sc)
}

// appendSeries appends n rows of idAndText starting at id from, in one file.
func (e *env) appendSeries(from, n int) *table.Table {
	e.t.Helper()
	b := e.builder()
	defer b.Release()
	for i := from; i < from+n; i++ {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("%05x", xxh3.HashString(strconv.Itoa(i))&0xfffff))
	}
	rec := b.NewRecordBatch()
	defer rec.Release()

	return e.appendBatch(rec)
}

// rows is the whole table as sorted text, one line per row.
func (e *env) rows() []string {
	e.t.Helper()

	return tableRows(e.t, e.load())
}

func tableRows(t *testing.T, tbl *table.Table) []string {
	t.Helper()
	_, batches, err := tbl.Scan().ToArrowRecords(t.Context())
	require.NoError(t, err)
	var out []string
	for rec, err := range batches {
		require.NoError(t, err)
		out = append(out, recordRows(rec)...)
		rec.Release()
	}
	slices.Sort(out)

	return out
}

// files are the live files of the table, data and deletes apart.
func (e *env) files() (data, deletes []iceberg.DataFile) {
	e.t.Helper()
	tbl := e.load()
	fs, err := tbl.FS(e.t.Context())
	require.NoError(e.t, err)
	manifests, err := tbl.CurrentSnapshot().Manifests(fs)
	require.NoError(e.t, err)
	for _, m := range manifests {
		for entry, err := range m.Entries(fs, true) {
			require.NoError(e.t, err)
			if entry.DataFile().ContentType() == iceberg.EntryContentData {
				data = append(data, entry.DataFile())
			} else {
				deletes = append(deletes, entry.DataFile())
			}
		}
	}

	return data, deletes
}

// onDisk lists the Parquet and Puffin files under the warehouse.
func (e *env) onDisk() []string {
	e.t.Helper()
	var out []string
	require.NoError(e.t, filepath.WalkDir(e.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && (strings.HasSuffix(path, ".parquet") || strings.HasSuffix(path, ".puffin")) {
			out = append(out, path)
		}

		return err
	}))
	slices.Sort(out)

	return out
}

// position is one row of a data file.
type position struct {
	path string
	pos  int64
}

// deletePositions commits one position-delete file that holds all positions. It
// is written the way an engine with partition-scoped deletes does.
func (e *env) deletePositions(of iceberg.DataFile, at ...position) *table.Table {
	e.t.Helper()
	slices.SortFunc(at, func(a, b position) int { return strings.Compare(a.path, b.path)*2 + int(min(1, max(-1, a.pos-b.pos))) })
	tbl := e.load()
	path := filepath.Join(e.dir, fmt.Sprintf("t/data/deletes-%d.parquet", len(e.onDisk())))
	size := writePositions(e.t, path, at)
	spec := tbl.Metadata().PartitionSpecByID(int(of.SpecID()))
	b, err := iceberg.NewDataFileBuilder(*spec, iceberg.EntryContentPosDeletes, "file://"+path, iceberg.ParquetFile,
		of.Partition(), nil, nil, int64(len(at)), size)
	require.NoError(e.t, err)

	return e.commit(func(tx *table.Transaction) {
		require.NoError(e.t, tx.NewRowDelta(nil).AddDeletes(b.Build()).Commit(e.t.Context()))
	})
}

// deleteEqual commits an equality-delete file on the named column's field id.
func (e *env) deleteEqual(fieldID int, rows ...string) *table.Table {
	e.t.Helper()
	tbl := e.load()
	field, ok := tbl.Schema().FindFieldByID(fieldID)
	require.True(e.t, ok)
	sub, err := table.SchemaToArrowSchemaWithOptions(iceberg.NewSchema(0, field), table.ArrowSchemaOptions{})
	require.NoError(e.t, err)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, sub, strings.NewReader("["+strings.Join(rows, ",")+"]"))
	require.NoError(e.t, err)

	return e.commit(func(tx *table.Transaction) {
		require.NoError(e.t, tx.CommitEqualityDeletes(e.t.Context(), []int{fieldID},
			func(yield func(arrow.RecordBatch, error) bool) { yield(rec, nil) }, nil))
	})
}

// deleteRows commits an equality-delete file on several top-level columns.
func (e *env) deleteRows(ids []int, rows ...string) *table.Table {
	e.t.Helper()
	var fields []iceberg.NestedField
	for _, id := range ids {
		field, ok := e.load().Schema().FindFieldByID(id)
		require.True(e.t, ok)
		fields = append(fields, field)
	}
	sub, err := table.SchemaToArrowSchemaWithOptions(iceberg.NewSchema(0, fields...), table.ArrowSchemaOptions{})
	require.NoError(e.t, err)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, sub, strings.NewReader("["+strings.Join(rows, ",")+"]"))
	require.NoError(e.t, err)

	return e.commit(func(tx *table.Transaction) {
		require.NoError(e.t, tx.CommitEqualityDeletes(e.t.Context(), ids,
			func(yield func(arrow.RecordBatch, error) bool) { yield(rec, nil) }, nil))
	})
}

// deleteVector commits deletion vectors, one Puffin file for all.
func (e *env) deleteVector(at ...position) *table.Table {
	e.t.Helper()
	tbl := e.load()
	data, _ := e.files()
	fs, err := tbl.FS(e.t.Context())
	require.NoError(e.t, err)
	w := dv.NewDVWriter(fs.(iceio.WriteFileIO), func(id int32) *iceberg.PartitionSpec {
		return tbl.Metadata().PartitionSpecByID(int(id))
	})
	for _, p := range at {
		for _, df := range data {
			if df.FilePath() == p.path {
				require.NoError(e.t, w.Add(p.path, []int64{p.pos}, df.SpecID(), df.Partition()))
			}
		}
	}
	vectors, err := w.Flush(e.t.Context(), fmt.Sprintf("%s/data/dv-%d.puffin", tbl.Location(), len(e.onDisk())))
	require.NoError(e.t, err)

	return e.commit(func(tx *table.Transaction) {
		require.NoError(e.t, tx.NewRowDelta(nil).AddDeletes(vectors...).Commit(e.t.Context()))
	})
}

func (e *env) plan(o PlanOptions) *Plan {
	e.t.Helper()
	p, err := NewPlan(context.WithoutCancel(e.t.Context()), e.load(), o)
	require.NoError(e.t, err)

	return p
}
