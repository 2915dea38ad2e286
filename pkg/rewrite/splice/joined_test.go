package splice

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/rewritetest"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
)

// dataPages counts the data pages of a file by encoding.
func dataPages(t *testing.T, raw []byte) map[format.Encoding]int {
	t.Helper()
	f, err := OpenBytes(raw, fuzzSchema(), nil)
	require.NoError(t, err)
	out := make(map[format.Encoding]int)
	for _, g := range f.Footer.RowGroups {
		for _, c := range f.Layout.Columns() {
			m := g.Columns[c.Source].Meta
			start := chunkStart(m)
			chunk, err := page.Walk(raw[start:start+m.TotalCompressed], m, c.Leaf)
			require.NoError(t, err)
			for i := range chunk.Pages {
				out[chunk.Pages[i].Encoding()]++
			}
		}
	}

	return out
}

func TestTinyPagesOfDeltasBecomeOne(t *testing.T) {
	for _, version := range []string{"v1", "v2"} {
		for name, want := range map[string]map[format.Encoding]int{
			"delta":      {format.DeltaBinaryPacked: 1, format.DeltaLengthByteArray: 1, format.RLE: 1, format.Plain: 1},
			"deltabytes": {format.Plain: 3, format.DeltaByteArray: 1},
		} {
			for _, nulls := range []string{"none", "some", "runs", "all"} {
				var files [][]byte
				for i := range 20 {
					files = append(files, sample(t, rewritetest.Cell{Version: version, Encoding: name, Codec: "zstd", Nulls: nulls}, uint64(i)))
				}
				o := columnOptions()
				o.V2 = version == "v2"
				out, w, err := join(fuzzSchema(), Options{Column: o}, files...)
				require.NoError(t, err)
				assert.Equal(t, want, dataPages(t, out), "%s %s", version, nulls)
				assert.Zero(t, w.Counts().Verbatim)
				assert.GreaterOrEqual(t, w.Counts().Coalesced, int64(80))
				sameValues(t, out, files...)
			}
		}
	}
}

func TestJoinedPagesHaveNoMoreThanAPageOfValues(t *testing.T) {
	for _, name := range []string{"delta", "deltabytes"} {
		var files [][]byte
		for i := range 20 {
			files = append(files, sample(t, rewritetest.Cell{Version: "v2", Encoding: name, Codec: "none"}, uint64(i)))
		}
		o := columnOptions()
		o.PageBytes = 2000 // five files of 50 numbers
		out, _, err := join(fuzzSchema(), Options{Column: o}, files...)
		require.NoError(t, err)
		sameValues(t, out, files...)
		pages := dataPages(t, out)
		if name == "delta" {
			assert.Equal(t, 4, pages[format.DeltaBinaryPacked])
			assert.InDelta(t, 8, pages[format.DeltaLengthByteArray], 4)
		} else {
			assert.InDelta(t, 8, pages[format.DeltaByteArray], 4)
		}
	}
}
