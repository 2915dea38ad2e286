package splice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/rewritetest"
	"compactor/pkg/rewrite/splice/codec"
	"compactor/pkg/rewrite/splice/column"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/layout"
)

func columnOptions() column.Options {
	return column.Options{
		Pool: codec.New(format.Zstd, 1), Codec: format.Zstd, V2: true, PageBytes: 1 << 20, DictionaryBytes: 1 << 20, SmallPage: 16 << 10,
		SmallFrame: 1, FrameExcess: 1000, // wherever it can be done
	}
}

var errNoRows = errors.New("no rows")

// join splices files in memory into one row group.
func join(sc *iceberg.Schema, o Options, files ...[]byte) ([]byte, *Writer, error) {
	var units []Unit
	for i, raw := range files {
		f, err := OpenFile(bytes.NewReader(raw), int64(len(raw)), &layout.Finder{Schema: sc})
		if err != nil {
			return nil, nil, fmt.Errorf("file %d: %w", i, err)
		}
		for _, u := range f.Units() {
			if u, err = u.Load(); err != nil {
				return nil, nil, err
			}
			units = append(units, u)
		}
	}
	if len(units) == 0 {
		return nil, nil, errNoRows
	}
	var out bytes.Buffer
	w, err := NewWriter(&out, units[0].File.Layout, o)
	if err != nil {
		return nil, nil, err
	}
	if err := w.RowGroup(context.Background(), units); err != nil {
		return nil, nil, err
	}
	if _, err := w.Close(); err != nil {
		return nil, nil, err
	}

	return out.Bytes(), w, nil
}

// read is the whole file, decoded.
func read(t testing.TB, raw []byte) arrow.Table {
	t.Helper()
	tbl, err := pqarrow.ReadTable(t.Context(), bytes.NewReader(raw), nil, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	require.NoError(t, err)

	return tbl
}

// sameValues compares the columns of the output with those of the inputs, one
// after the other.
func sameValues(t testing.TB, out []byte, in ...[]byte) {
	t.Helper()
	got := read(t, out)
	tables := make([]arrow.Table, len(in))
	for i := range in {
		tables[i] = read(t, in[i])
	}
	require.Equal(t, tables[0].NumCols(), got.NumCols())
	for c := range int(got.NumCols()) {
		var want []arrow.Array
		for _, tbl := range tables {
			want = append(want, tbl.Column(c).Data().Chunks()...)
		}
		a, err := array.Concatenate(want, memory.DefaultAllocator)
		require.NoError(t, err)
		b, err := array.Concatenate(got.Column(c).Data().Chunks(), memory.DefaultAllocator)
		require.NoError(t, err)
		if !array.ApproxEqual(a, b, array.WithNaNsEqual(true)) || !array.Equal(bitsOf(a), bitsOf(b)) {
			t.Errorf("column %s: %v is not %v", got.Column(c).Name(), b, a)
		}
	}
}

// bitsOf makes NaN equal to itself.
func bitsOf(a arrow.Array) arrow.Array {
	if a.DataType().ID() == arrow.FLOAT64 {
		return array.NewInt64Data(array.NewData(arrow.PrimitiveTypes.Int64, a.Len(), a.Data().Buffers(), nil, a.NullN(), a.Data().Offset()))
	}

	return array.NewNull(0)
}

func TestCorpusComesOutAsItWentIn(t *testing.T) {
	sc := rewritetest.CorpusSchema()
	for _, cell := range cells() {
		for name, small := range map[string]int{"moved": 0, "joined": 1 << 20} {
			t.Run(cell.String()+"-"+name, func(t *testing.T) {
				t.Parallel()
				var files [][]byte
				for i := range 3 {
					rec, err := rewritetest.CorpusBatch(sc, cell.Nulls, 25+30*i, uint64(i))
					require.NoError(t, err)
					raw, err := rewritetest.WriteCell(cell, rec)
					require.NoError(t, err)
					files = append(files, raw)
				}
				o := columnOptions()
				o.SmallPage = small
				out, w, err := join(sc, Options{Column: o, Workers: 2}, files...)
				require.NoError(t, err)
				sameValues(t, out, files...)
				c := w.Counts()
				if cell.Nulls != "all" && cell.Encoding == "plain" && small == 0 {
					assert.Zero(t, c.Remapped+c.Coalesced+c.Gathered)
					assert.Positive(t, c.Verbatim)
				}
				checkIndexes(t, out)
			})
		}
	}
}

// checkIndexes lets the Parquet library read the page indexes.
func checkIndexes(t testing.TB, raw []byte) {
	t.Helper()
	pf, err := file.NewParquetReader(bytes.NewReader(raw))
	require.NoError(t, err)
	for g := range pf.NumRowGroups() {
		index, err := pf.GetPageIndexReader().RowGroup(g)
		require.NoError(t, err)
		for c := range pf.RowGroup(g).NumColumns() {
			oi, err := index.GetOffsetIndex(c)
			require.NoError(t, err)
			if oi == nil {
				continue
			}
			before := int64(-1)
			for _, loc := range oi.GetPageLocations() {
				assert.Greater(t, loc.FirstRowIndex, before)
				before = loc.FirstRowIndex
			}
		}
	}
}
