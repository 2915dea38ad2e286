package splice

import (
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/rewritetest"
)

func eventFiles(t *testing.T, dictionary ...bool) [][]byte {
	t.Helper()
	var out [][]byte
	for i, d := range dictionary {
		raw, err := rewritetest.EventFile(rewritetest.EventSchema(), 1150, uint64(i), d)
		require.NoError(t, err)
		out = append(out, raw)
	}

	return out
}

func TestCompressedBodiesOfSmallPagesArePutTogether(t *testing.T) {
	files := eventFiles(t, false, false, false, false, false, false)
	made := make(map[int]int64)
	for _, frame := range []int{0, 1, 1 << 20} {
		o := columnOptions()
		o.SmallPage, o.SmallFrame = 1<<20, frame
		out, w, err := join(rewritetest.EventSchema(), Options{Column: o, Workers: 2}, files...)
		require.NoError(t, err)
		sameValues(t, out, files...)
		checkIndexes(t, out)
		c := w.Counts()
		assert.Zero(t, c.Verbatim, "all pages are small")
		made[frame] = c.BytesMade
		assert.Equal(t, frame > 0, c.BytesVerbatim > 0)
		// What comes out can be taken in once more, with pages of several frames.
		again, _, err := join(rewritetest.EventSchema(), Options{Column: o}, out, files[0])
		require.NoError(t, err)
		sameValues(t, again, out, files[0])
	}
	assert.Less(t, made[1], made[0]/2, "most columns are of numbers")
	assert.Less(t, made[1], made[1<<20], "small bodies are compressed anew")
	assert.Less(t, made[1<<20], made[0], "but for the column of random numbers, whose bodies are stored")
}

func TestCompressedBodiesGoWithValuesThatAreNot(t *testing.T) {
	// Values out of a dictionary come between bodies that are moved.
	files := eventFiles(t, false, true, false, false, true, true, false)
	for _, page := range []int{1 << 20, 20_000} {
		o := columnOptions()
		o.SmallPage, o.DictionaryBytes, o.PageBytes = 1<<20, 0, page
		out, w, err := join(rewritetest.EventSchema(), Options{Column: o, Workers: 2}, files...)
		require.NoError(t, err)
		sameValues(t, out, files...)
		checkIndexes(t, out)
		assert.Positive(t, w.Counts().BytesVerbatim)
		assert.Positive(t, w.Counts().Gathered)
	}
}

func TestLevelsThatAreCompressedTooKeepBodiesApart(t *testing.T) {
	for _, required := range []bool{false, true} {
		sc := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "n", Type: iceberg.PrimitiveTypes.Int64, Required: required})
		var files [][]byte
		for i, version := range []string{"v1", "v2", "v1"} {
			rec, err := rewritetest.CorpusBatch(sc, "none", 60, uint64(i))
			require.NoError(t, err)
			raw, err := rewritetest.WriteCell(rewritetest.Cell{Version: version, Encoding: "plain", Codec: "zstd"}, rec)
			require.NoError(t, err)
			files = append(files, raw)
		}
		for _, v2 := range []bool{false, true} {
			o := columnOptions()
			o.SmallPage, o.V2 = 1<<20, v2
			out, w, err := join(sc, Options{Column: o}, files...)
			require.NoError(t, err)
			sameValues(t, out, files...)
			checkIndexes(t, out)
			switch c := w.Counts(); {
			case required:
				assert.Zero(t, c.BytesMade, "there are no levels")
			case v2:
				assert.Positive(t, c.BytesMade, "of version 1 pages")
				assert.Positive(t, c.BytesVerbatim, "of version 2 pages")
			default:
				assert.Zero(t, c.BytesVerbatim)
			}
		}
	}
}
