package rewrite

import (
	"fmt"
	"strings"

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
// committed.
func writerTable(tbl *table.Table, rec *recorder) (*table.Table, error) {
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
	err = builder.SetProperties(changed)
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
