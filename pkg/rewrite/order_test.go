package rewrite

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/rowsort"
)

// setOrder gives the table a sort order: by the text, then by id.
func (e *env) setOrder(fields ...table.SortField) *table.Table {
	e.t.Helper()
	order, err := table.NewSortOrder(1, fields)
	require.NoError(e.t, err)

	return e.commit(func(tx *table.Transaction) { require.NoError(e.t, tx.ReplaceSortOrder(order)) })
}

func byText() []table.SortField {
	return []table.SortField{
		{SourceIDs: []int{2}, Transform: iceberg.IdentityTransform{}, Direction: table.SortDESC, NullOrder: table.NullsLast},
		{SourceIDs: []int{1}, Transform: iceberg.IdentityTransform{}, Direction: table.SortASC, NullOrder: table.NullsFirst},
	}
}

// appendRandom appends files of rows of idAndText in no order, some without a
// text, and some texts more than once.
func (e *env) appendRandom(files, rows int, seed uint64) {
	e.t.Helper()
	e.appendPadded(files, rows, 0, seed)
}

// appendPadded does that with texts of so many bytes more.
func (e *env) appendPadded(files, rows, more int, seed uint64) {
	e.t.Helper()
	r := rand.New(rand.NewPCG(seed, 9))
	pad := func() string {
		letters := make([]byte, 0, more+16)
		for len(letters) < more {
			letters = strconv.AppendUint(letters, r.Uint64(), 36)
		}

		return string(letters[:more])
	}
	sc, err := table.SchemaToArrowSchemaWithOptions(idAndText, table.ArrowSchemaOptions{})
	require.NoError(e.t, err)
	for f := range files {
		b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
		for i := range rows {
			b.Field(0).(*array.Int64Builder).Append(int64(f*rows + i))
			if text := b.Field(1).(*array.StringBuilder); r.IntN(10) == 0 {
				text.AppendNull()
			} else {
				text.Append(strconv.FormatInt(int64(r.IntN(files*rows/2+1)), 36) + "\x00ä" + pad())
			}
		}
		e.appendBatch(b.NewRecordBatch())
		b.Release()
	}
}

// inFileOrder are the rows of outputs as they stand there.
func inFileOrder(t *testing.T, tbl *table.Table, outputs []iceberg.DataFile) (rows []string, batches []arrow.RecordBatch) {
	t.Helper()
	for _, df := range outputs {
		files := []File{{Data: df, SequenceNumber: tbl.CurrentSnapshot().SequenceNumber}}
		require.NoError(t, eachBatch(t.Context(), tbl, files, readOptions{batchRows: 1000, batchBytes: 1 << 20}, func(rec arrow.RecordBatch) {
			rec.Retain()
			batches = append(batches, rec)
			rows = append(rows, recordRows(rec)...)
		}))
	}

	return rows, batches
}

// sortedRight makes sure that the outputs of one result hold one order, file
// after file, under an order given as text, and are marked as id says.
func sortedRight(t *testing.T, o outcome, text string, id int) {
	t.Helper()
	order, err := rowsort.Parse(text, o.tbl.Schema(), rowsort.NullsByDirection)
	require.NoError(t, err)
	require.NotEmpty(t, o.results)
	for _, res := range o.results {
		_, batches := inFileOrder(t, o.tbl, res.Outputs)
		checker := rowsort.Checker{Order: order}
		for _, b := range batches {
			bad, err := checker.Check(b)
			require.NoError(t, err)
			require.EqualValues(t, -1, bad, "first row out of order")
		}
		assert.Equal(t, "rows are to be sorted", afterSplice(t, o, res))
		for _, df := range res.Outputs {
			assert.Equal(t, id, deref(df.SortOrderID()), "sort order of %s", df.FilePath())
		}
	}
}

// afterSplice is why the splice engine would not take the group.
func afterSplice(t *testing.T, o outcome, res Result) string {
	t.Helper()
	refused := notSpliced(New(Options{}).choose(o.tbl, res.Group))
	require.NotNil(t, refused)

	return string(refused.Rule)
}

func deref(p *int) int {
	if p == nil {
		return 0
	}

	return *p
}

