package rewrite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBoundsCoverValuesTooLongForAFooter: the footer has no extremes for a row group with a very long value, so those of the other row
// groups are not the file's. A scan for the long values still finds them.
func TestBoundsCoverValuesTooLongForAFooter(t *testing.T) {
	for _, version := range []string{"2", "3"} {
		for _, partitioned := range []bool{false, true} {
			t.Run(fmt.Sprintf("v%s partitioned=%t", version, partitioned), func(t *testing.T) {
				spec := *iceberg.UnpartitionedSpec
				if partitioned {
					spec = iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1000, Name: "day", Transform: iceberg.IdentityTransform{}})
				}
				e := newEnv(t, iceberg.NewSchema(0,
					iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
					iceberg.NestedField{ID: 2, Name: "a.b", Type: iceberg.PrimitiveTypes.String},
					iceberg.NestedField{ID: 3, Name: "day", Type: iceberg.PrimitiveTypes.Date},
				), spec, iceberg.Properties{"format-version": version, "write.parquet.row-group-limit": "10"})
				for i := range 3 {
					var rows []string
					for j := range 10 {
						text := fmt.Sprintf("b%d", j)
						if i == 1 {
							text = strings.Repeat("z", 5000)
						}
						rows = append(rows, fmt.Sprintf(`{"id":%d,"a.b":%q,"day":"2026-11-30"}`, 10*i+j, text))
					}
					e.appendJSON(rows...)
				}
				out := e.sameRows(PlanOptions{MinInputFiles: 2}, Options{Engine: EngineGeneral})
				require.Len(t, out.results, 1)
				require.Len(t, out.results[0].Outputs, 1)
				df := out.results[0].Outputs[0]
				require.Greater(t, len(df.SplitOffsets()), 1, "several row groups")
				assert.NotContains(t, df.UpperBoundValues(), 2)
				assert.NotContains(t, df.LowerBoundValues(), 2)
				assert.Contains(t, df.UpperBoundValues(), 1, "the other columns keep theirs")
				assert.EqualValues(t, 30, df.ValueCounts()[2])
				assert.EqualValues(t, 0, df.NullValueCounts()[2])
				found := 0
				_, batches, err := e.load().Scan(table.WithRowFilter(iceberg.GreaterThan(iceberg.Reference("a.b"), "c"))).ToArrowRecords(t.Context())
				require.NoError(t, err)
				for rec, err := range batches {
					require.NoError(t, err)
					found += int(rec.NumRows())
					rec.Release()
				}
				assert.Equal(t, 10, found)
			})
		}
	}
}
