// Package tabletest makes small Iceberg tables for tests, on any catalog, and
// reads back every row of them.
package tabletest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	icebergcatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// Schema is the schema of most tests: id long, s string.
func Schema() *iceberg.Schema {
	return iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "s", Type: iceberg.PrimitiveTypes.String},
	)
}

// PartitionedSchema adds p string.
func PartitionedSchema() *iceberg.Schema {
	return iceberg.NewSchema(0, append(slices.Clone(Schema().Fields()),
		iceberg.NestedField{ID: 3, Name: "p", Type: iceberg.PrimitiveTypes.String})...)
}

// Create makes the namespace, if need be, and the table. ctx carries what the
// catalog needs to reach its store.
func Create(ctx context.Context, tb testing.TB, cat icebergcatalog.Catalog, ident table.Identifier, sc *iceberg.Schema, //nolint:revive // One call makes a table.
	opts ...icebergcatalog.CreateTableOpt,
) *table.Table {
	tb.Helper()
	err := cat.CreateNamespace(ctx, ident[:len(ident)-1], nil)
	if err != nil && !errors.Is(err, icebergcatalog.ErrNamespaceAlreadyExists) {
		require.NoError(tb, err, "create namespace of %v", ident)
	}
	tbl, err := cat.CreateTable(ctx, ident, sc, opts...)
	require.NoError(tb, err, "create table %v", ident)

	return tbl
}

// Append commits rows, given as a JSON array of objects, as one snapshot of
// one file per partition, and returns the table after it.
func Append(tb testing.TB, tbl *table.Table, rows string) *table.Table {
	tb.Helper()
	next, err := AppendErr(context.Background(), tbl, rows)
	require.NoError(tb, err, "append to %v", tbl.Identifier())

	return next
}

// AppendErr is Append for a writer that expects to fail.
func AppendErr(ctx context.Context, tbl *table.Table, rows string) (*table.Table, error) {
	sc, err := table.SchemaToArrowSchema(tbl.Schema(), nil, true, false)
	if err != nil {
		return nil, fmt.Errorf("arrow schema of %v: %w", tbl.Identifier(), err)
	}
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, sc, strings.NewReader(rows))
	if err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	defer rec.Release()
	at := array.NewTableFromRecords(sc, []arrow.RecordBatch{rec})
	defer at.Release()

	next, err := tbl.AppendTable(ctx, at, max(1, rec.NumRows()), nil)
	if err != nil {
		return nil, fmt.Errorf("append table: %w", err)
	}

	return next, nil
}

