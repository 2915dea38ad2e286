package rewrite

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/rewritetest"
)

// nestedSeries adds n files of 30 rows in row groups of 10, with a list.
func (e *env) nestedSeries(n int) {
	e.t.Helper()
	list := arrow.ListOfField(stored(4, "element", arrow.BinaryTypes.String))
	for i := range n {
		var rows []string
		for k := range 30 {
			rows = append(rows, []string{
				fmt.Sprintf(`{"id":%d,"s":"s%d","l":["a%d",null,"b"]}`, 100*i+k, k%7, k),
				fmt.Sprintf(`{"id":%d,"s":null,"l":[]}`, 100*i+k),
				fmt.Sprintf(`{"id":%d,"s":"t","l":null}`, 100*i+k),
			}[k%3])
		}
		if e.load().Metadata().Version() >= 3 {
			e.appendJSON(rows...)

			continue
		}
		e.addFile(foreignFile{
			fields: []arrow.Field{stored(1, "id", arrow.PrimitiveTypes.Int64), stored(2, "s", arrow.BinaryTypes.String), stored(3, "l", list)},
			rows:   rows, group: 10,
		})
	}
}

func seriesSchema() *iceberg.Schema {
	return iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "s", Type: iceberg.PrimitiveTypes.String},
		iceberg.NestedField{ID: 3, Name: "l", Type: &iceberg.ListType{ElementID: 4, Element: iceberg.PrimitiveTypes.String}},
	)
}

func TestRowGroupsThatNoDeleteTouchesAreMoved(t *testing.T) {
	e := newEnv(t, seriesSchema(), *iceberg.UnpartitionedSpec, nil)
	e.nestedSeries(4)
	data, _ := e.files()
	path := func(i int) string { return data[i].FilePath() }
	e.deletePositions(data[0], position{path(0), 0}, position{path(0), 9}, position{path(2), 29})
	var second []position
	for pos := range int64(10) { // the whole second row group, and rows that there are not
		second = append(second, position{path(1), 10 + pos})
	}
	e.deletePositions(data[1], append(second, position{path(1), 30}, position{path(0), 0}, position{"file:///elsewhere", 3})...)
	res := e.splicedLikeGeneral()
	assert.EqualValues(t, 120-2-1-10, res.RowsOut)
	assert.EqualValues(t, 2*3, res.Engine.Pages.Decoded, "the columns of two row groups")
	pages := res.Engine.Pages
	assert.EqualValues(t, 3*(4*3-1-2), pages.Verbatim+pages.Remapped+pages.Promoted+pages.Gathered+pages.Coalesced+pages.Transcoded,
		"a page for each column of the other row groups, decoded ones not counted twice")
	assert.Positive(t, pages.BytesMade)
}

func TestDeletionVectorsAndRowIdsAreSpliced(t *testing.T) {
	e := newEnv(t, seriesSchema(), *iceberg.UnpartitionedSpec, iceberg.Properties{
		"format-version": "3", table.ParquetRowGroupLimitKey: "10",
	})
	e.nestedSeries(3)
	data, _ := e.files()
	for _, df := range data {
		require.NotNil(t, df.FirstRowID())
	}
	e.deleteVector(position{data[0].FilePath(), 3}, position{data[0].FilePath(), 25}, position{data[1].FilePath(), 29})
	res := e.splicedLikeGeneral()
	assert.EqualValues(t, 87, res.RowsOut)
	first := orderedRows(t, e.load(), res.Outputs, true)

	out := e.compact(PlanOptions{MinInputFiles: 2}, Options{Engine: EngineSplice, Verify: true})
	require.Equal(t, EngineSplice, out.results[0].Engine.Name)
	assert.Equal(t, first, orderedRows(t, e.load(), out.results[0].Outputs, true))
	e.nestedSeries(2) // what was compacted has its ids in columns, these have not
	res = e.splicedLikeGeneral()
	assert.EqualValues(t, 147, res.RowsOut)
	assert.EqualValues(t, 2*2*3, res.Engine.Pages.Decoded, "ids and sequence numbers of the new row groups alone")
	assert.Subset(t, orderedRows(t, e.load(), res.Outputs, true), first, "ids stay")
}

func TestFilesOfWhichNothingIsLeftAreLeftOut(t *testing.T) {
	e := newEnv(t, seriesSchema(), *iceberg.UnpartitionedSpec, nil)
	e.nestedSeries(2)
	data, _ := e.files()
	var all []position
	for pos := range int64(30) {
		all = append(all, position{data[0].FilePath(), pos})
	}
	e.deletePositions(data[0], all...)
	assert.EqualValues(t, 30, e.splicedLikeGeneral().RowsOut)

	for i := range all {
		all[i].path = data[1].FilePath()
	}
	e.deletePositions(data[1], all...)
	assert.Empty(t, e.splicedLikeGeneral().Outputs)
}

func TestDeletedRowsOfAFlatTableAreGone(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, iceberg.Properties{table.ParquetPageVersionKey: "1"})
	for i := range 3 {
		e.appendSeries(5000*i, 5000)
	}
	data, _ := e.files()
	var gone []position
	for pos := int64(0); pos < 5000; pos += 3 {
		gone = append(gone, position{data[1].FilePath(), pos})
	}
	e.deletePositions(data[1], gone...)
	res := e.splicedLikeGeneral()
	assert.EqualValues(t, 15000-len(gone), res.RowsOut)
}

func TestRowsOfEveryTypeAreDeleted(t *testing.T) {
	for i, cell := range corpusCells() {
		if i%3 != 0 {
			continue
		}
		t.Run(cell.String(), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, rewritetest.CorpusSchema(), *iceberg.UnpartitionedSpec, nil)
			for n := range 2 {
				rec, err := rewritetest.CorpusBatch(e.load().Schema(), cell.Nulls, 60, uint64(100*i+n))
				require.NoError(t, err)
				raw, err := rewritetest.WriteCell(cell, rec)
				require.NoError(t, err)
				e.addRaw(raw, rec.NumRows())
			}
			data, _ := e.files()
			var gone []position
			for pos := int64(i % 2); pos < 60; pos += 1 + pos%4 {
				gone = append(gone, position{data[1].FilePath(), pos})
			}
			e.deletePositions(data[1], gone...)
			res := e.splicedLikeGeneral()
			assert.EqualValues(t, 120-len(gone), res.RowsOut)
			assert.Equal(t, leaves(rewritetest.CorpusSchema()), res.Engine.Pages.Decoded)
		})
	}
}
