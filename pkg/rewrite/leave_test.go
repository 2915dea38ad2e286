package rewrite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A file that is left out of its group keeps the deletes it shares with the
// others, and is left out of no count.
func TestARefusedFileLeavesItsGroupAlone(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	id := stored(1, "id", arrow.PrimitiveTypes.Int64)
	for i := range 6 {
		f := foreignFile{fields: []arrow.Field{id}, rows: []string{fmt.Sprintf(`{"id":%d}`, 10*i), fmt.Sprintf(`{"id":%d}`, 10*i+1)}}
		if i == 3 {
			f.count = func(n int64) int64 { return n - 1 }
		}
		e.addFile(f)
	}
	data, _ := e.files()
	var doubtful iceberg.DataFile
	var at []position
	for _, df := range data {
		at = append(at, position{df.FilePath(), 1})
		if df.Count() == 1 {
			doubtful = df
		}
	}
	e.deletePositions(doubtful, at...)
	e.deleteEqual(1, `{"id":20}`)
	require.Len(t, e.rows(), 5)

	plan := e.plan(PlanOptions{})
	require.NoError(t, plan.Inspect(t.Context(), e.load()))
	require.Len(t, plan.Groups, 1)
	assert.Len(t, plan.Groups[0].Files, 5)
	assert.Equal(t, "5 files of the wrong size", plan.Groups[0].ReasonPicked)

	out := e.sameRows(PlanOptions{}, Options{})
	require.Len(t, out.results, 1)
	assert.Equal(t, plan.Refused, out.results[0].Refused)
	require.Len(t, out.results[0].Refused, 1)
	assert.Equal(t, "file "+doubtful.FilePath(), out.results[0].Refused[0].What)
	assert.EqualValues(t, []int64{10, 6, 4}, []int64{out.proof.RowsIn, out.proof.RowsDeleted, out.proof.RowsOut})
	assert.Empty(t, out.proof.DeadDeletes, "both deletes apply to the file that stays")
	data, deletes := e.files()
	assert.Len(t, data, 2)
	assert.Len(t, deletes, 2)
	assert.Contains(t, strings.Join(e.rows(), "\n"), "id=30/false s=(null)/true")

	// Alone with the output it is no group, and nothing is done about it again.
	assert.Empty(t, e.plan(PlanOptions{}).Groups)
}
