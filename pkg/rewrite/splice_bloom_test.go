package rewrite

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// filterOf reads a column's Bloom filter with the Parquet library.
func filterOf(t *testing.T, pf *file.Reader, column int) metadata.BloomFilter {
	t.Helper()
	group, err := pf.GetBloomFilterReader().RowGroup(0)
	require.NoError(t, err)
	filter, err := group.GetColumnBloomFilter(column)
	require.NoError(t, err)

	return filter
}

func TestBloomFiltersAreMadeOfWhatIsMoved(t *testing.T) {
	const prefix = "write.parquet.bloom-filter-enabled.column."
	for name, props := range map[string]iceberg.Properties{
		"dictionary": {}, "plain": {"write.parquet.dict-size-bytes": "1"},
	} {
		t.Run(name, func(t *testing.T) {
			props[prefix+"id"], props[prefix+"s"], props[prefix+"l.list.element"], props[prefix+"other"] = "true", "TRUE", "true", "true"
			props["write.parquet.bloom-filter-max-bytes"] = "4096"
			e := newEnv(t, seriesSchema(), *iceberg.UnpartitionedSpec, props)
			e.nestedSeries(3)
			res := e.splicedLikeGeneral()
			raw, err := os.Open(strings.TrimPrefix(res.Outputs[0].FilePath(), "file://"))
			require.NoError(t, err)
			pf, err := file.NewParquetReader(raw)
			require.NoError(t, err)
			defer func() { require.NoError(t, pf.Close()) }()
			ids := metadata.TypedBloomFilter[int64]{BloomFilter: filterOf(t, pf, 0)}
			texts := metadata.TypedBloomFilter[parquet.ByteArray]{BloomFilter: filterOf(t, pf, 1)}
			items := metadata.TypedBloomFilter[parquet.ByteArray]{BloomFilter: filterOf(t, pf, 2)}
			seen := 0
			for i := range 3 {
				for k := range 30 {
					require.True(t, ids.Check(int64(100*i+k)))
					if k%3 == 0 {
						require.True(t, texts.Check(fmt.Appendf(nil, "s%d", k%7)))
						require.True(t, items.Check(fmt.Appendf(nil, "a%d", k)))
					}
				}
			}
			for i := range 1000 {
				for _, found := range []bool{ids.Check(int64(5000 + i)), texts.Check(fmt.Appendf(nil, "x%d", i)), items.Check(fmt.Appendf(nil, "x%d", i))} {
					if found {
						seen++
					}
				}
			}
			assert.Less(t, seen, 300, "of 3000 values that are not there")
		})
	}
}
