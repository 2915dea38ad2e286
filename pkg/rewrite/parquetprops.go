package rewrite

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

const (
	dictEnabledKey    = "parquet.enable.dictionary"
	dictColumnPrefix  = "write.parquet.dict-encoding-enabled.column."
	bloomColumnPrefix = table.ParquetBloomFilterColumnEnabledKeyPrefix + "."
	bloomRatePrefix   = "write.parquet.bloom-filter-fpp.column."
	bloomValuesPrefix = "write.parquet.bloom-filter-ndv.column."
	leastBloomBytes   = 32
	mostBloomBytes    = 128 << 20
	// bloomCandidates are the sizes that are tried for a filter, each half of the
	// one before.
	bloomCandidates = 15
	leastPageBytes  = 4 << 10
	// The size of a page is looked at, and whether a dictionary pays, after so many
	// values at least and at most.
	leastPageRows        = 32
	mostPageRows         = 20_000
	defaultPageBytes     = table.ParquetPageSizeBytesDefault
	defaultRowGroupBytes = int64(table.ParquetRowGroupSizeBytesDefault)
)

// leafColumn is a column of a Parquet file.
type leafColumn struct {
	ordinal int
	path    string // physical: with the levels of lists and maps
}

// leafColumns are the columns of a file by field id. Tables name columns in their
// properties as the schema does; a file's own paths have more levels.
func leafColumns(sc *schema.Schema) map[int]leafColumn {
	out := make(map[int]leafColumn, sc.NumColumns())
	for i := range sc.NumColumns() {
		leaf := sc.Column(i)
		out[int(leaf.SchemaNode().FieldID())] = leafColumn{i, leaf.Path()}
	}

	return out
}

// fileSizes is what the writer has to know of the rows of a file.
type fileSizes struct {
	groupRows int64 // of a row group, at most
	columns   int64
	widest    int64 // bytes of an average value of the widest column
}

// parquetProperties maps the table's properties to those of the writer, whatever
// depends on single columns excepted.
func parquetProperties(props iceberg.Properties, s fileSizes) ([]parquet.WriterProperty, error) {
	codec, err := codecOf(props)
	if err != nil {
		return nil, err
	}
	version := parquet.DataPageV2
	if props.Get(table.ParquetPageVersionKey, table.ParquetPageVersionDefault) == "1" {
		version = parquet.DataPageV1
	}
	// Pages that wait are not seen by the limit of a row group: all of them
	// together stay below it.
	page := min(int64(props.GetInt(table.ParquetPageSizeBytesKey, defaultPageBytes)),
		max(leastPageBytes, rowGroupBytes(props)/(4*max(1, s.columns))))
	pageRows := min(mostPageRows, int64(props.GetInt(table.ParquetPageRowLimitKey, table.ParquetPageRowLimitDefault)))
	dictionary := !strings.EqualFold(props.Get(dictEnabledKey, "true"), "false")

	return []parquet.WriterProperty{
		parquet.WithMaxRowGroupLength(s.groupRows),
		parquet.WithDataPageSize(page),
		parquet.WithDataPageVersion(version),
		parquet.WithBatchSize(max(leastPageRows, min(pageRows, page/max(1, s.widest)))),
		parquet.WithDictionaryPageSizeLimit(int64(props.GetInt(table.ParquetDictSizeBytesKey, table.ParquetDictSizeBytesDefault))),
		parquet.WithDictionaryDefault(dictionary),
		parquet.WithCompression(compress.Compression(codec)),
		parquet.WithCompressionLevel(props.GetInt(compressionLevelKey, compress.DefaultCompressionLevel)),
		parquet.WithPageIndexEnabled(true),
	}, nil
}

func rowGroupBytes(props iceberg.Properties) int64 {
	n, err := strconv.ParseInt(props[table.ParquetRowGroupSizeBytesKey], 10, 64)
	if err != nil || n < 1 {
		return defaultRowGroupBytes
	}

	return n
}

// columnProperties maps what the table says about single columns. A name that
// stands for none is passed over, as other writers do.
func columnProperties(props iceberg.Properties, sc *iceberg.Schema, leaves map[int]leafColumn) []parquet.WriterProperty {
	var out []parquet.WriterProperty
	for _, id := range slices.Sorted(maps.Keys(leaves)) {
		// A dictionary that does not pay is given up, whatever the codec.
		out = append(out, parquet.WithDictionaryCostFallbackFor(leaves[id].path, true))
	}
	for _, key := range slices.Sorted(maps.Keys(props)) {
		name, found := strings.CutPrefix(key, dictColumnPrefix)
		if path := pathOf(sc, leaves, name); found && path != "" {
			out = append(out, parquet.WithDictionaryFor(path, strings.EqualFold(props[key], "true")))
		}
		name, found = strings.CutPrefix(key, bloomColumnPrefix)
		if path := pathOf(sc, leaves, name); found && path != "" && strings.EqualFold(props[key], "true") {
			out = append(out, bloomProperties(props, name, path)...)
		}
	}
	limit := int64(props.GetInt(table.ParquetBloomFilterMaxBytesKey, table.ParquetBloomFilterMaxBytesDefault))

	return append(out, parquet.WithMaxBloomFilterBytes(max(leastBloomBytes, min(mostBloomBytes, limit))))
}

// bloomProperties asks for a filter of the size that the distinct values of each
// row group need, at most the table's limit. Where the table tells how many
// values there are, the size follows from that.
func bloomProperties(props iceberg.Properties, name, path string) []parquet.WriterProperty {
	out := []parquet.WriterProperty{
		parquet.WithBloomFilterEnabledFor(path, true),
		parquet.WithAdaptiveBloomFilterEnabledFor(path, true),
		parquet.WithBloomFilterCandidatesFor(path, bloomCandidates),
	}
	// Values that make no sense have been refused with the table.
	if rate, err := strconv.ParseFloat(props[bloomRatePrefix+name], 64); err == nil {
		out = append(out, parquet.WithBloomFilterFPPFor(path, rate))
	}
	if values, err := strconv.ParseInt(props[bloomValuesPrefix+name], 10, 32); err == nil {
		out = append(out, parquet.WithBloomFilterNDVFor(path, values))
	}

	return out
}

// pathOf finds the column that a name of the schema, or a path in the file, stands
// for.
func pathOf(sc *iceberg.Schema, leaves map[int]leafColumn, name string) string {
	field, found := sc.FindFieldByName(name)
	if found && name != "" {
		return leaves[field.ID].path
	}
	for _, leaf := range leaves {
		if leaf.path == name {
			return name
		}
	}

	return ""
}

// sortingColumns are the leading keys of the order that Parquet can express:
// columns by their own values. It stops at floats, whose order with NaN Parquet
// leaves open.
func (s *sorting) sortingColumns(leaves map[int]leafColumn) []parquet.SortingColumn {
	if s == nil {
		return nil
	}
	var out []parquet.SortingColumn
	for _, key := range s.order.Keys {
		leaf, stored := leaves[key.FieldID]
		switch key.Type().(type) {
		case iceberg.Float32Type, iceberg.Float64Type:
			stored = false
		}
		if !stored || !key.Identity() {
			break
		}
		out = append(out, parquet.SortingColumn{ColumnIdx: int32(leaf.ordinal), Descending: key.Descending, NullsFirst: key.NullsFirst})
	}

	return out
}
