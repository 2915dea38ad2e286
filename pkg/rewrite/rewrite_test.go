package rewrite

import (
	"fmt"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// outcome is what a whole compaction did.
type outcome struct {
	plan    *Plan
	results []Result
	proof   Proof
	tbl     *table.Table
}

// compact plans, rewrites, proves, verifies, stages and commits.
func (e *env) compact(o PlanOptions, ro Options) outcome {
	e.t.Helper()
	tbl := e.load()
	plan := e.plan(o)
	if ro.Engine == "" {
		e.spliceAside(tbl, plan, ro)
	}
	r := New(ro)
	results, err := r.Rewrite(e.t.Context(), tbl, plan.Groups)
	require.NoError(e.t, err)
	for _, res := range results {
		require.NoError(e.t, res.Err)
	}
	proof, err := r.Prove(e.t.Context(), tbl, plan, results)
	require.NoError(e.t, err)
	require.NoError(e.t, r.Verify(e.t.Context(), tbl, results))
	if len(results) == 0 {
		return outcome{plan, results, proof, tbl}
	}
	tx := tbl.NewTransaction()
	require.NoError(e.t, Stage(e.t.Context(), tx, results, proof, iceberg.Properties{"compactor.run-id": "test"}))
	after, err := tx.Commit(e.t.Context())
	require.NoError(e.t, err)

	return outcome{plan, results, proof, after}
}

// spliceAside has the splice engine do the same work, as far as it does, proves
// and verifies it, and removes it again.
func (e *env) spliceAside(tbl *table.Table, plan *Plan, ro Options) {
	e.t.Helper()
	ro.Engine = EngineSplice
	r := New(ro)
	results, err := r.Rewrite(e.t.Context(), tbl, plan.Groups)
	require.NoError(e.t, err)
	var spliced []Result
	for _, res := range results {
		require.NoError(e.t, res.Err)
		if res.Engine.Name == EngineSplice {
			spliced = append(spliced, res)
		} else {
			require.NotEmpty(e.t, res.Engine.Reason)
		}
	}
	_, err = r.Prove(e.t.Context(), tbl, plan, spliced)
	require.NoError(e.t, err)
	require.NoError(e.t, r.Verify(e.t.Context(), tbl, spliced))
	_, err = r.RemoveOutputs(e.t.Context(), tbl, results)
	require.NoError(e.t, err)
}

// sameRows compacts and compares the whole table before and after.
func (e *env) sameRows(o PlanOptions, ro Options) outcome {
	e.t.Helper()
	before := e.rows()
	out := e.compact(o, ro)
	require.Equal(e.t, before, e.rows())

	return out
}

func TestSmallFilesBecomeOne(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	for i := range 8 {
		e.appendSeries(10*i, 10)
	}
	out := e.sameRows(PlanOptions{}, Options{Parallel: 2, Engine: EngineGeneral})
	data, deletes := e.files()
	assert.Len(t, data, 1)
	assert.Empty(t, deletes)
	assert.EqualValues(t, 80, data[0].Count())
	require.Len(t, out.results, 1)
	res := out.results[0]
	assert.EqualValues(t, []int64{80, 0, 80}, []int64{res.RowsIn, res.RowsDeleted, res.RowsOut})
	assert.True(t, res.IndependentlyProven)
	assert.Equal(t, Engine{Name: EngineGeneral}, res.Engine)
	snap := out.tbl.CurrentSnapshot()
	assert.Equal(t, table.OpReplace, snap.Summary.Operation)
	assert.Equal(t, out.plan.SnapshotID, *snap.ParentSnapshotID)
	assert.Equal(t, "test", snap.Summary.Properties["compactor.run-id"])
	assert.Empty(t, e.plan(PlanOptions{}).Groups, "a compacted table has nothing to do")
}

func TestOutputsKeepTheSequenceNumberOfTheirSnapshot(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	for i := range 5 {
		e.appendSeries(10*i, 10)
	}
	start := e.load().CurrentSnapshot().SequenceNumber
	e.compact(PlanOptions{}, Options{})
	p := e.plan(PlanOptions{})
	require.Len(t, p.set.data, 1)
	assert.Equal(t, start, p.set.data[0].seq)
	assert.Equal(t, start+1, e.load().CurrentSnapshot().SequenceNumber)
}

func TestCase_C1_SlicedFileIsTakenWholeOrNotAtAll(t *testing.T) {
	for _, target := range []int64{480_000, 2_000_000} {
		t.Run(fmt.Sprint(target), func(t *testing.T) {
			e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, iceberg.Properties{
				"write.parquet.row-group-limit": "10000", "read.split.target-size": "200000",
			})
			e.appendSeries(0, 50_000)
			for i := range 4 {
				e.appendSeries(50_000+10*i, 10)
			}
			tasks, err := e.load().Scan().PlanFiles(t.Context())
			require.NoError(t, err)
			require.Greater(t, len(tasks), 5, "the scanner cuts the large file into slices")
			e.sameRows(PlanOptions{TargetFileSize: target, MinInputFiles: 2}, Options{})
			require.Len(t, e.rows(), 50_040)
		})
	}
}

