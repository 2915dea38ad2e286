package rewrite

import (
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// A row group is large enough when it has as many rows and as many compressed
// bytes. Readers that skip whole row groups alone, and those that spread them
// over threads, are the faster the smaller they are; the bytes keep the requests
// to an object store worthwhile where rows are narrow. docs/performance.md has
// the measurement.
const (
	enoughRows  = 128 << 10
	enoughBytes = 4 << 20
)

// choosesRowGroups reports whether the table leaves the size of row groups to
// the writer.
func choosesRowGroups(props iceberg.Properties) bool {
	return props[table.ParquetRowGroupLimitKey] == "" && props[table.ParquetRowGroupSizeBytesKey] == ""
}

// enoughFor is after how many rows a row group is large enough, when all rows
// together take so many bytes.
func enoughFor(rows, bytes int64) int64 {
	return max(enoughRows, int64(enoughBytes*ratio(rows, bytes)))
}
