package splice

import (
	"fmt"
	"slices"
	"strings"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/refuse"
)

// RulePrefixes is the rule of values in DELTA_BYTE_ARRAY that may refer to the
// page before.
const RulePrefixes refuse.Rule = "strings that go on from page to page"

// prefixesGoOn reports whether a writer stores the first value of a page as a
// difference from the last value of the page before, as parquet-mr did up to 1.7
// (PARQUET-246). Readers that know it tell such files by their writer, which an
// output would not name any more.
func prefixesGoOn(createdBy string) bool {
	if !strings.HasPrefix(createdBy, "parquet-mr") {
		return false
	}
	var major, minor int
	if n, _ := fmt.Sscanf(createdBy, "parquet-mr version %d.%d", &major, &minor); n < 2 {
		return true
	}

	return major < 1 || (major == 1 && minor < 8)
}

// checkPrefixes refuses the columns of the output in which prefixes go on.
func (f *File) checkPrefixes(g *format.RowGroup) error {
	if !prefixesGoOn(f.Footer.CreatedBy) {
		return nil
	}
	for _, c := range f.Layout.Columns() {
		if c.Source >= 0 && slices.Contains(g.Columns[c.Source].Meta.Encodings, format.DeltaByteArray) {
			return &refuse.Error{Rule: RulePrefixes, Detail: strings.Join(c.Path, ".")}
		}
	}

	return nil
}
