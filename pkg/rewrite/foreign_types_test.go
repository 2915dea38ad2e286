package rewrite

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// storedAs is a column x of the table's type that another program stores in a
// type or encoding of its own.
type storedAs struct {
	table  iceberg.Type
	stored arrow.DataType
	json   []string // as stored
	want   []string // as the table has it; nil for the same
	arrow  []pqarrow.WriterOption
	props  []parquet.WriterProperty
}

// readableTypes are read as what they mean.
func readableTypes() map[string]storedAs {
	p := iceberg.PrimitiveTypes
	nano, nanoUTC := &arrow.TimestampType{Unit: arrow.Nanosecond}, &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}
	int96 := []pqarrow.WriterOption{pqarrow.WithDeprecatedInt96Timestamps(true)}
	ts := []string{`"1969-12-31 23:59:59.5"`, `"2024-02-29 12:00:00.123"`, `null`}
	tz := []string{`"1969-12-31 23:59:59.5Z"`, `"2024-02-29 12:00:00.123Z"`, `null`}
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	asInteger := []parquet.WriterProperty{parquet.WithStoreDecimalAsInteger(true)}
	delta := func(e parquet.Encoding) []parquet.WriterProperty {
		return []parquet.WriterProperty{parquet.WithDictionaryDefault(false), parquet.WithEncoding(e)}
	}
	codec := func(c compress.Compression) []parquet.WriterProperty {
		return []parquet.WriterProperty{parquet.WithCompression(c)}
	}
	texts := []string{`"aä"`, `null`, `"aä"`, `"aäb"`}
	longs := []string{`-7`, `null`, `9007199254740993`}

	return map[string]storedAs{
		"timestamp in milliseconds":         {table: p.Timestamp, stored: &arrow.TimestampType{Unit: arrow.Millisecond}, json: ts},
		"timestamp with zone, milliseconds": {table: p.TimestampTz, stored: &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"}, json: tz},
		"INT96 timestamp":                   {table: p.Timestamp, stored: nano, json: ts, arrow: int96},
		"INT96 timestamp with zone":         {table: p.TimestampTz, stored: nano, json: ts, want: tz, arrow: int96},
		"timestamp in nanoseconds":          {table: p.Timestamp, stored: nano, json: ts},
		"timestamp with zone, nanoseconds":  {table: p.TimestampTz, stored: nanoUTC, json: tz},
		"unannotated string":                {table: p.String, stored: arrow.BinaryTypes.Binary, json: []string{`"YcOk"`, `null`}, want: []string{`"aä"`, `null`}},
		"string for binary":                 {table: p.Binary, stored: arrow.BinaryTypes.String, json: []string{`"aä"`, `null`}, want: []string{`"YcOk"`, `null`}},
		"large string":                      {table: p.String, stored: arrow.BinaryTypes.LargeString, json: texts},
		"large binary":                      {table: p.Binary, stored: arrow.BinaryTypes.LargeBinary, json: []string{`"AAE="`, `null`}},
		"dictionary":                        {table: p.String, stored: dictionary, json: texts},
		"int for long":                      {table: p.Int64, stored: arrow.PrimitiveTypes.Int32, json: []string{`-7`, `null`}},
		"short for int":                     {table: p.Int32, stored: arrow.PrimitiveTypes.Int16, json: []string{`-7`, `null`}},
		"unsigned int for long":             {table: p.Int64, stored: arrow.PrimitiveTypes.Uint32, json: []string{`4294967295`, `null`}},
		"unsigned byte for int":             {table: p.Int32, stored: arrow.PrimitiveTypes.Uint8, json: []string{`255`, `null`}},
		"float for double":                  {table: p.Float64, stored: arrow.PrimitiveTypes.Float32, json: []string{`-1.5`, `null`}},
		"decimal as 32-bit integer":         {table: iceberg.DecimalTypeOf(9, 2), stored: &arrow.Decimal128Type{Precision: 9, Scale: 2}, json: []string{`"-1.25"`, `null`}, props: asInteger},
		"decimal as 64-bit integer":         {table: iceberg.DecimalTypeOf(18, 2), stored: &arrow.Decimal128Type{Precision: 18, Scale: 2}, json: []string{`"-1.25"`, `null`}, props: asInteger},
		"narrower decimal":                  {table: iceberg.DecimalTypeOf(38, 2), stored: &arrow.Decimal128Type{Precision: 9, Scale: 2}, json: []string{`"-1.25"`, `null`}},
		"fixed":                             {table: iceberg.FixedTypeOf(2), stored: &arrow.FixedSizeBinaryType{ByteWidth: 2}, json: []string{`"AAE="`, `null`}},
		"date of a 64-bit writer":           {table: p.Date, stored: arrow.FixedWidthTypes.Date64, json: []string{`"1969-12-31"`, `null`}},
		"version 1 pages":                   {table: p.String, stored: arrow.BinaryTypes.String, json: texts, props: []parquet.WriterProperty{parquet.WithDataPageVersion(parquet.DataPageV1), parquet.WithVersion(parquet.V1_0)}},
		"version 2 pages":                   {table: p.String, stored: arrow.BinaryTypes.String, json: texts, props: []parquet.WriterProperty{parquet.WithDataPageVersion(parquet.DataPageV2)}},
		"delta integers":                    {table: p.Int64, stored: arrow.PrimitiveTypes.Int64, json: longs, props: delta(parquet.Encodings.DeltaBinaryPacked)},
		"delta lengths":                     {table: p.String, stored: arrow.BinaryTypes.String, json: texts, props: delta(parquet.Encodings.DeltaLengthByteArray)},
		"delta strings":                     {table: p.String, stored: arrow.BinaryTypes.String, json: texts, props: delta(parquet.Encodings.DeltaByteArray)},
		"split streams":                     {table: p.Float64, stored: arrow.PrimitiveTypes.Float64, json: []string{`-1.5`, `null`}, props: delta(parquet.Encodings.ByteStreamSplit)},
		"without statistics":                {table: p.Int64, stored: arrow.PrimitiveTypes.Int64, json: longs, props: []parquet.WriterProperty{parquet.WithStats(false)}},
		"gzip":                              {table: p.Int64, stored: arrow.PrimitiveTypes.Int64, json: longs, props: codec(compress.Codecs.Gzip)},
		"brotli":                            {table: p.Int64, stored: arrow.PrimitiveTypes.Int64, json: longs, props: codec(compress.Codecs.Brotli)},
		"snappy":                            {table: p.Int64, stored: arrow.PrimitiveTypes.Int64, json: longs, props: codec(compress.Codecs.Snappy)},
		"lz4":                               {table: p.Int64, stored: arrow.PrimitiveTypes.Int64, json: longs, props: codec(compress.Codecs.Lz4Raw)},
	}
}

