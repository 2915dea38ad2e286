package stats

import "strings"

// Floats reports whether a writer is known to leave NaN out of the bounds of
// floating-point columns, or to write no bounds where there is NaN. Others take
// NaN for a value that is neither smaller nor larger than any, and their bounds
// depend on the order of values; parquet.thrift (ColumnOrder) asks for better
// since format 2.6 only.
func Floats(createdBy string) bool {
	for _, known := range []string{"compactor", "parquet-cpp-arrow ", "parquet-go version ", "parquet-mr ", "parquet-rs ", "DuckDB "} {
		if strings.HasPrefix(createdBy, known) {
			return true
		}
	}

	return false
}