// A table with a sort order is rewritten in that order, over several outputs, in
// memory and through files, and the manifests say so. Nothing is left to do then.
func TestTableWithASortOrderIsSorted(t *testing.T) {
	for name, budget := range map[string]int64{"in memory": 0, "through files": 40 << 20} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, iceberg.Properties{"write.metadata.metrics.default": "full"})
			e.setOrder(byText()...)
			if budget == 0 {
				e.appendRandom(12, 1500, 1)
			} else {
				e.appendPadded(12, 600, 800, 1)
			}
			before, _ := e.files()
			var total int64
			for _, df := range before {
				total += df.FileSizeBytes()
			}
			o := PlanOptions{TargetFileSize: total / 3}
			var log bytes.Buffer
			done := e.compact(o, Options{Memory: budget, TempDir: t.TempDir(), Engine: EngineGeneral, Logger: zerolog.New(&log)})
			assert.Equal(t, budget > 0, strings.Contains(log.String(), "temporary files"), log.String())
			require.Len(t, done.results, 1)
			require.Equal(t, "s desc nulls last, id asc nulls first", done.plan.SortedBy())
			require.Greater(t, len(done.results[0].Outputs), 1)
			sortedRight(t, done, "s desc, id", 1)
			rangesAreDisjoint(t, done.results[0].Outputs)
			assert.Empty(t, e.plan(o).Groups, "a second run has nothing to do")
		})
	}
}

// rangesAreDisjoint compares bounds of the text column, which is descending and
// whose bounds are not cut.
func rangesAreDisjoint(t *testing.T, outputs []iceberg.DataFile) {
	t.Helper()
	for i := 1; i < len(outputs); i++ {
		high, low := outputs[i-1].LowerBoundValues()[2], outputs[i].UpperBoundValues()[2]
		assert.GreaterOrEqual(t, string(high), string(low), "output %d ends before output %d begins", i-1, i)
	}
}

func TestStrategies(t *testing.T) {
	type want struct {
		order, refused string
		id             int
	}
	key := iceberg.Properties{"coldfront.sort-key": "s, id desc"}
	for name, c := range map[string]struct {
		props iceberg.Properties
		own   bool
		o     PlanOptions
		want  want
	}{
		"no order":                         {want: want{}},
		"no order, sort":                   {o: PlanOptions{Strategy: "sort"}, want: want{refused: "no sort order"}},
		"no order, sort by":                {o: PlanOptions{SortBy: "bucket(4, id) desc, s"}, want: want{order: "bucket(4, id) desc nulls last, s asc nulls first"}},
		"own order":                        {own: true, want: want{order: "s desc nulls last, id asc nulls first", id: 1}},
		"own order, binpack":               {own: true, o: PlanOptions{Strategy: "binpack"}},
		"own order, sort by another":       {own: true, o: PlanOptions{SortBy: "id desc"}, want: want{order: "id desc nulls last"}},
		"own order, sort by the same":      {own: true, o: PlanOptions{Strategy: "sort", SortBy: "s desc, id"}, want: want{order: "s desc nulls last, id asc nulls first", id: 1}},
		"own order, sort by a part":        {own: true, o: PlanOptions{SortBy: "s desc"}, want: want{order: "s desc nulls last"}},
		"sort by nonsense":                 {o: PlanOptions{SortBy: "s down"}, want: want{refused: `sort by "s down"`}},
		"ColdFront":                        {props: key, want: want{order: "s asc nulls last, id desc nulls last"}},
		"ColdFront, own order":             {props: key, own: true, want: want{order: "s asc nulls last, id desc nulls last"}},
		"ColdFront, binpack":               {props: key, o: PlanOptions{Strategy: "binpack"}, want: want{refused: "would lose that order"}},
		"ColdFront, sort by another":       {props: key, o: PlanOptions{SortBy: "s"}, want: want{refused: "would lose that order"}},
		"ColdFront, sort by the same":      {props: key, o: PlanOptions{SortBy: "s nulls last, id desc"}, want: want{order: "s asc nulls last, id desc nulls last"}},
		"ColdFront, not understood":        {props: iceberg.Properties{"coldfront.sort-key": "[s]"}, want: want{refused: `no column "[s]"`}},
		"ColdFront, key that is a table's": {props: iceberg.Properties{"coldfront.sort-key": "s desc, id nulls first"}, own: true, want: want{order: "s desc nulls last, id asc nulls first", id: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, c.props)
			if c.own {
				e.setOrder(byText()...)
			}
			e.appendRandom(5, 40, 2)
			plan := e.plan(c.o)
			require.Equal(t, c.want.order, plan.SortedBy())
			if c.want.refused != "" {
				require.Empty(t, plan.Groups)
				require.Len(t, plan.Refused, 1)
				assert.Contains(t, plan.Refused[0].Reason, c.want.refused)
				assert.Equal(t, 5, plan.Refused[0].Files)

				return
			}
			done := e.sameRows(c.o, Options{})
			require.Len(t, done.results, 1)
			if c.want.order != "" {
				sortedRight(t, done, c.want.order, c.want.id)

				return
			}
			for _, df := range done.results[0].Outputs {
				assert.Zero(t, deref(df.SortOrderID()))
			}
		})
	}
}

