package main

import (
	"slices"
	"testing"

	"github.com/apache/iceberg-go"
	icebergcatalog "github.com/apache/iceberg-go/catalog"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/pkg/rewrite"
	"compactor/pkg/rewrite/splice"
	"compactor/pkg/rewrite/splice/column"
)

// Pages that come out in another order than they went in are found by --verify,
// a row that does not come out by the count of every run. Either ends with 12
// and without a commit.
func TestCase_X9_splicedPages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags     []string
		rewriting func(*rewrite.Options)
	}{
		"two pages of a column swapped": {flags: []string{"--verify"}, rewriting: func(o *rewrite.Options) { o.BeforeChunk = swapPages }},
		"one row dropped":               {rewriting: func(o *rewrite.Options) { o.BeforeUnits = dropFirst }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			// A page is full with the rows of one file.
			small := w.create(icebergcatalog.WithProperties(iceberg.Properties{"write.parquet.page-size-bytes": "8"}))
			tbl := tabletest.FragmentAtOnce(t, small, 8, 1)
			before, objects := tabletest.Rows(t, tbl), w.objects()
			w.rewriting = c.rewriting
			r := w.compact(c.flags...)
			require.Equal(t, 12, r.code, r.stdout+r.stderr)
			require.Zero(t, w.commits())
			require.Equal(t, before, tabletest.Rows(t, w.load()))
			require.Equal(t, objects, w.objects(), "what was written is removed")
			require.True(t, w.claimFree())

			w.rewriting = nil
			r = w.compact(c.flags...)
			require.Equal(t, 0, r.code, r.stdout+r.stderr)
			require.Contains(t, r.stdout, `"engine": "splice"`, "the same run without the fault moves pages")
			require.Equal(t, before, tabletest.Rows(t, w.load()))
		})
	}
}

// swapPages exchanges the first two data pages of the column id.
func swapPages(path []string, chunk *column.Built) {
	if path[0] != "id" {
		return
	}
	first, second := chunk.Locations[0], chunk.Locations[1]
	raw := slices.Concat(chunk.Pieces...)
	pages := raw[first.Offset : second.Offset+int64(second.Size)]
	swapped := slices.Concat(pages[first.Size:], pages[:first.Size])
	chunk.Pieces = [][]byte{raw[:first.Offset], swapped, raw[second.Offset+int64(second.Size):]}
}

// dropFirst leaves the first input out, which has one row.
func dropFirst(units []splice.Unit) []splice.Unit { return units[1:] }
