package rewrite

import (
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Positions that iceberg-go deletes from files of an older spec stand in a
// delete file of the current one, which reaches them for some readers only.
func TestFilesNamedByADeleteOfAnotherPartitionAreRefused(t *testing.T) {
	for _, metrics := range []string{"counts", "truncate(16)", "full"} {
		t.Run(metrics, func(t *testing.T) {
			e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, iceberg.Properties{
				"write.delete.mode": "merge-on-read", "write.metadata.metrics.default": metrics,
			})
			e.appendSeries(0, 5)
			e.appendSeries(5, 5)
			e.appendSeries(10, 5)
			bucket := iceberg.BucketTransform{NumBuckets: 2}
			e.commit(func(tx *table.Transaction) {
				require.NoError(t, tx.UpdateSpec(true).AddField("id", bucket, "b").Commit())
			})
			e.appendSeries(15, 5)
			stale := e.plan(PlanOptions{RewriteAll: true})
			require.Empty(t, stale.Refused)
			_, err := e.load().Delete(t.Context(), iceberg.IsIn(iceberg.Reference("id"), int64(1), int64(7)), nil)
			require.NoError(t, err)
			require.Len(t, e.rows(), 20, "iceberg-go does not apply what it wrote")

			plan := e.plan(PlanOptions{RewriteAll: true})
			require.Len(t, plan.Refused, 1)
			assert.Equal(t, 2, plan.Refused[0].Files)
			assert.Contains(t, plan.Refused[0].Reason, "is of another partition")
			fresh, err := stale.Refresh(t.Context(), e.load())
			require.NoError(t, err)
			assert.Len(t, fresh.Refused, 1, "the group of the old spec is not kept")
			e.sameRows(PlanOptions{RewriteAll: true}, Options{})
			data, deletes := e.files()
			old := 0
			for _, df := range data {
				old += count(df.SpecID() == 0)
			}
			assert.Equal(t, 2, old, "the file that no delete names was rewritten")
			assert.Len(t, deletes, 1)
		})
	}
}

// Outputs of a group must be in the partition of its inputs, whatever the type
// of the partition's value.
func TestGroupsOfEveryPartitionType(t *testing.T) {
	bucket, truncate := iceberg.BucketTransform{NumBuckets: 5}, iceberg.TruncateTransform{Width: 4}
	for id, transforms := range map[int][]iceberg.Transform{
		1: {bucket, truncate}, 2: {}, 3: {bucket, truncate}, 4: {bucket, truncate}, 7: {bucket, truncate}, 8: {bucket, truncate},
		9: {bucket, truncate}, 10: {bucket, iceberg.YearTransform{}, iceberg.MonthTransform{}, iceberg.DayTransform{}},
		11: {bucket, iceberg.YearTransform{}, iceberg.MonthTransform{}, iceberg.DayTransform{}, iceberg.HourTransform{}},
		12: {iceberg.HourTransform{}, iceberg.VoidTransform{}}, 14: {bucket}, 15: {bucket}, 16: {bucket, truncate},
	} {
		for _, transform := range append(transforms, iceberg.IdentityTransform{}) {
			field, _ := wideSchema().FindFieldByID(id)
			t.Run(field.Name+" "+transform.String(), func(t *testing.T) {
				spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{id}, FieldID: 1000, Name: "part", Transform: transform})
				e := newEnv(t, wideSchema(), spec, nil)
				for range 2 {
					e.appendBatch(withOddFloats(batchJSON(t, e.load(), wideRow(3), wideRow(4)), 4))
				}
				e.sameRows(PlanOptions{MinInputFiles: 2}, Options{})
				data, _ := e.files()
				assert.LessOrEqual(t, len(data), 2)
			})
		}
	}
}