func TestCase_C2_SharedPositionDeleteStaysWithTheFileThatStays(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	for i := range 5 {
		e.appendSeries(2*i, 2)
	}
	e.appendSeries(10, 4000)
	data, _ := e.files()
	var at []position
	small := false
	for _, df := range data {
		if df.Count() == 4000 || !small {
			at = append(at, position{df.FilePath(), 0})
			small = small || df.Count() == 2
		}
	}
	require.Len(t, at, 2)
	e.deletePositions(data[0], at...)
	require.Len(t, e.rows(), 4008)
	// The window lets the large file be, which is the point: the small one goes.
	target := int64(0)
	for _, df := range data {
		target = max(target, df.FileSizeBytes())
	}
	out := e.sameRows(PlanOptions{TargetFileSize: target}, Options{})
	require.Len(t, out.results, 1)
	assert.Empty(t, out.proof.DeadDeletes)
	_, deletes := e.files()
	assert.Len(t, deletes, 1, "the delete file is still needed")

	// Once the large file goes too, the delete file goes with it.
	out = e.sameRows(PlanOptions{RewriteAll: true}, Options{})
	assert.Len(t, out.proof.DeadDeletes, 1)
	_, deletes = e.files()
	assert.Empty(t, deletes)
}

func TestCase_C2_SharedPositionDeleteWhenTheLargeFileIsCutUp(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	for i := range 5 {
		e.appendSeries(2*i, 2)
	}
	e.appendSeries(10, 20_000)
	data, _ := e.files()
	e.deletePositions(data[0], position{data[0].FilePath(), 0}, position{data[5].FilePath(), 1})
	require.Len(t, e.rows(), 20_008)
	out := e.sameRows(PlanOptions{TargetFileSize: 40_000, MinInputFiles: 5, MaxGroupBytes: 80_000}, Options{})
	require.Greater(t, len(out.results), 1, "the delete file's data files are in two groups")
	assert.Len(t, out.proof.DeadDeletes, 1)
	_, deletes := e.files()
	assert.Empty(t, deletes)
}

