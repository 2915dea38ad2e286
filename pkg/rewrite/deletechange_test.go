package rewrite

import (
	"fmt"
	"testing"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// changeDeletes commits a change of the table's delete files.
func (e *env) changeDeletes(merge bool) Deletes {
	e.t.Helper()
	before, disk := e.rows(), len(e.onDisk())
	tbl := e.load()
	d, err := ChangeDeletes(e.t.Context(), tbl, e.plan(PlanOptions{}), merge)
	require.NoError(e.t, err)
	assert.Len(e.t, e.onDisk(), disk+len(d.Created()))
	if !d.Empty() {
		tx := tbl.NewTransaction()
		require.NoError(e.t, StageDeletes(e.t.Context(), tx, d, nil))
		after, err := tx.Commit(e.t.Context())
		require.NoError(e.t, err)
		assert.Equal(e.t, table.OpReplace, after.CurrentSnapshot().Summary.Operation)
	}
	require.Equal(e.t, before, e.rows())

	return d
}

func bySpec(transform iceberg.Transform) iceberg.PartitionSpec {
	return iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1000, Name: "s", Transform: transform})
}

func TestDeletesThatApplyToNoFileGo(t *testing.T) {
	for _, version := range []string{"2", "3"} {
		t.Run("v"+version, func(t *testing.T) {
			e := newEnv(t, idAndText, bySpec(iceberg.IdentityTransform{}), iceberg.Properties{"format-version": version})
			e.appendJSON(`{"id":1,"s":"a"}`, `{"id":2,"s":"a"}`)
			e.appendJSON(`{"id":3,"s":"b"}`, `{"id":4,"s":"b"}`)
			e.deleteRows([]int{1, 2}, `{"id":1,"s":"a"}`, `{"id":7,"s":"c"}`) // c has no file
			data, _ := e.files()
			of := map[any]iceberg.DataFile{}
			for _, df := range data {
				of[df.Partition()[1000]] = df
			}
			if version == "2" {
				e.deletePositions(of["b"], position{of["b"].FilePath(), 0})
			} else {
				e.deleteVector(position{of["b"].FilePath(), 0})
			}
			e.appendJSON(`{"id":7,"s":"c"}`)
			d := e.changeDeletes(false)
			require.Len(t, d.Dangling, 1)
			assert.Equal(t, "c", d.Dangling[0].Partition()[1000])
			_, deletes := e.files()
			assert.Len(t, deletes, 2)

			// The data file of the other delete goes, by another program.
			e.commit(func(tx *table.Transaction) {
				rewrite := tx.NewRewrite(nil)
				require.NoError(t, rewrite.DeleteFile(of["b"]).Commit(t.Context()))
			})
			assert.Len(t, e.changeDeletes(false).Dangling, 1)
			_, deletes = e.files()
			require.Len(t, deletes, 1)
			assert.Equal(t, "a", deletes[0].Partition()[1000])
			assert.True(t, e.changeDeletes(false).Empty())
		})
	}
}

func TestDeletesThatSomeReaderMayApplyStay(t *testing.T) {
	e := newEnv(t, idAndText, bySpec(iceberg.IdentityTransform{}), nil)
	e.appendJSON(`{"id":1,"s":"a"}`)
	e.appendJSON(`{"id":2,"s":"b"}`)
	data, _ := e.files()
	b, err := iceberg.NewDataFileBuilder(e.load().Spec(), iceberg.EntryContentData, "unused", iceberg.ParquetFile, map[int]any{1000: "gone"}, nil, nil, 1, 1)
	require.NoError(t, err)
	e.deletePositions(b.Build(), position{data[0].FilePath(), 0}, position{data[1].FilePath(), 0})
	assert.Empty(t, e.plan(PlanOptions{}).Dangling, "it names live files, of other partitions")
}

