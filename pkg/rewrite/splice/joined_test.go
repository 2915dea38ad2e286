package splice

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/rewritetest"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/layout"
	"compactor/pkg/rewrite/splice/page"
)

// dataPages counts the data pages of a file by encoding.
func dataPages(t *testing.T, sc *iceberg.Schema, raw []byte) map[format.Encoding]int {
	t.Helper()
	f, err := OpenBytes(raw, &layout.Finder{Schema: sc})
	require.NoError(t, err)
	out := make(map[format.Encoding]int)
	for _, g := range f.Footer.RowGroups {
		for _, c := range f.Layout.Columns() {
			m := g.Columns[c.Source].Meta
			start := m.Start()
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
				for i := range 6 {
					files = append(files, sample(t, rewritetest.Cell{Version: version, Encoding: name, Codec: "zstd", Nulls: nulls}, uint64(i)))
				}
				o := columnOptions()
				o.V2 = version == "v2"
				out, w, err := join(fuzzSchema(), Options{Column: o}, files...)
				require.NoError(t, err)
				assert.Equal(t, want, dataPages(t, fuzzSchema(), out), "%s %s", version, nulls)
				assert.Zero(t, w.Counts().Verbatim)
				assert.GreaterOrEqual(t, w.Counts().Coalesced, int64(24))
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
		pages := dataPages(t, fuzzSchema(), out)
		if name == "delta" {
			assert.Equal(t, 4, pages[format.DeltaBinaryPacked])
			assert.InDelta(t, 8, pages[format.DeltaLengthByteArray], 4)
		} else {
			assert.InDelta(t, 8, pages[format.DeltaByteArray], 4)
		}
	}
}

// fixed is a row of a value of a fixed length, as a difference from the one before.
type fixed struct {
	Value [5]byte `parquet:"value,delta,id(1)"`
}

func TestTinyPagesOfDifferencesOfFixedLengthBecomeOne(t *testing.T) {
	sc := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "value", Type: iceberg.FixedTypeOf(5)})
	var files [][]byte
	var want []fixed
	for i := range 4 {
		var rows []fixed
		for n := range 30 {
			rows = append(rows, fixed{[5]byte([]byte(fmt.Sprintf("%d-%03d", i, n/3)))})
		}
		var raw bytes.Buffer
		require.NoError(t, parquet.Write(&raw, rows, parquet.DataPageStatistics(true)))
		files, want = append(files, raw.Bytes()), append(want, rows...)
	}
	out, w, err := join(sc, Options{Column: columnOptions()}, files...)
	require.NoError(t, err)
	assert.Equal(t, map[format.Encoding]int{format.DeltaByteArray: 1}, dataPages(t, sc, out))
	assert.EqualValues(t, 4, w.Counts().Coalesced)
	got, err := parquet.Read[fixed](bytes.NewReader(out), int64(len(out)))
	require.NoError(t, err)
	assert.Equal(t, want, got)
}
