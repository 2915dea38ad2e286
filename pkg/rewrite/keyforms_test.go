package rewrite

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// addEquality commits a foreign equality-delete file on the column with id 1.
func (e *env) addEquality(f foreignFile) {
	e.t.Helper()
	path, count, size := e.writeForeign(f)
	b, err := iceberg.NewDataFileBuilder(e.load().Spec(), iceberg.EntryContentEqDeletes, "file://"+path, iceberg.ParquetFile, nil, nil, nil, count, size)
	require.NoError(e.t, err)
	b.EqualityFieldIDs([]int{1})
	e.commit(func(tx *table.Transaction) {
		require.NoError(e.t, tx.NewRowDelta(nil).AddDeletes(b.Build()).Commit(e.t.Context()))
	})
}

// TestEqualityDeletesInAnotherFormAreNotLost has deletes that iceberg-go would
// compare with nothing: rewritten without a word, the rows would be back.
func TestEqualityDeletesInAnotherFormAreNotLost(t *testing.T) {
	nano := &arrow.TimestampType{Unit: arrow.Nanosecond}
	p := iceberg.PrimitiveTypes
	for name, c := range map[string]struct {
		column        iceberg.Type
		data, deletes arrow.DataType
		rows, gone    []string
		arrow         []pqarrow.WriterOption
	}{
		"widened since": {column: p.Int64, data: arrow.PrimitiveTypes.Int32, deletes: arrow.PrimitiveTypes.Int64, rows: []string{"7", "8"}, gone: []string{"7"}},
		"short":         {column: p.Int32, data: arrow.PrimitiveTypes.Int32, deletes: arrow.PrimitiveTypes.Int16, rows: []string{"7", "8"}, gone: []string{"7"}},
		"nanoseconds": {column: p.Timestamp, data: &arrow.TimestampType{Unit: arrow.Microsecond}, deletes: nano,
			rows: []string{`"1969-12-31 23:59:59.5"`, `"2024-02-29 12:00:00"`}, gone: []string{`"1969-12-31 23:59:59.5"`}},
		"INT96": {column: p.Timestamp, data: &arrow.TimestampType{Unit: arrow.Microsecond}, deletes: nano,
			rows: []string{`"1969-12-31 23:59:59.5"`, `"2024-02-29 12:00:00"`}, gone: []string{`"1969-12-31 23:59:59.5"`},
			arrow: []pqarrow.WriterOption{pqarrow.WithDeprecatedInt96Timestamps(true)}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "x", Type: c.column}), *iceberg.UnpartitionedSpec, nil)
			for range 6 {
				e.addFile(foreignFile{fields: []arrow.Field{stored(1, "x", c.data)}, rows: cells(c.rows)})
			}
			e.addEquality(foreignFile{fields: []arrow.Field{stored(1, "x", c.deletes)}, rows: cells(c.gone), arrow: c.arrow})
			e.refusedFiles("compare the column with id 1, which they store as")
		})
	}
}

func TestEqualityDeletesInTheSameFormAreApplied(t *testing.T) {
	for name, c := range map[string]struct {
		column        iceberg.Type
		data, deletes arrow.DataType
		rows          []string
	}{
		"large text":    {iceberg.PrimitiveTypes.String, arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, []string{`"a"`, `"b"`}},
		"wider decimal": {iceberg.DecimalTypeOf(38, 2), &arrow.Decimal128Type{Precision: 9, Scale: 2}, &arrow.Decimal128Type{Precision: 38, Scale: 2}, []string{`"1.25"`, `"2.50"`}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "x", Type: c.column}), *iceberg.UnpartitionedSpec, nil)
			for range 6 {
				e.addFile(foreignFile{fields: []arrow.Field{stored(1, "x", c.data)}, rows: cells(c.rows)})
			}
			e.addEquality(foreignFile{fields: []arrow.Field{stored(1, "x", c.deletes)}, rows: cells(c.rows[:1])})
			want := e.wanted(6, cells(c.rows[1:])...)
			e.compact(PlanOptions{}, Options{})
			assert.Equal(t, want, e.rows())
		})
	}
}
