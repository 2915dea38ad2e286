package rewrite

import (
	"fmt"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRefreshKeepsGroupsInOrderAndReadsOnlyNewManifests(t *testing.T) {
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1000, Name: "s", Transform: iceberg.IdentityTransform{}})
	e := newEnv(t, idAndText, spec, nil)
	for i := range 8 {
		rows := []string{fmt.Sprintf(`{"id":%d,"s":"a"}`, i), fmt.Sprintf(`{"id":%d,"s":"b"}`, i)}
		if i < 6 {
			rows = append(rows, fmt.Sprintf(`{"id":%d,"s":"c"}`, i))
		}
		e.appendJSON(rows...)
	}
	plan := e.plan(PlanOptions{})
	require.Len(t, plan.Groups, 3)
	reads := plan.cache.reads
	require.Equal(t, 8, reads)

	// The first group is done; meanwhile a writer appends and deletes.
	r := New(Options{})
	results, err := r.Rewrite(t.Context(), e.load(), plan.Groups[:1])
	require.NoError(t, err)
	proof, err := r.Prove(t.Context(), e.load(), plan, results)
	require.NoError(t, err)
	e.commit(func(tx *table.Transaction) { require.NoError(t, Stage(t.Context(), tx, results, proof, nil)) })
	e.appendJSON(`{"id":100,"s":"b"}`)
	victim := plan.Groups[1].Files[0].Data
	e.deletePositions(victim, position{victim.FilePath(), 0})
	before := e.rows()

	plan.Drop(plan.Groups[:1])
	ids := []string{plan.Groups[0].ID, plan.Groups[1].ID}
	next, err := plan.Refresh(t.Context(), e.load())
	require.NoError(t, err)
	require.Len(t, next.Groups, 2)
	assert.Equal(t, ids, []string{next.Groups[0].ID, next.Groups[1].ID})
	assert.Equal(t, e.load().CurrentSnapshot().SnapshotID, next.SnapshotID)
	assert.Empty(t, next.Refused)
	assert.Len(t, next.Groups[0].Files[0].Deletes, 1, "the new delete is bound")
	assert.Empty(t, plan.Groups[0].Files[0].Deletes, "the old plan stays as it was")
	assert.Equal(t, 12, next.cache.reads-reads, "eight that the commit rewrote, its outputs and its removals, the append, the delete")
	again := next.cache.reads
	_, err = next.Refresh(t.Context(), e.load())
	require.NoError(t, err)
	assert.Equal(t, again, next.cache.reads)

	results, err = r.Rewrite(t.Context(), e.load(), next.Groups)
	require.NoError(t, err)
	proof, err = r.Prove(t.Context(), e.load(), next, results)
	require.NoError(t, err)
	e.commit(func(tx *table.Transaction) { require.NoError(t, Stage(t.Context(), tx, results, proof, nil)) })
	assert.Equal(t, before, e.rows())
	next.Drop(next.Groups)
	assert.Equal(t, "every planned group is done", next.Reason)
}

func TestRefreshDropsGroupsThatLostAFile(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	for i := range 6 {
		e.appendSeries(10*i, 10)
	}
	plan := e.plan(PlanOptions{})
	gone := plan.Groups[0].Files[2].Data.FilePath()
	e.commit(func(tx *table.Transaction) {
		require.NoError(t, tx.Delete(t.Context(), iceberg.IsIn(iceberg.Reference("id"), int64(20), 21, 22, 23, 24, 25, 26, 27, 28, 29), nil))
	})
	next, err := plan.Refresh(t.Context(), e.load())
	require.NoError(t, err)
	assert.Empty(t, next.Groups)
	assert.Equal(t, "no planned group is left", next.Reason)
	require.Len(t, next.Refused, 1)
	assert.Contains(t, next.Refused[0].Reason, gone+" is no longer live")

	e.commit(func(tx *table.Transaction) {
		require.NoError(t, tx.UpdateSpec(true).AddField("id", iceberg.IdentityTransform{}, "p").Commit())
	})
	next, err = e.plan(PlanOptions{}).Refresh(t.Context(), e.load())
	require.NoError(t, err)
	require.Len(t, next.Groups, 1, "a group of an old spec stays one")
	plan.specID = 0
	next, err = plan.Refresh(t.Context(), e.load())
	require.NoError(t, err)
	assert.Contains(t, next.Refused[0].Reason, "partition spec has changed")
}

// A plan made anew for a later head reads only what that head added.
func TestReplanReadsOnlyNewManifests(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	for i := range 6 {
		e.appendJSON(fmt.Sprintf(`{"id":%d,"s":"a"}`, i))
	}
	plan := e.plan(PlanOptions{})
	read := plan.cache.reads
	require.Len(t, plan.Groups[0].Files, 6)
	e.appendJSON(`{"id":100,"s":"b"}`)
	again, err := plan.Replan(t.Context(), e.load())
	require.NoError(t, err)
	assert.Len(t, again.Groups[0].Files, 7, "the new file is in")
	assert.Equal(t, read+1, again.cache.reads)
	assert.Len(t, plan.Groups[0].Files, 6, "the first plan stays as it was")
}
