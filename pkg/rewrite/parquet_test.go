package rewrite

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// written has nested columns, and a name that Parquet does not allow.
var written = iceberg.NewSchema(0,
	iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true},
	iceberg.NestedField{ID: 2, Name: "s", Type: iceberg.PrimitiveTypes.String},
	iceberg.NestedField{ID: 3, Name: "odd name", Type: iceberg.PrimitiveTypes.Float64},
	iceberg.NestedField{ID: 4, Name: "tags", Type: &iceberg.ListType{ElementID: 5, Element: iceberg.PrimitiveTypes.String}},
	iceberg.NestedField{ID: 6, Name: "m", Type: &iceberg.MapType{KeyID: 7, KeyType: iceberg.PrimitiveTypes.String, ValueID: 8, ValueType: iceberg.PrimitiveTypes.Int64}},
	iceberg.NestedField{ID: 9, Name: "st", Type: &iceberg.StructType{FieldList: []iceberg.NestedField{{ID: 10, Name: "x", Type: iceberg.PrimitiveTypes.Int32}}}},
)

const writtenRows = 12_000

// text is the value of column s, of 3000 distinct ones.
func text(i int) string { return fmt.Sprintf("text-%04d-%020d", i%3000, i%3000) }

// outputOf compacts a table of the schema above with properties and an order, and
// opens its one output.
func outputOf(t *testing.T, props iceberg.Properties, o PlanOptions) (iceberg.DataFile, *file.Reader) {
	t.Helper()

	return outputOfRows(t, writtenRows, props, o)
}

// few rows are enough where nothing depends on sizes.
const few = 600

func outputOfRows(t *testing.T, rows int, props iceberg.Properties, o PlanOptions) (iceberg.DataFile, *file.Reader) {
	t.Helper()
	e := newEnv(t, written, *iceberg.UnpartitionedSpec, props)
	sc, err := table.SchemaToArrowSchemaWithOptions(e.load().Schema(), table.ArrowSchemaOptions{})
	require.NoError(t, err)
	for f := range 2 {
		b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
		for i := f * rows / 2; i < (f+1)*rows/2; i++ {
			b.Field(0).(*array.Int64Builder).Append(int64(i))
			if i%7 == 0 {
				b.Field(1).AppendNull()
			} else {
				b.Field(1).(*array.StringBuilder).Append(text(i))
			}
			b.Field(2).(*array.Float64Builder).Append(map[bool]float64{true: math.NaN(), false: float64(i)}[i%10 == 0])
			tags := b.Field(3).(*array.ListBuilder)
			tags.Append(true)
			for _, tag := range []string{"tag-" + text(i), "tag"}[:i%3%2+1] {
				tags.ValueBuilder().(*array.StringBuilder).Append(tag)
			}
			m := b.Field(4).(*array.MapBuilder)
			m.Append(true)
			m.KeyBuilder().(*array.StringBuilder).Append("key-" + text(i))
			m.ItemBuilder().(*array.Int64Builder).Append(int64(i))
			st := b.Field(5).(*array.StructBuilder)
			st.Append(true)
			st.FieldBuilder(0).(*array.Int32Builder).Append(int32(i % 100))
		}
		e.appendBatch(b.NewRecordBatch())
		b.Release()
	}
	o.RewriteAll = true
	done := e.compact(o, Options{Engine: EngineGeneral}) // which compares hashes of all rows
	require.Len(t, done.results, 1)
	require.Len(t, done.results[0].Outputs, 1)
	df := done.results[0].Outputs[0]
	exactMetrics(t, done.tbl, []iceberg.DataFile{df})

	return df, openParquet(t, df)
}

func openParquet(t *testing.T, df iceberg.DataFile) *file.Reader {
	t.Helper()
	raw, err := os.ReadFile(strings.TrimPrefix(df.FilePath(), "file://"))
	require.NoError(t, err)
	pf, err := file.NewParquetReader(bytes.NewReader(raw))
	require.NoError(t, err)

	return pf
}

