package rewrite

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"

	"compactor/pkg/rewrite/rowsort"
)

// nullText is how a null partition value reads in a path.
const nullText = "null"

// pathGuard protects a fan-out write. The fan-out writer tells partitions apart
// by their path, in which the text "null" and a null value read the same: both
// would land in one file with one of the two values. The guard refuses data
// that holds such a text, before anything is mixed up.
type pathGuard struct {
	columns []guardedColumn
}

type guardedColumn struct {
	name  string
	path  []int
	width int // of the truncate transform, 0 for identity
}

func newPathGuard(spec iceberg.PartitionSpec, sc *iceberg.Schema) *pathGuard {
	g := &pathGuard{}
	for _, field := range spec.Fields() {
		width := 0
		switch t := field.Transform.(type) {
		case iceberg.IdentityTransform:
		case iceberg.TruncateTransform:
			width = t.Width
		case *iceberg.TruncateTransform:
			width = t.Width
		default:
			continue
		}
		if path := rowsort.FieldPath(sc.Fields(), field.SourceID()); path != nil {
			g.columns = append(g.columns, guardedColumn{name: field.Name, path: path, width: width})
		}
	}

	return g
}

func (g *pathGuard) check(rec arrow.RecordBatch) error {
	for _, col := range g.columns {
		arr := rec.Column(col.path[0])
		for _, i := range col.path[1:] {
			st, ok := arr.(*array.Struct)
			if !ok {
				return fmt.Errorf("partition field %s: its column is a %s, not a struct", col.name, arr.DataType())
			}
			arr = st.Field(i)
		}
		texts, ok := arr.(array.StringLike)
		if !ok {
			continue
		}
		for i := range arr.Len() {
			if !arr.IsNull(i) && col.collides(texts.Value(i)) {
				return fmt.Errorf("partition field %s: a row holds the text %q, which cannot be told from a missing value "+
					"when files of an old partition spec are rewritten", col.name, texts.Value(i))
			}
		}
	}

	return nil
}

func (c guardedColumn) collides(text string) bool {
	if c.width == len(nullText) {
		return strings.HasPrefix(text, nullText)
	}

	return text == nullText && (c.width == 0 || c.width > len(nullText))
}