func TestOptionsThatDoNotGoTogether(t *testing.T) {
	tbl := bare(t, *iceberg.UnpartitionedSpec, nil)
	for says, o := range map[string]PlanOptions{
		"strategy \"zorder\"": {Strategy: "zorder"},
		"does not go with":    {Strategy: "binpack", SortBy: "id"},
	} {
		_, err := NewPlan(t.Context(), tbl, o)
		assert.ErrorContains(t, err, says)
	}
}

// Rows of an old partition spec are sorted within the partitions they go to.
func TestOldSpecsAreSortedPerPartition(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	e.appendRandom(6, 300, 3)
	e.commit(func(tx *table.Transaction) {
		require.NoError(t, tx.UpdateSpec(true).AddField("id", iceberg.BucketTransform{NumBuckets: 3}, "b").Commit())
	})
	e.setOrder(byText()...)
	done := e.sameRows(PlanOptions{}, Options{})
	require.Len(t, done.results, 1)
	require.Len(t, done.results[0].Outputs, 3)
	order, err := rowsort.FromTable(done.tbl.SortOrder(), done.tbl.Schema())
	require.NoError(t, err)
	for _, df := range done.results[0].Outputs {
		_, batches := inFileOrder(t, done.tbl, []iceberg.DataFile{df})
		checker := rowsort.Checker{Order: order}
		for _, b := range batches {
			bad, err := checker.Check(b)
			require.NoError(t, err)
			require.EqualValues(t, -1, bad)
		}
		assert.Equal(t, 1, deref(df.SortOrderID()))
	}
}

// Deletes are applied before rows are sorted, and row ids stay with their rows.
func TestDeletesAndRowIdsUnderASortOrder(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": "3"})
	e.setOrder(byText()...)
	e.appendRandom(6, 100, 4)
	data, _ := e.files()
	for i, df := range data {
		e.deleteVector(position{df.FilePath(), int64(i)}, position{df.FilePath(), 50})
	}
	e.deleteEqual(1, `{"id":77}`, `{"id":301}`)
	ids := rowIDs(t, e.load())
	done := e.sameRows(PlanOptions{}, Options{})
	require.Len(t, done.results, 1)
	sortedRight(t, done, "s desc, id", 1)
	assert.Equal(t, ids, rowIDs(t, e.load()))
	assert.EqualValues(t, 14, done.results[0].RowsDeleted)
}

// rowIDs are the row ids of a table by the id column.
func rowIDs(t *testing.T, tbl *table.Table) map[int64]int64 {
	t.Helper()
	out := make(map[int64]int64)
	_, batches, err := tbl.Scan(table.WithRowLineage()).ToArrowRecords(t.Context())
	require.NoError(t, err)
	for rec, err := range batches {
		require.NoError(t, err)
		at := rec.Schema().FieldIndices(iceberg.RowIDColumnName)[0]
		for row := range int(rec.NumRows()) {
			out[rec.Column(0).(*array.Int64).Value(row)] = rec.Column(at).(*array.Int64).Value(row)
		}
		rec.Release()
	}

	return out
}