func TestCase_C3_OldPartitionSpecsAreRewrittenIntoTheCurrentOne(t *testing.T) {
	sc := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "s", Type: iceberg.PrimitiveTypes.String},
		iceberg.NestedField{ID: 3, Name: "p", Type: iceberg.PrimitiveTypes.String},
	)
	evolve := map[string]func(u *table.UpdateSpec) *table.UpdateSpec{
		"identity": func(u *table.UpdateSpec) *table.UpdateSpec { return u.AddField("p", iceberg.IdentityTransform{}, "p") },
		"bucket": func(u *table.UpdateSpec) *table.UpdateSpec {
			return u.AddField("id", iceberg.BucketTransform{NumBuckets: 16}, "b")
		},
		"truncate": func(u *table.UpdateSpec) *table.UpdateSpec {
			return u.AddField("s", iceberg.TruncateTransform{Width: 2}, "tr")
		},
		"void": func(u *table.UpdateSpec) *table.UpdateSpec { return u.AddField("s", iceberg.VoidTransform{}, "v") },
	}
	fill := func(e *env) {
		for i := range 6 {
			e.appendJSON(fmt.Sprintf(`{"id":%d,"s":"x%d","p":"a"}`, 4*i, i), fmt.Sprintf(`{"id":%d,"s":"y%d","p":"b"}`, 4*i+1, i),
				fmt.Sprintf(`{"id":%d,"s":"z%d","p":"a"}`, 4*i+2, i), fmt.Sprintf(`{"id":%d,"s":null,"p":"b"}`, 4*i+3))
		}
	}
	check := func(t *testing.T, e *env, inputs int) {
		t.Helper()
		out := e.sameRows(PlanOptions{}, Options{})
		require.NotEmpty(t, out.results)
		data, _ := e.files()
		assert.Less(t, len(data), inputs+20)
		spec := e.load().Spec()
		for _, df := range data {
			assert.EqualValues(t, spec.ID(), df.SpecID())
		}
		e.sameRows(PlanOptions{}, Options{})
		assert.Empty(t, e.plan(PlanOptions{}).Groups)
	}
	for name, change := range evolve {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, sc, *iceberg.UnpartitionedSpec, nil)
			fill(e)
			e.commit(func(tx *table.Transaction) { require.NoError(t, change(tx.UpdateSpec(true)).Commit()) })
			check(t, e, 6)
		})
	}
	t.Run("unpartitioning", func(t *testing.T) {
		e := newEnv(t, sc, iceberg.NewPartitionSpec(iceberg.PartitionField{
			SourceIDs: []int{3}, FieldID: 1000, Name: "p", Transform: iceberg.IdentityTransform{},
		}), nil)
		fill(e)
		e.commit(func(tx *table.Transaction) { require.NoError(t, tx.UpdateSpec(true).RemoveField("p").Commit()) })
		check(t, e, 12)
		data, _ := e.files()
		assert.Len(t, data, 1)
	})
	t.Run("the text null beside a missing value", func(t *testing.T) {
		e := newEnv(t, sc, *iceberg.UnpartitionedSpec, nil)
		for i := range 6 {
			e.appendJSON(fmt.Sprintf(`{"id":%d,"s":"x","p":"null"}`, i), fmt.Sprintf(`{"id":%d,"s":"x","p":null}`, 10+i))
		}
		e.commit(func(tx *table.Transaction) { require.NoError(t, evolve["identity"](tx.UpdateSpec(true)).Commit()) })
		plan := e.plan(PlanOptions{})
		results, err := New(Options{}).Rewrite(t.Context(), e.load(), plan.Groups)
		require.NoError(t, err)
		require.Len(t, results, 1)
		require.ErrorContains(t, results[0].Err, "cannot be told from a missing value")
		assert.Len(t, e.onDisk(), 6)
	})
}

func TestCase_C15_AllRowsDeletedLeavesNoFiles(t *testing.T) {
	for _, version := range []string{"2", "3"} {
		for _, kind := range []string{"equality", "position"} {
			t.Run(kind+" v"+version, func(t *testing.T) {
				if version == "3" && kind == "position" {
					kind = "vector"
				}
				e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": version})
				var keys []string
				for i := range 6 {
					e.appendSeries(2*i, 2)
					keys = append(keys, fmt.Sprintf(`{"id":%d}`, 2*i), fmt.Sprintf(`{"id":%d}`, 2*i+1))
				}
				data, _ := e.files()
				var at []position
				for _, df := range data {
					at = append(at, position{df.FilePath(), 0}, position{df.FilePath(), 1})
				}
				switch kind {
				case "equality":
					e.deleteEqual(1, keys...)
				case "position":
					e.deletePositions(data[0], at...)
				default:
					e.deleteVector(at...)
				}
				require.Empty(t, e.rows())
				out := e.sameRows(PlanOptions{}, Options{})
				require.Len(t, out.results, 1)
				assert.EqualValues(t, 12, out.proof.RowsDeleted)
				assert.Equal(t, kind != "equality", out.results[0].IndependentlyProven)
				data, deletes := e.files()
				assert.Empty(t, data)
				assert.Empty(t, deletes)
				assert.Empty(t, e.plan(PlanOptions{}).Groups)
			})
		}
	}
}

func TestCase_C17_TwentyFilesOfFourTenthsOfATargetBecomeEightOrNine(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	for i := range 20 {
		e.appendSeries(20_000*i, 20_000)
	}
	data, _ := e.files()
	target := data[0].FileSizeBytes() * 10 / 4
	out := e.sameRows(PlanOptions{TargetFileSize: target}, Options{})
	require.Len(t, out.results, 1)
	data, _ = e.files()
	assert.Contains(t, []int{8, 9}, len(data))
	for _, df := range data {
		assert.InDelta(t, float64(target), float64(df.FileSizeBytes()), 0.25*float64(target))
	}
	assert.Empty(t, e.plan(PlanOptions{TargetFileSize: target}).Groups)
}