// unreadableTypes are those that the reader below cannot convert without a doubt.
func unreadableTypes() map[string]storedAs {
	p := iceberg.PrimitiveTypes
	nano, micro := &arrow.TimestampType{Unit: arrow.Nanosecond}, &arrow.TimestampType{Unit: arrow.Microsecond}
	ts, tz := []string{`"1969-12-31 23:59:59.5"`}, []string{`"1969-12-31 23:59:59.5Z"`}

	return map[string]storedAs{
		"nanoseconds, no zone":     {table: p.TimestampTz, stored: nano, json: ts},
		"timestamp without a zone": {table: p.TimestampTz, stored: micro, json: ts},
		"timestamp with a zone":    {table: p.Timestamp, stored: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, json: tz},
		"time in milliseconds":     {table: p.Time, stored: arrow.FixedWidthTypes.Time32ms, json: []string{`"23:59:59.5"`}},
		"UUID without annotation":  {table: p.UUID, stored: &arrow.FixedSizeBinaryType{ByteWidth: 16}, json: []string{`"AAECAwQFBgcICQoLDA0ODw=="`}},
		"other decimal scale":      {table: iceberg.DecimalTypeOf(18, 3), stored: &arrow.Decimal128Type{Precision: 18, Scale: 2}, json: []string{`"-1.25"`}},
		"long for int":             {table: p.Int32, stored: arrow.PrimitiveTypes.Int64, json: []string{`7`}},
		"double for float":         {table: p.Float32, stored: arrow.PrimitiveTypes.Float64, json: []string{`0.1`}},
		"string for long":          {table: p.Int64, stored: arrow.BinaryTypes.String, json: []string{`"12"`}},
		"text for a struct":        {table: &iceberg.StructType{FieldList: []iceberg.NestedField{{ID: 2, Name: "a", Type: p.Int64}}}, stored: arrow.BinaryTypes.String, json: []string{`"12"`}},
	}
}

func (s storedAs) make(t *testing.T) *env {
	t.Helper()
	sc := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "x", Type: s.table})
	e := newEnv(t, sc, *iceberg.UnpartitionedSpec, nil)
	for range 6 {
		e.addFile(foreignFile{fields: []arrow.Field{stored(1, "x", s.stored)}, rows: cells(s.json), arrow: s.arrow, props: s.props})
	}

	return e
}

func cells(values []string) (rows []string) {
	for _, v := range values {
		rows = append(rows, `{"x":`+v+`}`)
	}

	return rows
}