func TestARewriteTakesDanglingDeletesAlong(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	e.appendSeries(0, 1)
	first, _ := e.files()
	e.deletePositions(first[0], position{first[0].FilePath(), 0})
	e.commit(func(tx *table.Transaction) {
		rewrite := tx.NewRewrite(nil)
		require.NoError(t, rewrite.DeleteFile(first[0]).Commit(t.Context()))
	})
	for i := range 6 {
		e.appendSeries(10*i, 10)
	}
	out := e.sameRows(PlanOptions{}, Options{})
	assert.Len(t, out.proof.DeadDeletes, 1)
	_, deletes := e.files()
	assert.Empty(t, deletes)
}

// scattered is a table of six files with position deletes that stay: for each
// file, for the partition, twice the same row, and of a file that is gone.
func scattered(t *testing.T, props iceberg.Properties) *env {
	t.Helper()
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, props)
	for i := range 6 {
		e.appendSeries(10*i, 10)
	}
	data, _ := e.files()
	for i, df := range data {
		e.deletePositions(df, position{df.FilePath(), int64(i)})
	}
	e.deletePositions(data[0], position{data[0].FilePath(), 0}, position{data[1].FilePath(), 9}, position{data[2].FilePath(), 99},
		position{"file:///gone.parquet", 4})
	require.Len(t, e.rows(), 53)

	return e
}

func mergeable(p *Plan, tbl *table.Table) int {
	files, _ := p.Mergeable(tbl)

	return files
}

// Deletes that do not fit the memory are named, by a dry run as well, and stay.
func TestPositionDeletesThatAreTooManyAreNamed(t *testing.T) {
	e := scattered(t, nil)
	p := e.plan(PlanOptions{Memory: 256})
	files, tooLarge := p.Mergeable(e.load())
	assert.Zero(t, files)
	require.Len(t, tooLarge, 1)
	assert.Equal(t, 7, tooLarge[0].Files)
	assert.Regexp(t, `merging its position deletes needs \d+ bytes of memory, has 256`, tooLarge[0].Reason)
	d, err := ChangeDeletes(t.Context(), e.load(), p, true)
	require.NoError(t, err)
	assert.True(t, d.Empty())
}

func TestPositionDeletesThatStayBecomeFewer(t *testing.T) {
	for granularity, files := range map[string]int{"partition": 1, "file": 6} {
		t.Run(granularity, func(t *testing.T) {
			e := scattered(t, iceberg.Properties{"write.delete.granularity": granularity})
			tbl := e.load()
			assert.Equal(t, 7, mergeable(e.plan(PlanOptions{}), tbl))
			d := e.changeDeletes(true)
			assert.Len(t, d.Merged, 7)
			assert.Len(t, d.Added, files)
			assert.EqualValues(t, 7, d.Rows)
			_, deletes := e.files()
			assert.Len(t, deletes, files)
			p := e.plan(PlanOptions{})
			for _, entry := range p.set.deletes.all {
				assert.Equal(t, tbl.CurrentSnapshot().SequenceNumber, entry.seq)
			}
			assert.Zero(t, mergeable(p, e.load()), "a second time there is nothing to do")
			assert.True(t, e.changeDeletes(true).Empty())

			// A delete by value that comes later applies, and a rewrite uses the new files.
			e.deleteEqual(1, `{"id":3}`)
			require.Len(t, e.rows(), 52)
			out := e.sameRows(PlanOptions{}, Options{})
			assert.EqualValues(t, 8, out.proof.RowsDeleted)
			_, deletes = e.files()
			assert.Empty(t, deletes)
		})
	}
}

