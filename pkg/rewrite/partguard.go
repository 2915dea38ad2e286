package rewrite

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"compactor/pkg/rewrite/rowsort"
)

// transformGuard makes sure that the rows of an output belong to its partition,
// under the transforms that rowGuard does not look at. Outputs keep the partition
// of their inputs, so a row that was in the wrong file would stay hidden there.
type transformGuard struct{ fields []transformField }

type transformField struct {
	name    string
	value   any
	matcher *rowsort.Matcher
}

// newTransformGuard is for files of the table's current spec and one partition.
func newTransformGuard(tbl *table.Table, df iceberg.DataFile) transformGuard {
	var g transformGuard
	spec := tbl.Spec()
	values := df.Partition()
	for _, field := range spec.Fields() {
		switch field.Transform.(type) {
		case iceberg.IdentityTransform, *iceberg.IdentityTransform, iceberg.VoidTransform, *iceberg.VoidTransform:
			continue
		}
		key, err := rowsort.NewKey(tbl.Schema(), field.SourceID(), field.Transform)
		if err != nil { // a type or a place that is not compared here
			continue
		}
		value := values[field.FieldID]
		if matcher, err := rowsort.NewMatcher(key, value); err == nil {
			g.fields = append(g.fields, transformField{field.Name, value, matcher})
		}
	}

	return g
}

func (g transformGuard) check(rec arrow.RecordBatch) error {
	for _, f := range g.fields {
		row, err := f.matcher.Find(rec)
		if err != nil {
			return fmt.Errorf("partition field %s: %w", f.name, err)
		}
		if row >= 0 {
			return fmt.Errorf("%w: partition field %s is %v, a row belongs to another value of it", errPartition, f.name, f.value)
		}
	}

	return nil
}