// chunkOf is the metadata of a column in a row group.
func chunkOf(t *testing.T, pf *file.Reader, group, id int) (*metadata.ColumnChunkMetaData, int) {
	t.Helper()
	leaf, found := leafColumns(pf.MetaData().Schema)[id]
	require.True(t, found, "column of field %d", id)
	chunk, err := pf.MetaData().RowGroup(group).ColumnChunk(leaf.ordinal)
	require.NoError(t, err)

	return chunk, leaf.ordinal
}

func TestWhatAFooterHolds(t *testing.T) {
	df, pf := outputOf(t, iceberg.Properties{"write.parquet.row-group-limit": "5000"}, PlanOptions{})
	assert.Len(t, leafColumns(pf.MetaData().Schema), 7, "a field id on each column")
	var stored iceberg.Schema
	require.NoError(t, json.Unmarshal([]byte(*pf.MetaData().KeyValueMetadata().FindValue("iceberg.schema")), &stored))
	assert.True(t, written.Equals(&stored))
	assert.EqualValues(t, openSize(t, df), df.FileSizeBytes())
	var offsets []int64
	for i := range pf.NumRowGroups() {
		assert.LessOrEqual(t, pf.MetaData().RowGroup(i).NumRows(), int64(5000))
		chunk, _ := chunkOf(t, pf, i, 1)
		at := chunk.DataPageOffset()
		if chunk.HasDictionaryPage() {
			at = chunk.DictionaryPageOffset()
		}
		offsets = append(offsets, at)
		assert.Equal(t, compress.Codecs.Zstd, chunk.Compression())
	}
	assert.Greater(t, len(offsets), 2)
	assert.Equal(t, offsets, df.SplitOffsets())
	assert.Nil(t, df.SortOrderID())
	assert.Empty(t, sortingColumnsOf(pf))
}

func openSize(t *testing.T, df iceberg.DataFile) int64 {
	t.Helper()
	info, err := os.Stat(strings.TrimPrefix(df.FilePath(), "file://"))
	require.NoError(t, err)

	return info.Size()
}

func sortingColumnsOf(pf *file.Reader) (out []string) {
	for _, c := range pf.MetaData().RowGroups[0].SortingColumns {
		out = append(out, fmt.Sprintf("%d desc=%t nulls first=%t", c.ColumnIdx, c.Descending, c.NullsFirst))
	}

	return out
}

// Parquet is told the leading columns of the order, as far as it can express them.
func TestSortingColumns(t *testing.T) {
	for by, want := range map[string][]string{
		"s desc, id":             {"1 desc=true nulls first=false", "0 desc=false nulls first=true"},
		"st.x nulls last, s":     {"6 desc=false nulls first=false", "1 desc=false nulls first=true"},
		"s, bucket(4, id), st.x": {"1 desc=false nulls first=true"},
		"bucket(4, id), s":       nil,
		`"odd name", s`:          nil,
		`id, "odd name", s`:      {"0 desc=false nulls first=true"},
	} {
		t.Run(by, func(t *testing.T) {
			_, pf := outputOfRows(t, few, nil, PlanOptions{SortBy: by})
			assert.Equal(t, want, sortingColumnsOf(pf))
		})
	}
}

