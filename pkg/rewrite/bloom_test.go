package rewrite

import (
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A filter finds every value that is there and few that are not, and is as large
// as its distinct values need. Columns are named as the schema names them.
func TestBloomFilters(t *testing.T) {
	const key = "write.parquet.bloom-filter-enabled.column."
	size := func(extra iceberg.Properties) map[int]int64 {
		props := iceberg.Properties{key + "s": "true", key + "tags.element": "true", key + "m.key": "TRUE", key + "st.x": "true", key + "id": "false", key + "gone": "true"}
		for k, v := range extra {
			props[k] = v
		}
		_, pf := outputOf(t, props, PlanOptions{})
		sizes := make(map[int]int64)
		for id, at := range map[int]func(int) string{
			2: text, 5: func(i int) string { return "tag-" + text(i) }, 7: func(i int) string { return "key-" + text(i) },
		} {
			sizes[id] = filterFinds(t, pf, id, at)
		}
		chunk, _ := chunkOf(t, pf, 0, 10)
		sizes[10] = int64(chunk.BloomFilterLength())
		assert.True(t, bloomOf(t, pf, 10).CheckHash(metadata.GetHash(bloomOf(t, pf, 10).Hasher(), int32(42))))
		assert.Nil(t, bloomOf(t, pf, 1))
		assert.Nil(t, bloomOf(t, pf, 3))

		return sizes
	}
	sizes := size(nil)
	for _, id := range []int{2, 5, 7} {
		assert.Less(t, sizes[id], int64(32<<10), "3000 values")
	}
	assert.Less(t, sizes[10], sizes[2], "100 values")
	sharp := size(iceberg.Properties{"write.parquet.bloom-filter-fpp.column.s": "0.0001", "write.parquet.bloom-filter-ndv.column.m.key": "100000"})
	assert.Greater(t, sharp[2], sizes[2])
	assert.Greater(t, sharp[7], sizes[7])
	small := size(iceberg.Properties{"write.parquet.bloom-filter-max-bytes": "2048"})
	for id, n := range small {
		assert.LessOrEqual(t, n, int64(2100), "field %d", id)
	}
}

func bloomOf(t *testing.T, pf *file.Reader, id int) metadata.BloomFilter {
	t.Helper()
	group, err := pf.GetBloomFilterReader().RowGroup(0)
	require.NoError(t, err)
	_, ordinal := chunkOf(t, pf, 0, id)
	filter, err := group.GetColumnBloomFilter(ordinal)
	require.NoError(t, err)

	return filter
}

func filterFinds(t *testing.T, pf *file.Reader, id int, at func(int) string) int64 {
	t.Helper()
	filter := bloomOf(t, pf, id)
	require.NotNil(t, filter, "filter of field %d", id)
	found := func(value string) bool {
		return filter.CheckHash(metadata.GetHash(filter.Hasher(), parquet.ByteArray(value)))
	}
	wrong := 0
	for i := range 3000 {
		if id != 2 || slices.ContainsFunc([]int{i, i + 3000, i + 6000, i + 9000}, func(row int) bool { return row%7 != 0 }) {
			require.True(t, found(at(i)), at(i))
		}
		wrong += count(found(at(i) + "!"))
	}
	if filter.Size() > 2100 {
		assert.Less(t, wrong, 150, "of 3000 values that are not there, field %d", id)
	}

	chunk, _ := chunkOf(t, pf, 0, id)

	return int64(chunk.BloomFilterLength()) // with a header of a few bytes
}

func TestBloomPropertiesThatCannotBeUsed(t *testing.T) {
	const on = "write.parquet.bloom-filter-enabled.column.s"
	for key, value := range map[string]string{
		"write.parquet.bloom-filter-fpp.column.s": "1.5", "write.parquet.bloom-filter-ndv.column.s": "many",
	} {
		e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, iceberg.Properties{on: "true", key: value})
		for i := range 5 {
			e.appendSeries(i, 1)
		}
		plan := e.plan(PlanOptions{})
		require.Empty(t, plan.Groups, key)
		assert.Contains(t, plan.Reason, key)
	}
}
