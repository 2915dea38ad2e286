package rewrite

import (
	"bytes"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/rewritetest"
)

// encodedNode is a column of another file in an encoding of one's own choice.
type encodedNode struct {
	parquet.Field
	name string
}

// Fields implements parquet.Node.
func (n encodedNode) Fields() []parquet.Field {
	inner := n.Field.Fields()
	out := make([]parquet.Field, len(inner))
	for i, f := range inner {
		out[i] = encodedNode{f, n.name}
	}

	return out
}

// Encoding implements parquet.Node.
func (n encodedNode) Encoding() encoding.Encoding {
	if !n.Leaf() {
		return n.Field.Encoding()
	}
	kind := n.Type().Kind()
	number := kind == parquet.Int32 || kind == parquet.Int64
	switch {
	case n.name == "dictionary" && kind != parquet.Boolean:
		return &parquet.RLEDictionary
	case n.name == "delta" && number:
		return &parquet.DeltaBinaryPacked
	case n.name == "delta" && kind == parquet.ByteArray:
		return &parquet.DeltaLengthByteArray
	case n.name == "delta" && kind == parquet.Boolean:
		return &parquet.RLE
	case n.name == "deltabytes" && kind == parquet.ByteArray, n.name == "prefixed" && kind == parquet.FixedLenByteArray:
		return &parquet.DeltaByteArray
	case n.name == "split" && (kind == parquet.Float || kind == parquet.Double):
		return &parquet.ByteStreamSplit
	default:
		return &parquet.Plain
	}
}

// rewrittenByParquetGo has parquet-go write the rows of a file the way a cell says.
func rewrittenByParquetGo(t *testing.T, cell rewritetest.Cell, raw []byte) []byte {
	t.Helper()
	in, err := parquet.OpenFile(bytes.NewReader(raw), int64(len(raw)))
	require.NoError(t, err)
	codecs := map[string]compress.Codec{"zstd": &parquet.Zstd, "snappy": &parquet.Snappy, "gzip": &parquet.Gzip, "none": &parquet.Uncompressed}
	version := 1
	if cell.Version == "v2" {
		version = 2
	}
	var out bytes.Buffer
	w := parquet.NewWriter(&out, parquet.NewSchema("table", encodedNode{in.Root(), cell.Encoding}), parquet.Compression(codecs[cell.Codec]),
		parquet.DataPageVersion(version), parquet.DataPageStatistics(true), parquet.PageBufferSize(512))
	for _, g := range in.RowGroups() {
		rows := g.Rows()
		_, err := parquet.CopyRows(w, rows)
		require.NoError(t, err)
		require.NoError(t, rows.Close())
	}
	require.NoError(t, w.Close())

	return out.Bytes()
}

func TestFilesOfParquetGoAreSpliced(t *testing.T) {
	for i, cell := range corpusCells() {
		t.Run(cell.String(), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, rewritetest.CorpusSchema(), *iceberg.UnpartitionedSpec, nil)
			for n := range 2 {
				rec, err := rewritetest.CorpusBatch(e.load().Schema(), cell.Nulls, 30+40*n, uint64(10*i+n))
				require.NoError(t, err)
				raw, err := rewritetest.WriteCell(rewritetest.Cell{Version: "v1", Encoding: "plain", Codec: "none"}, rec)
				require.NoError(t, err)
				e.addRaw(rewrittenByParquetGo(t, cell, raw), rec.NumRows())
			}
			res := e.splicedLikeGeneral()
			assert.EqualValues(t, 100, res.RowsOut)
			assert.Zero(t, res.Engine.Pages.Decoded, "all of it is spliced")
		})
	}
}
