package splice

import (
	"bytes"
	"context"
	"math"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/rewritetest"
	"compactor/pkg/rewrite/splice/column"
	"compactor/pkg/rewrite/splice/layout"
)

// without writes the file anew, without some of its rows.
func without(t *testing.T, sc *iceberg.Schema, o Options, raw []byte, gone func(pos int64) bool) ([]byte, column.Counts) {
	t.Helper()
	f, err := OpenBytes(raw, &layout.Finder{Schema: sc})
	require.NoError(t, err)
	var units []Unit
	for _, u := range f.Units() {
		u, err = u.Without(gone).Load()
		require.NoError(t, err)
		units = append(units, u)
	}
	var out bytes.Buffer
	w, err := NewWriter(&out, f.Layout, o)
	require.NoError(t, err)
	require.NoError(t, w.RowGroup(context.Background(), units))
	_, err = w.Close()
	require.NoError(t, err)

	return out.Bytes(), w.Counts()
}

func among(rows ...int64) func(int64) bool {
	set := make(map[int64]bool)
	for _, r := range rows {
		set[r] = true
	}

	return func(pos int64) bool { return set[pos] }
}

// Pages of every type, encoding and version lose rows while others are moved, and
// the file is the one that comes out when all pages are decoded.
func TestOnlyPagesThatLoseRowsAreDecoded(t *testing.T) {
	const rows = 600
	patterns := []struct {
		name string
		gone func(int64) bool
	}{
		{"one", among(rows / 3)},
		{"borders", among(0, 49, 50, 99, rows-1)},
		{"a range", func(pos int64) bool { return pos >= 100 && pos < 260 }},
		{"the ends", func(pos int64) bool { return pos < 60 || pos >= 540 }},
		{"many", func(pos int64) bool { return pos < 300 && pos%3 == 0 }},
	}
	for i, cell := range cells() {
		// A third of the columns, another one for each cell.
		var fields []iceberg.NestedField
		for n, f := range rewritetest.CorpusSchema().Fields() {
			if n%3 == i%3 {
				fields = append(fields, f)
			}
		}
		sc := iceberg.NewSchema(0, fields...)
		for _, p := range patterns[i%len(patterns):][:1] {
			t.Run(cell.String()+"-"+p.name, func(t *testing.T) {
				t.Parallel()
				rec, err := rewritetest.CorpusBatch(sc, cell.Nulls, rows, uint64(i))
				require.NoError(t, err)
				raw, err := rewritetest.WriteCell(cell, rec)
				require.NoError(t, err)
				o := Options{Column: columnOptions(), Workers: 2}
				o.Column.SmallPage = 0
				got, counts := without(t, sc, o, raw, p.gone)
				o.TrimBytes = math.MaxInt64
				want, whole := without(t, sc, o, raw, p.gone)
				assert.Zero(t, whole.Trimmed)
				if cell.Nulls != "all" { // which are one page
					assert.Positive(t, counts.Trimmed)
					assert.Positive(t, counts.Verbatim+counts.Remapped+counts.Gathered+counts.Transcoded)
					assert.Less(t, counts.Decoded, whole.Decoded)
				}
				sameValues(t, got, want)
				sameStatistics(t, sc, want, got)
				checkIndexes(t, got)
			})
		}
	}
}

// sameStatistics compares what two files say of their columns.
func sameStatistics(t *testing.T, sc *iceberg.Schema, want, got []byte) {
	t.Helper()
	a, err := OpenBytes(want, &layout.Finder{Schema: sc})
	require.NoError(t, err)
	b, err := OpenBytes(got, &layout.Finder{Schema: sc})
	require.NoError(t, err)
	require.Len(t, b.Footer.RowGroups, 1)
	for _, c := range b.Layout.Columns() {
		left, right := a.Footer.RowGroups[0].Columns[c.Source].Meta, b.Footer.RowGroups[0].Columns[c.Source].Meta
		assert.Equal(t, left.NumValues, right.NumValues, left.Path)
		if c.Leaf.MaxRep > 0 {
			// arrow-go (v18.8.0) leaves values out of the bounds of lists and maps with
			// nulls, and what is moved keeps them.
			left.Statistics.Min, left.Statistics.Max = right.Statistics.Min, right.Statistics.Max
		}
		assert.Equal(t, left.Statistics, right.Statistics, left.Path)
	}
}
