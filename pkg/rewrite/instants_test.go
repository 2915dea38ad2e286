package rewrite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// int96 is a value as Hive and Impala store it.
func int96(julianDay int32, nanos int64) (v parquet.Int96) {
	binary.LittleEndian.PutUint64(v[:8], uint64(nanos))
	binary.LittleEndian.PutUint32(v[8:], uint32(julianDay))

	return v
}

// int96File is a file of one INT96 column with field id 1.
func int96File(t *testing.T, values ...parquet.Int96) []byte {
	t.Helper()
	field, err := schema.NewPrimitiveNode("x", parquet.Repetitions.Optional, parquet.Types.Int96, 1, -1)
	require.NoError(t, err)
	root, err := schema.NewGroupNode("schema", parquet.Repetitions.Required, schema.FieldList{field}, -1)
	require.NoError(t, err)
	var raw bytes.Buffer
	w := file.NewParquetWriter(&raw, root)
	for _, v := range values { // a row group each
		group, err := w.AppendRowGroupChecked()
		require.NoError(t, err)
		column, err := group.NextColumn()
		require.NoError(t, err)
		_, err = column.(*file.Int96ColumnChunkWriter).WriteBatch([]parquet.Int96{v}, []int16{1}, nil)
		require.NoError(t, err)
		require.NoError(t, column.Close())
		require.NoError(t, group.Close())
	}
	require.NoError(t, w.Close())

	return raw.Bytes()
}

func TestInt96TimestampsAreCutDownToMicroseconds(t *testing.T) {
	values := []parquet.Int96{
		int96(julianEpoch, 0), int96(julianEpoch, 1999), int96(julianEpoch-1, dayNanos-1), int96(julianEpoch-1, dayNanos-1000),
		int96(1721426, 0), int96(5373484, dayNanos-1), // the first and last day of what people write
	}
	want := []string{
		`{"x":"1970-01-01 00:00:00"}`, `{"x":"1970-01-01 00:00:00.000001"}`, `{"x":"1969-12-31 23:59:59.999999"}`, `{"x":"1969-12-31 23:59:59.999999"}`,
		`{"x":"0001-01-01 00:00:00"}`, `{"x":"9999-12-31 23:59:59.999999"}`,
	}
	for _, typ := range []iceberg.Type{iceberg.PrimitiveTypes.Timestamp, iceberg.PrimitiveTypes.TimestampTz} {
		t.Run(typ.String(), func(t *testing.T) {
			e := newEnv(t, iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "x", Type: typ}), *iceberg.UnpartitionedSpec, nil)
			for range 2 {
				e.addRaw(int96File(t, values...), int64(len(values)))
			}
			expected := e.wanted(2, zoned(typ, want)...)
			left := t.TempDir()
			out := e.compact(PlanOptions{MinInputFiles: 2}, Options{Verify: true, TempDir: left})
			assert.Equal(t, expected, e.rows())
			exactMetrics(t, e.load(), out.results[0].Outputs)
			after, err := os.ReadDir(left)
			require.NoError(t, err)
			assert.Empty(t, after)
		})
	}
}

// zoned writes timestamps as a column of the type has them.
func zoned(typ iceberg.Type, in []string) (out []string) {
	for _, text := range in {
		if typ.Equals(iceberg.PrimitiveTypes.TimestampTz) {
			text = endOfTimestamp.ReplaceAllString(text, `${1}Z"`)
		}
		out = append(out, text)
	}

	return out
}

var endOfTimestamp = regexp.MustCompile(`(:[0-9.]+)"`)

func TestTimestampsThatCannotBeHeldFailTheGroup(t *testing.T) {
	for name, v := range map[string]parquet.Int96{
		"negative nanoseconds": int96(julianEpoch, -1), "more than a day": int96(julianEpoch, dayNanos), "too far": int96(1<<31-1, 0), "too long ago": int96(-1<<31, 0),
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "x", Type: iceberg.PrimitiveTypes.Timestamp}), *iceberg.UnpartitionedSpec, nil)
			e.addRaw(int96File(t, int96(julianEpoch, 0)), 1)
			e.addRaw(int96File(t, int96(julianEpoch, 0), v), 2)
			e.failsBecause("an INT96 timestamp")
		})
	}
	t.Run("nanoseconds", func(t *testing.T) {
		e := newEnv(t, iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "x", Type: iceberg.PrimitiveTypes.Timestamp}), *iceberg.UnpartitionedSpec, nil)
		for range 2 {
			e.addFile(foreignFile{
				fields: []arrow.Field{stored(1, "x", &arrow.TimestampType{Unit: arrow.Nanosecond})}, rows: []string{`{"x":"1969-12-31 23:59:59.999999999"}`},
			})
		}
		e.failsBecause("column x: refused: a timestamp of -1 nanoseconds is not one of whole microseconds")
	})
	t.Run("INT96 beyond nanoseconds", func(t *testing.T) {
		e := newEnv(t, iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "x", Type: iceberg.PrimitiveTypes.TimestampNs}),
			*iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": "3"})
		for range 2 {
			e.addFile(foreignFile{fields: []arrow.Field{stored(1, "x", arrow.PrimitiveTypes.Int64)}, rows: []string{`{"x":1}`}, raw: int96File(t, int96(5373484, 0))})
		}
		e.failsBecause("an INT96 timestamp cannot be held")
	})
}