// IDs returns n rows of Schema as JSON, with ids from first on.
func IDs(first, n int) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"s":"row %d"}`, first+i, first+i)
	}
	b.WriteByte(']')

	return b.String()
}

// Fragment appends files files of rows rows each, with consecutive ids.
func Fragment(tb testing.TB, tbl *table.Table, files, rows int) *table.Table {
	tb.Helper()
	for i := range files {
		tbl = Append(tb, tbl, IDs(i*rows, rows))
	}

	return tbl
}

// FragmentAtOnce commits files files of rows rows each as one snapshot, which
// is much faster than Fragment on a real catalog.
func FragmentAtOnce(tb testing.TB, tbl *table.Table, files, rows int) *table.Table {
	tb.Helper()
	ctx := context.Background()
	sc, err := table.SchemaToArrowSchema(tbl.Schema(), nil, true, false)
	require.NoError(tb, err)
	var added []iceberg.DataFile
	for i := range files {
		rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, sc, strings.NewReader(IDs(i*rows, rows)))
		require.NoError(tb, err)
		one := func(yield func(arrow.RecordBatch, error) bool) { yield(rec, nil) }
		for df, err := range table.WriteRecords(ctx, tbl, sc, one) {
			require.NoError(tb, err)
			added = append(added, df)
		}
	}
	require.Len(tb, added, files)
	tx := tbl.NewTransaction()
	require.NoError(tb, tx.AddDataFiles(ctx, added, nil, table.WithoutAutoNameMapping()))
	next, err := tx.Commit(ctx)
	require.NoError(tb, err)

	return next
}

// WriteFile writes rows as one data file of the table and commits nothing.
func WriteFile(tb testing.TB, tbl *table.Table, rows string) iceberg.DataFile {
	tb.Helper()
	sc, err := table.SchemaToArrowSchema(tbl.Schema(), nil, true, false)
	require.NoError(tb, err)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, sc, strings.NewReader(rows))
	require.NoError(tb, err)
	one := func(yield func(arrow.RecordBatch, error) bool) { yield(rec, nil) }
	var files []iceberg.DataFile
	for df, err := range table.WriteRecords(context.Background(), tbl, sc, one) {
		require.NoError(tb, err)
		files = append(files, df)
	}
	require.Len(tb, files, 1)

	return files[0]
}

// Rows returns every row of the table's current snapshot, as text, sorted.
func Rows(tb testing.TB, tbl *table.Table) []string {
	tb.Helper()
	rows, err := RowsErr(context.Background(), tbl)
	require.NoError(tb, err, "read %v", tbl.Identifier())

	return rows
}

// RowsErr is Rows for a table that may be broken.
func RowsErr(ctx context.Context, tbl *table.Table) ([]string, error) {
	if tbl.CurrentSnapshot() == nil {
		return nil, nil
	}
	_, batches, err := tbl.Scan().ToArrowRecords(ctx)
	if err != nil {
		return nil, fmt.Errorf("scan: %w", err)
	}
	var rows []string
	for rec, err := range batches {
		if err != nil {
			return nil, fmt.Errorf("scan: %w", err)
		}
		for i := range int(rec.NumRows()) {
			var b strings.Builder
			for c, col := range rec.Columns() {
				fmt.Fprintf(&b, "%s=%s;", rec.ColumnName(c), col.ValueStr(i))
			}
			rows = append(rows, b.String())
		}
		rec.Release()
	}
	slices.Sort(rows)

	return rows, nil
}

// Files returns the paths of the live data files of the current snapshot.
func Files(tb testing.TB, tbl *table.Table) []string {
	tb.Helper()
	var paths []string
	tasks, err := tbl.Scan().PlanFiles(context.Background())
	require.NoError(tb, err, "plan %v", tbl.Identifier())
	for _, task := range tasks {
		if !slices.Contains(paths, task.File.FilePath()) {
			paths = append(paths, task.File.FilePath())
		}
	}
	slices.Sort(paths)

	return paths
}

// DeleteWhere commits a merge-on-read delete of the rows that match.
func DeleteWhere(tb testing.TB, tbl *table.Table, filter iceberg.BooleanExpression) *table.Table {
	tb.Helper()
	ctx := context.Background()
	tx := tbl.NewTransaction()
	if tbl.Properties()[table.WriteDeleteModeKey] != table.WriteModeMergeOnRead {
		require.NoError(tb, tx.SetProperties(iceberg.Properties{table.WriteDeleteModeKey: table.WriteModeMergeOnRead}))
		next, err := tx.Commit(ctx)
		require.NoError(tb, err)
		tbl = next
	}
	next, err := tbl.Delete(ctx, filter, nil)
	require.NoError(tb, err, "delete from %v", tbl.Identifier())

	return next
}

// liveEntries returns the live entries of the current snapshot.
func liveEntries(tb testing.TB, tbl *table.Table) []iceberg.ManifestEntry {
	tb.Helper()
	if tbl.CurrentSnapshot() == nil {
		return nil
	}
	fio, err := tbl.FS(context.Background())
	require.NoError(tb, err)
	manifests, err := tbl.CurrentSnapshot().Manifests(fio)
	require.NoError(tb, err)
	var live []iceberg.ManifestEntry
	for _, m := range manifests {
		for e, err := range m.Entries(fio, true) {
			require.NoError(tb, err)
			live = append(live, e)
		}
	}

	return live
}

// DeleteFiles returns the paths of the live delete files.
func DeleteFiles(tb testing.TB, tbl *table.Table) []string {
	tb.Helper()
	var paths []string
	for _, e := range liveEntries(tb, tbl) {
		if e.DataFile().ContentType() != iceberg.EntryContentData {
			paths = append(paths, e.DataFile().FilePath())
		}
	}

	return paths
}

// Specs returns the partition spec of each live data file, by path.
func Specs(tb testing.TB, tbl *table.Table) map[string]int {
	tb.Helper()
	specs := map[string]int{}
	for _, e := range liveEntries(tb, tbl) {
		if e.DataFile().ContentType() == iceberg.EntryContentData {
			specs[e.DataFile().FilePath()] = int(e.DataFile().SpecID())
		}
	}

	return specs
}

// LargestFile returns the size of the largest live data file in bytes.
func LargestFile(tb testing.TB, tbl *table.Table) int64 {
	tb.Helper()
	var largest int64
	for _, e := range liveEntries(tb, tbl) {
		if e.DataFile().ContentType() == iceberg.EntryContentData {
			largest = max(largest, e.DataFile().FileSizeBytes())
		}
	}

	return largest
}