// Every page has its place and its extremes in the index, and they are right.
func TestPageIndex(t *testing.T) {
	for version := range 2 {
		t.Run(fmt.Sprint(version+1), func(t *testing.T) {
			_, pf := outputOf(t, iceberg.Properties{
				"write.parquet.page-size-bytes": "16384", "write.parquet.row-group-limit": "7000", "write.parquet.page-version": fmt.Sprint(version + 1),
			}, PlanOptions{})
			first := int64(0)
			for group := range pf.NumRowGroups() {
				index, err := pf.GetPageIndexReader().RowGroup(group)
				require.NoError(t, err)
				rows := pf.MetaData().RowGroup(group).NumRows()
				for id := range leafColumns(pf.MetaData().Schema) {
					chunk, ordinal := chunkOf(t, pf, group, id)
					columns, err := index.GetColumnIndex(ordinal)
					require.NoError(t, err)
					offsets, err := index.GetOffsetIndex(ordinal)
					require.NoError(t, err)
					require.NotNil(t, columns, "column index of field %d", id)
					pages := offsets.GetPageLocations()
					require.NotEmpty(t, pages)
					require.Len(t, columns.GetMinValues(), len(pages))
					stats, err := chunk.Statistics()
					require.NoError(t, err)
					assert.Equal(t, stats.NullCount(), sum(columns.GetNullCounts()), "nulls of field %d", id)
					assert.Zero(t, pages[0].FirstRowIndex)
					if id == 1 {
						idPages(t, columns, pages, first, rows)
					}
					if id == 2 {
						textPages(t, columns, pages, first, rows)
					}
				}
				first += rows
			}
			require.EqualValues(t, writtenRows, first)
		})
	}
}

func sum(values []int64) (total int64) {
	for _, v := range values {
		total += v
	}

	return total
}

// idPages: the ids count up from the first row of the row group.
func idPages(t *testing.T, columns metadata.ColumnIndex, pages []*metadata.PageLocation, first, rows int64) {
	t.Helper()
	require.Greater(t, len(pages), 2)
	for i, p := range pages {
		end := rows
		if i+1 < len(pages) {
			end = pages[i+1].FirstRowIndex
		}
		assert.EqualValues(t, first+p.FirstRowIndex, binary.LittleEndian.Uint64(columns.GetMinValues()[i]))
		assert.EqualValues(t, first+end-1, binary.LittleEndian.Uint64(columns.GetMaxValues()[i]))
	}
}

// textPages: every text lies between the extremes of its page.
func textPages(t *testing.T, columns metadata.ColumnIndex, pages []*metadata.PageLocation, first, rows int64) {
	t.Helper()
	for i, p := range pages {
		end, nulls := rows, int64(0)
		if i+1 < len(pages) {
			end = pages[i+1].FirstRowIndex
		}
		for row := first + p.FirstRowIndex; row < first+end; row++ {
			if row%7 == 0 {
				nulls++

				continue
			}
			assert.LessOrEqual(t, string(columns.GetMinValues()[i]), text(int(row)))
			assert.GreaterOrEqual(t, string(columns.GetMaxValues()[i]), text(int(row)))
		}
		assert.Equal(t, nulls, columns.GetNullCounts()[i])
	}
}

func TestSizesOfRowGroupsAndPages(t *testing.T) {
	_, large := outputOf(t, nil, PlanOptions{})
	assert.Equal(t, 1, large.NumRowGroups())
	whole := pagesOf(t, large, 2)
	_, small := outputOf(t, iceberg.Properties{"write.parquet.page-size-bytes": "4096"}, PlanOptions{})
	assert.Greater(t, pagesOf(t, small, 2), 3*whole)
	assert.Greater(t, pagesOf(t, small, 1), writtenRows*8/4096/2)
	_, cut := outputOf(t, iceberg.Properties{"write.parquet.row-group-size-bytes": "65536"}, PlanOptions{})
	require.Greater(t, cut.NumRowGroups(), 2)
	for i := range cut.NumRowGroups() {
		var stored int64
		for id := range leafColumns(cut.MetaData().Schema) {
			chunk, _ := chunkOf(t, cut, i, id)
			stored += chunk.TotalCompressedSize()
		}
		assert.Less(t, stored, int64(2*65536), "row group %d", i)
	}
}

func pagesOf(t *testing.T, pf *file.Reader, id int) int {
	t.Helper()
	index, err := pf.GetPageIndexReader().RowGroup(0)
	require.NoError(t, err)
	_, ordinal := chunkOf(t, pf, 0, id)
	offsets, err := index.GetOffsetIndex(ordinal)
	require.NoError(t, err)

	return len(offsets.GetPageLocations())
}