// failsBecause expects the only group to fail and to leave nothing behind.
func (e *env) failsBecause(reason string) {
	e.t.Helper()
	disk, dir := e.onDisk(), e.t.TempDir()
	results, err := New(Options{TempDir: dir}).Rewrite(e.t.Context(), e.load(), e.plan(PlanOptions{MinInputFiles: 2}).Groups)
	require.NoError(e.t, err)
	require.ErrorIs(e.t, results[0].Err, ErrRefused)
	require.ErrorContains(e.t, results[0].Err, reason)
	require.ErrorContains(e.t, results[0].Err, "data file file://")
	assert.Equal(e.t, disk, e.onDisk())
	left, err := os.ReadDir(dir)
	require.NoError(e.t, err)
	assert.Empty(e.t, left)
}

// TestInt96InsideOtherColumnsAndUnderDeletes has the columns beside others and
// within lists, in several row groups and more rows than are converted at once,
// with deletes by position and by the column itself.
func TestInt96InsideOtherColumnsAndUnderDeletes(t *testing.T) {
	p := iceberg.PrimitiveTypes
	sc := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: p.Int64}, iceberg.NestedField{ID: 2, Name: "at", Type: p.TimestampTz},
		iceberg.NestedField{ID: 3, Name: "all", Type: &iceberg.ListType{ElementID: 4, Element: p.Timestamp}},
		iceberg.NestedField{ID: 5, Name: "d", Type: iceberg.DecimalTypeOf(9, 2)})
	e := newEnv(t, sc, *iceberg.UnpartitionedSpec, nil)
	nano := &arrow.TimestampType{Unit: arrow.Nanosecond}
	element := stored(4, "element", nano)
	f := foreignFile{
		fields: []arrow.Field{
			stored(1, "id", arrow.PrimitiveTypes.Int64), stored(2, "at", nano),
			stored(3, "all", arrow.ListOfField(element)), stored(5, "d", &arrow.Decimal128Type{Precision: 9, Scale: 2}),
		},
		arrow: []pqarrow.WriterOption{pqarrow.WithDeprecatedInt96Timestamps(true)}, group: 2000,
		props: []parquet.WriterProperty{parquet.WithDictionaryDefault(false), parquet.WithStoreDecimalAsInteger(true)},
	}
	var want []string
	for i := range 5000 {
		at, list := fmt.Sprintf(`"19%02d-01-02 03:04:05.000%03d"`, i%100, i%1000), `null`
		switch i % 7 {
		case 0:
			at = `null`
		case 1:
			list = `[]`
		case 2:
			list = fmt.Sprintf(`[%s,null,%[1]s]`, at)
		}
		const form = `{"id":%d,"at":%s,"all":%s,"d":"%d.25"}`
		f.rows = append(f.rows, fmt.Sprintf(form, i, at, list, i))
		if i != 3 && i != 4100 && i != 101 && i != 1101 && i != 2101 && i != 4101 {
			want = append(want, fmt.Sprintf(form, i, zoned(p.TimestampTz, []string{at})[0], list, i))
		}
	}
	paths := []string{e.addFile(f), e.addFile(f)}
	data, _ := e.files()
	for _, path := range paths {
		e.deletePositions(data[0], position{"file://" + path, 3}, position{"file://" + path, 4100})
	}
	e.deleteEqual(2, `{"at":"1901-01-02 03:04:05.000101Z"}`)
	expected := e.wanted(2, want...)
	out := e.compact(PlanOptions{MinInputFiles: 2}, Options{Verify: true})
	require.Len(t, out.results, 1)
	assert.Equal(t, expected, e.rows())
	_, deletes := e.files()
	assert.Empty(t, deletes)
	exactMetrics(t, e.load(), out.results[0].Outputs)
}
