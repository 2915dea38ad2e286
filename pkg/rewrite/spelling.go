package rewrite

import (
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// spelledFile is a manifest entry whose file format another writer spelled in
// its own way, such as DuckDB's "parquet". iceberg-go compares the raw text with
// its own names and takes such a file for one of an unknown format, and such a
// deletion vector for a position-delete file.
type spelledFile struct {
	iceberg.DataFile
	format iceberg.FileFormat
}

// FileFormat implements iceberg.DataFile.
func (f spelledFile) FileFormat() iceberg.FileFormat { return f.format }

// canonical returns the file with its format as the specification spells it. A
// format that is not known stays, and is refused later.
func canonical(df iceberg.DataFile) iceberg.DataFile {
	format, err := iceberg.FileFormatFromString(string(df.FileFormat()))
	if err != nil || format == df.FileFormat() {
		return df
	}

	return spelledFile{DataFile: df, format: format}
}

// unremovable reports whether a file is a deletion vector that iceberg-go (v0.7.0)
// will not find again when it is to be removed, because it reads the manifest
// anew and takes the vector for something else.
func unremovable(df iceberg.DataFile) bool {
	spelled, is := df.(spelledFile)

	return is && table.IsDeletionVector(spelled)
}