func TestPositionDeletesBecomeDeletionVectors(t *testing.T) {
	e := scattered(t, nil)
	e.commit(func(tx *table.Transaction) { require.NoError(t, tx.UpgradeFormatVersion(3)) })
	data, _ := e.files()
	d := e.changeDeletes(true)
	assert.Len(t, d.Merged, 7)
	require.Len(t, d.Added, 6)
	assert.Len(t, d.Created(), 1, "all in one Puffin file")
	_, deletes := e.files()
	require.Len(t, deletes, 6)
	for _, v := range deletes {
		assert.True(t, table.IsDeletionVector(v))
	}
	assert.Zero(t, mergeable(e.plan(PlanOptions{}), e.load()))
	e.deleteEqual(1, `{"id":3}`)
	out := e.sameRows(PlanOptions{}, Options{})
	assert.EqualValues(t, 8, out.proof.RowsDeleted)
	require.Len(t, data, 6)
}

func TestMergedDeletesOfEveryPartitionType(t *testing.T) {
	for _, id := range []int{1, 2, 3, 4, 7, 9, 10, 11, 12, 13, 14, 15, 16} {
		field, _ := wideSchema().FindFieldByID(id)
		t.Run(field.Name, func(t *testing.T) {
			spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{id}, FieldID: 1000, Name: "part", Transform: iceberg.IdentityTransform{}})
			e := newEnv(t, wideSchema(), spec, nil)
			for range 2 {
				e.appendBatch(withOddFloats(batchJSON(t, e.load(), wideRow(3), wideRow(3), wideRow(4), wideRow(4)), 4))
			}
			data, _ := e.files()
			for _, df := range data {
				e.deletePositions(df, position{df.FilePath(), 0})
			}
			d := e.changeDeletes(true)
			assert.Len(t, d.Merged, len(data))
			assert.Len(t, d.Added, len(data)/2, "one for each partition")
			assert.EqualValues(t, len(data), d.Rows)
		})
	}
}

// What cannot be merged for certain is left alone.
func TestDeletesThatAreNotMerged(t *testing.T) {
	e := newEnv(t, idAndText, bySpec(iceberg.IdentityTransform{}), nil)
	for i := range 2 {
		e.appendJSON(fmt.Sprintf(`{"id":%d,"s":"a"}`, i), fmt.Sprintf(`{"id":%d,"s":"b"}`, i))
	}
	data, _ := e.files()
	of := map[any][]iceberg.DataFile{}
	for _, df := range data {
		of[df.Partition()[1000]] = append(of[df.Partition()[1000]], df)
	}
	e.deletePositions(of["a"][0], position{of["a"][0].FilePath(), 0}, position{of["b"][0].FilePath(), 0})
	e.deletePositions(of["a"][0], position{of["a"][1].FilePath(), 0})
	assert.Zero(t, mergeable(e.plan(PlanOptions{}), e.load()), "one of them names a file of another partition")
	e.deletePositions(of["b"][0], position{of["b"][1].FilePath(), 0})
	e.deletePositions(of["b"][0], position{of["b"][1].FilePath(), 0})
	assert.Zero(t, mergeable(e.plan(PlanOptions{}), e.load()), "a file of the partition is named by one of another")
}

func TestNewDeletesThatDifferFromTheOldStopTheChange(t *testing.T) {
	e := scattered(t, nil)
	tbl, plan := e.load(), e.plan(PlanOptions{})
	storage, err := tbl.FS(t.Context())
	require.NoError(t, err)
	m := &deleteMerge{tbl: tbl, plan: plan, storage: storage.(iceio.WriteFileIO)}
	scopes := plan.deleteScopes(tbl)
	require.Len(t, scopes, 1)
	rows, err := m.gather(t.Context(), scopes[0])
	require.NoError(t, err)
	for path, at := range rows {
		for name, wrong := range map[string][]int64{"one row less": at[:len(at)-1], "another row": {7}, "one row more": append([]int64{8}, at...)} {
			changed := reached{}
			for p, v := range rows {
				changed[p] = v
			}
			if changed[path] = wrong; len(wrong) == 0 {
				delete(changed, path)
			}
			added, err := m.write(t.Context(), scopes[0], changed)
			require.NoError(t, err)
			require.ErrorIs(t, m.prove(t.Context(), scopes[0], added), ErrIntegrity, name)
		}
	}
}