func TestTypesAndEncodingsOfOtherWriters(t *testing.T) {
	for name, s := range readableTypes() {
		for _, engine := range []string{EngineGeneral, EngineSplice} {
			t.Run(name+" "+engine, func(t *testing.T) {
				e := s.make(t)
				want := s.want
				if want == nil {
					want = s.json
				}
				expected := e.wanted(6, cells(want)...)
				out := e.compact(PlanOptions{}, Options{Engine: engine})
				require.Len(t, out.results, 1)
				assert.Equal(t, expected, e.rows())
				exactMetrics(t, e.load(), out.results[0].Outputs)
			})
		}
	}
}

func TestTypesThatCannotBeConvertedAreRefused(t *testing.T) {
	for name, s := range unreadableTypes() {
		t.Run(name, func(t *testing.T) {
			e := s.make(t)
			e.refusedFiles("foreign-")
			results, err := New(Options{Engine: EngineSplice}).Rewrite(t.Context(), e.load(), e.plan(PlanOptions{}).Groups)
			require.NoError(t, err)
			require.ErrorIs(t, results[0].Err, ErrRefused, "the splice engine leaves it to the general one")
		})
	}
}

// refusedFiles expects the only group to be refused, by a run and by a plan that
// is only shown, and to leave no trace.
func (e *env) refusedFiles(reasons ...string) {
	e.t.Helper()
	disk := e.onDisk()
	plan := e.plan(PlanOptions{})
	require.Len(e.t, plan.Groups, 1, plan.Reason)
	results, err := New(Options{}).Rewrite(e.t.Context(), e.load(), plan.Groups)
	require.NoError(e.t, err)
	require.ErrorIs(e.t, results[0].Err, ErrRefused)
	require.NoError(e.t, plan.Inspect(e.t.Context(), e.load()))
	assert.Empty(e.t, plan.Groups)
	require.Len(e.t, plan.Refused, 1)
	for _, reason := range reasons {
		require.ErrorContains(e.t, results[0].Err, reason)
		assert.Contains(e.t, plan.Refused[0].What+": "+plan.Refused[0].Reason, reason)
	}
	assert.Equal(e.t, disk, e.onDisk())
}

func TestFilesWhoseColumnsOrRowsAreInDoubtAreRefused(t *testing.T) {
	id := stored(1, "id", arrow.PrimitiveTypes.Int64)
	rows := []string{`{"id":1}`, `{"id":2}`}
	t.Run("fewer rows in the manifest", func(t *testing.T) {
		e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
		for range 6 {
			e.addFile(foreignFile{fields: []arrow.Field{id}, rows: rows, count: func(n int64) int64 { return n - 1 }})
		}
		e.refusedFiles("it has 2 rows, its manifest says 1")
	})
	t.Run("one field id twice", func(t *testing.T) {
		e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
		for range 6 {
			e.addFile(foreignFile{fields: []arrow.Field{id, stored(1, "other", arrow.PrimitiveTypes.Int64)}, rows: rows})
		}
		e.refusedFiles("columns id and other have the same field id 1")
	})
	t.Run("nested columns without ids", func(t *testing.T) {
		e := newEnv(t, iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "x", Type: &iceberg.StructType{FieldList: []iceberg.NestedField{
			{ID: 2, Name: "a", Type: iceberg.PrimitiveTypes.Int64}}}}), *iceberg.UnpartitionedSpec, nil)
		for range 6 {
			inner := arrow.StructOf(stored(0, "a", arrow.PrimitiveTypes.Int64))
			e.addFile(foreignFile{fields: []arrow.Field{stored(1, "x", inner)}, rows: []string{`{"x":{"a":5}}`}})
		}
		e.refusedFiles("missing field_id")
	})
}

func TestAWrongFileSizeInTheManifestDoesNoHarm(t *testing.T) {
	for name, size := range map[string]func(int64) int64{
		"too small": func(n int64) int64 { return n / 4 }, "too large": func(n int64) int64 { return n * 4 },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
			rows := []string{`{"id":1}`, `{"id":2}`, `{"id":3}`}
			for range 6 {
				e.addFile(foreignFile{fields: []arrow.Field{stored(1, "id", arrow.PrimitiveTypes.Int64)}, rows: rows, group: 1, size: size})
			}
			want := e.wanted(6, rows...)
			e.compact(PlanOptions{}, Options{})
			assert.Equal(t, want, e.rows())
		})
	}
}

func TestFormatsAreKnownInAnySpelling(t *testing.T) {
	b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentPosDeletes, "p", iceberg.PuffinFile, nil, nil, nil, 1, 1)
	require.NoError(t, err)
	spelled := spelledFile{b.Build(), "puffin"}
	require.False(t, table.IsDeletionVector(spelled), "iceberg-go takes it for something else")
	assert.True(t, table.IsDeletionVector(canonical(spelled)))
	assert.Equal(t, iceberg.FileFormat("text"), canonical(spelledFile{b.Build(), "text"}).FileFormat())
}