// Codec, level, version of pages and dictionaries are those that the table asks for.
func TestCodecsPagesAndDictionaries(t *testing.T) {
	dictionary := func(pf *file.Reader, id int) bool {
		chunk, _ := chunkOf(t, pf, 0, id)

		return chunk.HasDictionaryPage()
	}
	for name, codec := range map[string]compress.Compression{
		"zstd": compress.Codecs.Zstd, "snappy": compress.Codecs.Snappy, "gzip": compress.Codecs.Gzip,
		"brotli": compress.Codecs.Brotli, "lz4raw": compress.Codecs.Lz4Raw, "uncompressed": compress.Codecs.Uncompressed, "ZSTD": compress.Codecs.Zstd,
	} {
		_, pf := outputOfRows(t, few, iceberg.Properties{"write.parquet.compression-codec": name}, PlanOptions{})
		chunk, _ := chunkOf(t, pf, 0, 5)
		assert.Equal(t, codec, chunk.Compression(), name)
	}
	fast, pf := outputOf(t, iceberg.Properties{"write.parquet.compression-codec": "gzip", "write.parquet.compression-level": "1"}, PlanOptions{})
	assert.True(t, dictionary(pf, 2) && dictionary(pf, 5), "texts that come again")
	assert.False(t, dictionary(pf, 1), "no number comes twice")
	best, _ := outputOf(t, iceberg.Properties{"write.parquet.compression-codec": "gzip", "write.parquet.compression-level": "9"}, PlanOptions{})
	assert.Less(t, best.FileSizeBytes(), fast.FileSizeBytes())
	_, pf = outputOf(t, iceberg.Properties{"parquet.enable.dictionary": "false", "write.parquet.dict-encoding-enabled.column.tags.element": "true"}, PlanOptions{})
	assert.False(t, dictionary(pf, 2))
	assert.True(t, dictionary(pf, 5), "the property names the column as the schema does")
	_, pf = outputOf(t, iceberg.Properties{"write.parquet.dict-size-bytes": "1024"}, PlanOptions{})
	chunk, _ := chunkOf(t, pf, 0, 2)
	assert.Contains(t, chunk.Encodings(), parquet.Encodings.Plain, "a dictionary that became too large is given up")
	for version, want := range map[string]bool{"1": true, "2": false} {
		_, pf := outputOfRows(t, few, iceberg.Properties{"write.parquet.page-version": version}, PlanOptions{})
		pages, err := pf.RowGroup(0).GetColumnPageReader(0)
		require.NoError(t, err)
		require.True(t, pages.Next())
		_, v1 := pages.Page().(*file.DataPageV1)
		assert.Equal(t, want, v1, "version %s", version)
		require.NoError(t, pages.Close())
	}
}

// Metrics are kept as far as the table asks for, by column and by default.
func TestMetricsModes(t *testing.T) {
	const column = "write.metadata.metrics.column."
	df, _ := outputOf(t, iceberg.Properties{
		"write.metadata.metrics.default": "none", column + "id": "full", column + "s": "truncate(4)",
		column + "odd name": "counts", column + "st.x": "full",
	}, PlanOptions{})
	assert.Equal(t, "text", string(df.LowerBoundValues()[2]))
	assert.Equal(t, "texu", string(df.UpperBoundValues()[2]))
	assert.Len(t, df.LowerBoundValues()[1], 8)
	assert.Contains(t, df.ValueCounts(), 3)
	assert.NotContains(t, df.LowerBoundValues(), 3)
	assert.Contains(t, df.ValueCounts(), 10)
	assert.NotContains(t, df.ValueCounts(), 5)
	df, _ = outputOf(t, nil, PlanOptions{})
	assert.Equal(t, text(0)[:16], string(df.LowerBoundValues()[2]), "cut after 16 characters by default")
	df, _ = outputOf(t, iceberg.Properties{"write.metadata.metrics.default": "full"}, PlanOptions{})
	assert.Equal(t, text(0)[:5], string(df.LowerBoundValues()[2])[:5])
	assert.Len(t, df.UpperBoundValues()[2], len(text(0)))
}