// Rows that reach the writer out of order stop the group, whatever the sort did.
func TestRowsOutOfOrderAreAnIntegrityFailure(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	e.setOrder(byText()...)
	e.appendRandom(5, 50, 5)
	tbl, plan := e.load(), e.plan(PlanOptions{})
	before := e.onDisk()
	results, err := New(Options{BeforeWrite: func(rec arrow.RecordBatch) arrow.RecordBatch {
		defer rec.Release()
		last, rest := rec.NewSlice(rec.NumRows()-1, rec.NumRows()), rec.NewSlice(0, rec.NumRows()-1)
		columns := make([]arrow.Array, rec.NumCols())
		for i := range columns {
			joined, err := array.Concatenate([]arrow.Array{last.Column(i), rest.Column(i)}, memory.DefaultAllocator)
			require.NoError(t, err)
			columns[i] = joined
		}

		return array.NewRecordBatch(rec.Schema(), columns, rec.NumRows())
	}}).Rewrite(t.Context(), tbl, plan.Groups)
	require.NoError(t, err)
	require.ErrorIs(t, results[0].Err, ErrIntegrity)
	require.ErrorContains(t, results[0].Err, "row 1 of the outputs is out of order")
	assert.Equal(t, before, e.onDisk(), "nothing is left")
}

// Verify reads the outputs again, and in whose place they stand.
func TestVerifySeesOutputsOutOfOrder(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	e.setOrder(byText()...)
	e.appendRandom(12, 3000, 8)
	before, _ := e.files()
	var total int64
	for _, df := range before {
		total += df.FileSizeBytes()
	}
	tbl, r := e.load(), New(Options{})
	results, err := r.Rewrite(t.Context(), tbl, e.plan(PlanOptions{TargetFileSize: total / 3}).Groups)
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	require.NoError(t, r.Verify(t.Context(), tbl, results))
	require.Greater(t, len(results[0].Outputs), 1)
	slices.Reverse(results[0].Outputs)
	require.ErrorIs(t, r.Verify(t.Context(), tbl, results), ErrIntegrity)
}

// A folder without room fails the group by name, and leaves nothing.
func TestNoRoomForSorting(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	e.setOrder(byText()...)
	e.appendPadded(12, 600, 800, 6)
	before := e.onDisk()
	missing := t.TempDir() + "/missing"
	results, err := New(Options{Memory: 40 << 20, TempDir: missing}).Rewrite(t.Context(), e.load(), e.plan(PlanOptions{Memory: 40 << 20}).Groups)
	require.NoError(t, err)
	require.Len(t, results, 1)
	require.ErrorIs(t, results[0].Err, errSort)
	require.ErrorContains(t, results[0].Err, missing)
	require.NotErrorIs(t, results[0].Err, errUnreadable)
	assert.Equal(t, before, e.onDisk())
}

// A sort order that changes between two rounds leaves the planned groups alone.
func TestChangedSortOrderLeavesPlannedGroups(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	e.appendRandom(5, 10, 7)
	plan := e.plan(PlanOptions{})
	require.Len(t, plan.Groups, 1)
	same, err := plan.Refresh(t.Context(), e.load())
	require.NoError(t, err)
	require.Len(t, same.Groups, 1)
	tbl := e.setOrder(byText()...)
	next, err := plan.Refresh(t.Context(), tbl)
	require.NoError(t, err)
	require.Empty(t, next.Groups)
	assert.Contains(t, next.Refused[0].Reason, "sort order has changed")
	again, err := plan.Replan(t.Context(), tbl)
	require.NoError(t, err)
	assert.Equal(t, "s desc nulls last, id asc nulls first", again.SortedBy())
}

// What is needed to sort counts in what a group needs at least.
func TestSortingNeedsMemory(t *testing.T) {
	tbl := bare(t, *iceberg.UnpartitionedSpec, nil)
	g := Group{Bytes: 10 * mib}
	plain := estimate(tbl, g)
	g.sorting = &sorting{}
	sorted := estimate(tbl, g)
	assert.EqualValues(t, gross(minSortBytes), sorted.minimum()-plain.minimum())
	for _, budget := range []int64{64 * mib, 256 * mib, 4096 * mib} {
		a := sorted.fit(budget)
		assert.LessOrEqual(t, a.total, budget+1, "%d", budget)
		assert.GreaterOrEqual(t, a.sortBytes, int64(minSortBytes))
		assert.LessOrEqual(t, a.sortBytes, budget/2)
	}
	assert.Zero(t, plain.fit(256*mib).sortBytes)
}
