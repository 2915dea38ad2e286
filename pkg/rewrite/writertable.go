package rewrite

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// compressionLevelKey is set by us when the table does not: the fastest zstd
// level costs a quarter less time and the files come out as small.
const (
	compressionLevelKey  = "write.parquet.compression-level"
	compressionCodecKey  = "write.parquet.compression-codec"
	fastCompressionLevel = "1"
)

// writerTable is the table as the writer should see it: its storage records
// what is created, and its location sends partitioned files to write.data.path,
// which the writer honours for unpartitioned tables only. Nothing of it is ever
// committed. With plainFloats no column of floating-point numbers has a dictionary.
func writerTable(tbl *table.Table, rec *recorder, plainFloats bool) (*table.Table, error) {
	builder, err := table.MetadataBuilderFromBase(tbl.Metadata(), tbl.MetadataLocation())
	if err != nil {
		return nil, fmt.Errorf("copy table metadata: %w", err)
	}
	props := tbl.Properties()
	// The writer takes a codec in capitals for an unknown one.
	codec := strings.ToLower(props.Get(compressionCodecKey, "zstd"))
	changed := iceberg.Properties{compressionCodecKey: codec}
	if props[compressionLevelKey] == "" && codec == "zstd" {
		changed[compressionLevelKey] = fastCompressionLevel
	}
	if err := fileNames(tbl, changed, plainFloats); err != nil {
		return nil, err
	}
	err = builder.SetProperties(changed)
	if err == nil && !tbl.SortOrder().IsUnsorted() {
		// The writer would sort each batch, which is of no use.
		unsorted := table.UnsortedSortOrder
		if err = builder.AddSortOrder(&unsorted); err == nil {
			err = builder.SetDefaultSortOrderID(table.UnsortedSortOrderID)
		}
	}
	spec := tbl.Spec()
	if path := props[table.WriteDataPathKey]; err == nil && path != "" && !spec.IsUnpartitioned() {
		err = builder.SetLoc(strings.TrimSuffix(strings.TrimRight(path, "/"), "/data"))
	}
	if err != nil {
		return nil, fmt.Errorf("adapt table metadata for writing: %w", err)
	}
	meta, err := builder.Build()
	if err != nil {
		return nil, fmt.Errorf("adapt table metadata for writing: %w", err)
	}

	return table.New(tbl.Identifier(), meta, tbl.MetadataLocation(), rec.open(tbl), nil), nil
}

// fileNames adds properties of single columns under the names that the files
// have, by which iceberg-go (v0.7.0) and the splice engine look them up: Parquet
// does not allow all names, and lists and maps have levels of their own there.
func fileNames(tbl *table.Table, out iceberg.Properties, plainFloats bool) error {
	schema := tbl.Schema()
	stored, leaves, err := storedColumns(schema, tbl.Properties())
	if err != nil {
		return err
	}
	for key, value := range tbl.Properties() {
		for _, prefix := range []string{table.MetricsModeColumnConfPrefix + ".", bloomColumnPrefix, dictColumnPrefix} {
			name, found := strings.CutPrefix(key, prefix)
			field, known := schema.FindFieldByName(name)
			if !found || !known {
				continue
			}
			other := leaves[field.ID].path
			if prefix == table.MetricsModeColumnConfPrefix+"." {
				other, _ = stored.FindColumnName(field.ID)
			}
			if other != "" && other != name {
				out[prefix+other] = value
			}
		}
	}
	if plainFloats {
		withoutFloatDictionaries(schema, leaves, out)
	}

	return nil
}

// storedColumns are the schema that the files of a table have, and their columns.
func storedColumns(schema *iceberg.Schema, props iceberg.Properties) (*iceberg.Schema, map[int]leafColumn, error) {
	stored, err := iceberg.SanitizeColumnNames(schema)
	if err != nil {
		return nil, nil, fmt.Errorf("adapt column names: %w", err)
	}
	sc, err := table.SchemaToArrowSchemaWithOptions(stored, table.ArrowSchemaOptions{IncludeFieldIDs: true, TableProperties: props})
	if err != nil {
		return nil, nil, fmt.Errorf("convert table schema to arrow: %w", err)
	}
	columns, err := pqarrow.ToParquet(sc, parquet.NewWriterProperties(), arrowProperties())
	if err != nil {
		return nil, nil, fmt.Errorf("convert table schema to parquet: %w", err)
	}

	return stored, leafColumns(columns), nil
}
