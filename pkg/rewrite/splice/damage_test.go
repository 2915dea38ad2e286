package splice

import (
	"bytes"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/rewritetest"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/layout"
	"compactor/pkg/rewrite/splice/page"
)

// sample is a file with the columns of the fuzz test's schema.
func sample(t *testing.T, cell rewritetest.Cell, seed uint64) []byte {
	t.Helper()
	rec, err := rewritetest.CorpusBatch(fuzzSchema(), cell.Nulls, 50, seed)
	require.NoError(t, err)
	raw, err := rewritetest.WriteCell(cell, rec)
	require.NoError(t, err)

	return raw
}

func TestCodecsMayDiffer(t *testing.T) {
	var files [][]byte
	for i, c := range []string{"zstd", "snappy", "gzip", "none"} {
		for _, v := range []string{"v1", "v2"} {
			files = append(files, sample(t, rewritetest.Cell{Version: v, Encoding: "plain", Codec: c, Nulls: "some"}, uint64(i)))
		}
	}
	o := columnOptions()
	o.SmallPage = 0
	out, w, err := join(fuzzSchema(), Options{Column: o}, files...)
	require.NoError(t, err)
	sameValues(t, out, files...)
	assert.Positive(t, w.Counts().Transcoded)
	assert.Positive(t, w.Counts().Verbatim)
}

func TestEncodingsMayDiffer(t *testing.T) {
	var files [][]byte
	for i, e := range []string{"dictionary", "plain", "delta", "deltabytes", "split", "dictionary"} {
		files = append(files, sample(t, rewritetest.Cell{Version: "v2", Encoding: e, Codec: "zstd", Nulls: "runs"}, uint64(i)))
	}
	for _, small := range []int{0, 1 << 20} {
		for _, limit := range []int{0, 1 << 20} {
			for _, v2 := range []bool{false, true} {
				o := columnOptions()
				o.SmallPage, o.DictionaryBytes, o.V2 = small, limit, v2
				out, _, err := join(fuzzSchema(), Options{Column: o, Workers: 3}, files...)
				require.NoError(t, err)
				sameValues(t, out, files...)
			}
		}
	}
}

func TestWrongChecksumIsFound(t *testing.T) {
	o := columnOptions()
	o.SmallPage = 1 << 20
	raw := sample(t, rewritetest.Cell{Version: "v2", Encoding: "plain", Codec: "none"}, 1)
	raw, _, err := join(fuzzSchema(), Options{Column: o}, raw, raw) // pages that were made have checksums
	require.NoError(t, err)
	f, err := OpenBytes(raw, &layout.Finder{Schema: fuzzSchema()})
	require.NoError(t, err)
	m := f.Footer.RowGroups[0].Columns[0].Meta
	h, n, err := format.ReadPageHeader(raw[m.DataPageOffset:])
	require.NoError(t, err)
	body := raw[m.DataPageOffset+int64(n):][:h.Compressed]
	require.NotNil(t, h.CRC)
	require.Equal(t, crc32.ChecksumIEEE(body), *h.CRC)
	damaged := bytes.Clone(raw)
	damaged[m.DataPageOffset+int64(n)+int64(h.Compressed)/2] ^= 1
	_, _, err = join(fuzzSchema(), Options{Column: o}, damaged)
	require.ErrorIs(t, err, page.ErrChecksum)
}

func TestFileThatIsCutAnywhereIsAnError(t *testing.T) {
	raw := sample(t, rewritetest.Cell{Version: "v1", Encoding: "dictionary", Codec: "snappy", Nulls: "some"}, 1)
	for n := 0; n < len(raw); n += 1 + n/50 {
		_, err := OpenBytes(raw[:n:n], &layout.Finder{Schema: fuzzSchema()})
		require.Error(t, err, "%d bytes", n)
	}
	_, err := OpenBytes(append(bytes.Clone(raw[:len(raw)-4]), "PARE"...), &layout.Finder{Schema: fuzzSchema()})
	require.ErrorContains(t, err, string(RuleEncrypted))
}
