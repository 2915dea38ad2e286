package rewrite

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// addForeign adds a Parquet file that another program wrote: rows as JSON
// objects of 64-bit ids and texts, columns by name with field ids, or without
// when the id is 0, and the partition that the table's spec gives it.
func (e *env) addForeign(columns map[string]int, partition map[int]any, rows ...string) string {
	e.t.Helper()
	var fields []arrow.Field
	for _, name := range []string{"id", "s", "p"} {
		id, there := columns[name]
		if !there {
			continue
		}
		field := arrow.Field{Name: name, Type: arrow.BinaryTypes.String, Nullable: true}
		if name == "id" {
			field.Type = arrow.PrimitiveTypes.Int64
		}
		if id > 0 {
			field.Metadata = arrow.NewMetadata([]string{"PARQUET:field_id"}, []string{strconv.Itoa(id)})
		}
		fields = append(fields, field)
	}
	sc := arrow.NewSchema(fields, nil)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, sc, strings.NewReader("["+strings.Join(rows, ",")+"]"))
	require.NoError(e.t, err)
	defer rec.Release()
	path := filepath.Join(e.dir, fmt.Sprintf("t/data/foreign-%d.parquet", len(e.onDisk())))
	require.NoError(e.t, os.MkdirAll(filepath.Dir(path), 0o755))
	out, err := os.Create(path)
	require.NoError(e.t, err)
	tbl := array.NewTableFromRecords(sc, []arrow.RecordBatch{rec})
	defer tbl.Release()
	require.NoError(e.t, pqarrow.WriteTable(tbl, out, 1<<20, nil, pqarrow.DefaultWriterProps()))
	info, err := os.Stat(path)
	require.NoError(e.t, err)
	b, err := iceberg.NewDataFileBuilder(e.load().Spec(), iceberg.EntryContentData, "file://"+path, iceberg.ParquetFile,
		partition, nil, nil, rec.NumRows(), info.Size())
	require.NoError(e.t, err)
	e.commit(func(tx *table.Transaction) {
		require.NoError(e.t, tx.AddDataFiles(e.t.Context(), []iceberg.DataFile{b.Build()}, nil, table.WithoutAutoNameMapping()))
	})

	return path
}

var idTextPartition = iceberg.NewSchema(0,
	iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
	iceberg.NestedField{ID: 2, Name: "s", Type: iceberg.PrimitiveTypes.String},
	iceberg.NestedField{ID: 3, Name: "p", Type: iceberg.PrimitiveTypes.String},
)

func byP() iceberg.PartitionSpec {
	return iceberg.NewPartitionSpec(iceberg.PartitionField{
		SourceIDs: []int{3}, FieldID: 1000, Name: "p", Transform: iceberg.IdentityTransform{},
	})
}

// refusedGroup rewrites everything and expects the only group to fail without
// a trace.
func (e *env) refusedGroup(reasons ...string) {
	e.t.Helper()
	before, disk := e.rows(), e.onDisk()
	plan := e.plan(PlanOptions{})
	require.Len(e.t, plan.Groups, 1, plan.Reason)
	results, err := New(Options{}).Rewrite(e.t.Context(), e.load(), plan.Groups)
	require.NoError(e.t, err)
	require.Error(e.t, results[0].Err)
	assert.NotErrorIs(e.t, results[0].Err, ErrIntegrity)
	for _, reason := range reasons {
		require.ErrorContains(e.t, results[0].Err, reason)
	}
	assert.Equal(e.t, disk, e.onDisk())
	assert.Equal(e.t, before, e.rows())
}

// evolutions are the ways a spec may have gone on since the files were written.
var evolutions = map[string]func(u *table.UpdateSpec) *table.UpdateSpec{
	"same spec":  nil,
	"no spec":    func(u *table.UpdateSpec) *table.UpdateSpec { return u.RemoveField("p") },
	"wider spec": func(u *table.UpdateSpec) *table.UpdateSpec { return u.AddIdentity("id") },
	"other spec": func(u *table.UpdateSpec) *table.UpdateSpec { return u.RemoveField("p").AddIdentity("id") },
}

func (e *env) evolve(change func(u *table.UpdateSpec) *table.UpdateSpec) {
	e.t.Helper()
	if change != nil {
		e.commit(func(tx *table.Transaction) { require.NoError(e.t, change(tx.UpdateSpec(true)).Commit()) })
	}
}

// hive adds files that do not store the partition column, and one that does.
func (e *env) hive(columns map[string]int, all map[string]int) {
	e.t.Helper()
	for i := range 6 {
		e.addForeign(columns, map[int]any{1000: "P0"}, fmt.Sprintf(`{"id":%d,"s":"x"}`, i))
	}
	e.addForeign(all, map[int]any{1000: "P0"}, `{"id":6,"s":"x","p":"P0"}`)
}

// hiveRows are the rows of the files of hive, with the value of the partition.
func (e *env) hiveRows() []string {
	e.t.Helper()
	var rows []string
	for i := range 7 {
		rows = append(rows, fmt.Sprintf(`{"id":%d,"s":"x","p":"P0"}`, i))
	}

	return e.wanted(1, rows...)
}

func TestPartitionValueThatIsNotInTheFileIsFilledIn(t *testing.T) {
	for name, change := range evolutions {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, idTextPartition, byP(), nil)
			e.hive(map[string]int{"id": 1, "s": 2}, map[string]int{"id": 1, "s": 2, "p": 3})
			want := e.hiveRows()
			e.evolve(change)
			e.compact(PlanOptions{}, Options{Engine: EngineSplice}) // asked for, and not taken
			assert.Equal(t, want, e.rows())
		})
	}
	t.Run("general engine", func(t *testing.T) {
		e := newEnv(t, idTextPartition, byP(), nil)
		e.hive(map[string]int{"id": 1, "s": 2}, map[string]int{"id": 1, "s": 2, "p": 3})
		want := e.hiveRows()
		e.compact(PlanOptions{}, Options{})
		assert.Equal(t, want, e.rows())
	})
	t.Run("missing value", func(t *testing.T) {
		e := newEnv(t, idTextPartition, byP(), nil)
		for i := range 6 {
			e.addForeign(map[string]int{"id": 1, "s": 2}, map[int]any{1000: nil}, fmt.Sprintf(`{"id":%d,"s":"x"}`, i))
		}
		e.evolve(evolutions["no spec"])
		e.sameRows(PlanOptions{}, Options{})
		data, _ := e.files()
		assert.Len(t, data, 1)
	})
}

func TestRowOutsideThePartitionOfItsFileIsRefused(t *testing.T) {
	for name, change := range evolutions {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, idTextPartition, byP(), nil)
			all := map[string]int{"id": 1, "s": 2, "p": 3}
			for i := range 6 {
				e.addForeign(all, map[int]any{1000: "P0"}, fmt.Sprintf(`{"id":%d,"s":"x","p":"P0"}`, i))
			}
			bad := e.addForeign(all, map[int]any{1000: "P0"}, `{"id":7,"s":"x","p":"P0"}`, `{"id":8,"s":"x","p":null}`)
			e.evolve(change)
			e.refusedGroup(bad, "partition field p is P0")
		})
	}
}

func TestFilesWithoutFieldIDs(t *testing.T) {
	untagged := map[string]int{"id": 0, "s": 0, "p": 0}
	const mapping = `[{"field-id":1,"names":["id"]},{"field-id":2,"names":["s"]},{"field-id":3,"names":["p"]}]`
	t.Run("need a name mapping", func(t *testing.T) {
		e := newEnv(t, idTextPartition, *iceberg.UnpartitionedSpec, nil)
		for i := range 6 {
			e.addForeign(untagged, nil, fmt.Sprintf(`{"id":%d,"s":"x","p":"y"}`, i))
		}
		plan := e.plan(PlanOptions{})
		results, err := New(Options{}).Rewrite(t.Context(), e.load(), plan.Groups)
		require.NoError(t, err)
		require.ErrorContains(t, results[0].Err, "carry no field ids and the table has no name mapping")
		assert.Len(t, e.onDisk(), 6)
	})
	t.Run("are rewritten with one", func(t *testing.T) {
		e := newEnv(t, idTextPartition, byP(), iceberg.Properties{table.DefaultNameMappingKey: mapping})
		for i := range 6 {
			e.addForeign(untagged, map[int]any{1000: "P0"}, fmt.Sprintf(`{"id":%d,"s":"x","p":"P0"}`, i))
		}
		e.evolve(evolutions["no spec"])
		e.sameRows(PlanOptions{}, Options{})
	})
	t.Run("may lack the partition column", func(t *testing.T) {
		e := newEnv(t, idTextPartition, byP(), iceberg.Properties{table.DefaultNameMappingKey: mapping})
		e.hive(map[string]int{"id": 0, "s": 0}, untagged)
		want := e.hiveRows()
		e.evolve(evolutions["no spec"])
		e.compact(PlanOptions{}, Options{})
		assert.Equal(t, want, e.rows())
	})
}

func TestRowsOfEveryPartitionTypeAreRecognised(t *testing.T) {
	for _, id := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16} {
		field, ok := wideSchema().FindFieldByID(id)
		require.True(t, ok)
		t.Run(fmt.Sprintf("%s %s", field.Type, field.Name), func(t *testing.T) {
			spec := iceberg.NewPartitionSpec(iceberg.PartitionField{
				SourceIDs: []int{id}, FieldID: 1000, Name: "part", Transform: iceberg.IdentityTransform{},
			})
			e := newEnv(t, wideSchema(), spec, nil)
			for range 6 {
				e.appendBatch(withOddFloats(batchJSON(t, e.load(), wideRow(3), wideRow(4), wideRow(8)), 4))
			}
			e.commit(func(tx *table.Transaction) { require.NoError(t, tx.UpdateSpec(true).RemoveField("part").Commit()) })
			out := e.compact(PlanOptions{}, Options{})
			require.Len(t, out.results, 1)
			assert.EqualValues(t, 18, out.results[0].RowsOut)
			var checked int
			for _, f := range out.results[0].Group.Files {
				guard := newRowGuard(out.tbl, f.Data)
				require.Len(t, guard.fields, 1)
				if value := guard.fields[0].value; value != nil {
					checked++
				}
			}
			assert.Positive(t, checked)
		})
	}
}
