package rewrite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"compactor/pkg/rewrite/rewritetest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tenFiles is a table of ten small files of ten rows, and its plan.
func tenFiles(t *testing.T) (*env, *table.Table, *Plan) {
	t.Helper()
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	for i := range 10 {
		e.appendSeries(10*i, 10)
	}

	return e, e.load(), e.plan(PlanOptions{})
}

func TestCase_X9_DroppedRowStopsTheProof(t *testing.T) {
	e, tbl, plan := tenFiles(t)
	r := New(Options{BeforeWrite: rewritetest.DropRow()})
	results, err := r.Rewrite(t.Context(), tbl, plan.Groups)
	require.NoError(t, err)
	require.NoError(t, results[0].Err, "the engine believes that a delete took the row")
	_, err = r.Prove(t.Context(), tbl, plan, results)
	require.ErrorIs(t, err, ErrIntegrity)
	require.ErrorContains(t, err, "100 rows in, 0 deleted by independent count, 99 out")
	removed, err := r.RemoveOutputs(t.Context(), tbl, results)
	require.NoError(t, err)
	assert.Len(t, removed, 1)
	assert.Len(t, e.onDisk(), 10)
}

func TestCase_X9_ShiftedColumnStopsVerify(t *testing.T) {
	for name, hook := range map[string]func(arrow.RecordBatch) arrow.RecordBatch{
		"values of one column in the wrong rows": rewritetest.SwapHalves(1),
		"one row twice and one lost":             rewritetest.RepeatRow(),
	} {
		t.Run(name, func(t *testing.T) {
			_, tbl, plan := tenFiles(t)
			r := New(Options{BeforeWrite: hook})
			results, err := r.Rewrite(t.Context(), tbl, plan.Groups)
			require.NoError(t, err)
			_, err = r.Prove(t.Context(), tbl, plan, results)
			require.NoError(t, err, "the counts are right")
			require.ErrorIs(t, r.Verify(t.Context(), tbl, results), ErrIntegrity)

			verifying := New(Options{Verify: true})
			_, err = verifying.Prove(t.Context(), tbl, plan, results)
			require.ErrorIs(t, err, ErrIntegrity)
		})
	}
}

func TestCase_X9_ShiftedColumnIsSeenWithoutAskingWhenEqualityDeletesApply(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	for i := range 6 {
		e.appendSeries(10*i, 10)
	}
	e.deleteEqual(1, `{"id":3}`, `{"id":33}`)
	tbl, plan := e.load(), e.plan(PlanOptions{})
	r := New(Options{BeforeWrite: rewritetest.SwapHalves(0)})
	results, err := r.Rewrite(t.Context(), tbl, plan.Groups)
	require.NoError(t, err)
	_, err = r.Prove(t.Context(), tbl, plan, results)
	require.ErrorIs(t, err, ErrIntegrity)
	assert.False(t, results[0].IndependentlyProven)

	r = New(Options{BeforeWrite: rewritetest.DropRow()})
	results, err = r.Rewrite(t.Context(), tbl, plan.Groups)
	require.NoError(t, err)
	_, err = r.Prove(t.Context(), tbl, plan, results)
	require.ErrorContains(t, err, "60 rows in, 2 deleted by independent count, 57 out")
}

func TestCase_X6_CorruptOrMissingInputFailsItsGroupAlone(t *testing.T) {
	sc := idAndText
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1000, Name: "s", Transform: iceberg.IdentityTransform{}})
	damage := map[string]func(path string) error{
		"truncated": func(path string) error { return os.Truncate(path, 300) },
		"missing":   os.Remove,
		"overwritten in the middle": func(path string) error {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for i := 4; i < 120; i++ {
				raw[i] = 0xA5
			}

			return os.WriteFile(path, raw, 0o600)
		},
	}
	for name, harm := range damage {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, sc, spec, nil)
			for i := range 6 {
				e.appendJSON(fmt.Sprintf(`{"id":%d,"s":"good"}`, i), fmt.Sprintf(`{"id":%d,"s":"bad"}`, i), fmt.Sprintf(`{"id":%d,"s":"bad"}`, 10+i))
			}
			tbl, plan := e.load(), e.plan(PlanOptions{})
			require.Len(t, plan.Groups, 2)
			victim := ""
			for _, g := range plan.Groups {
				if g.Partition == "s=bad" {
					victim = g.Files[3].Data.FilePath()
				}
			}
			require.NoError(t, harm(strings.TrimPrefix(victim, "file://")))
			onDisk := e.onDisk()
			results, err := New(Options{Parallel: 2}).Rewrite(t.Context(), tbl, plan.Groups)
			require.NoError(t, err)
			for _, res := range results {
				if res.Group.Partition == "s=good" {
					require.NoError(t, res.Err)
					require.Len(t, res.Outputs, 1)
					onDisk = append(onDisk, strings.TrimPrefix(res.Outputs[0].FilePath(), "file://"))

					continue
				}
				require.ErrorContains(t, res.Err, victim)
				assert.Empty(t, res.Outputs)
			}
			assert.ElementsMatch(t, onDisk, e.onDisk(), "the failed group leaves nothing, and no input is gone")

			// The good group can be committed without the bad one.
			r := New(Options{})
			proof, err := r.Prove(t.Context(), tbl, plan, results)
			require.NoError(t, err)
			tx := tbl.NewTransaction()
			require.NoError(t, Stage(t.Context(), tx, results, proof, nil))
			_, err = tx.Commit(t.Context())
			require.NoError(t, err)
			data, _ := e.files()
			assert.Len(t, data, 7)
		})
	}
}

func TestCancelledRewriteLeavesNothing(t *testing.T) {
	e, tbl, plan := tenFiles(t)
	before := e.onDisk()
	cause := errors.New("claim lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	r := New(Options{Progress: func(Progress) { cancel(cause) }})
	results, err := r.Rewrite(ctx, tbl, plan.Groups)
	require.ErrorIs(t, err, cause)
	assert.Empty(t, results)
	assert.Equal(t, before, e.onDisk())
}

// brittle is a storage whose writes fail after some calls.
type brittle struct {
	iceio.WriteFileIO
	left *int
}

func (b brittle) Create(name string) (iceio.FileWriter, error) {
	w, err := b.WriteFileIO.Create(name)

	return brittleWriter{w, b.left}, err
}

type brittleWriter struct {
	iceio.FileWriter
	left *int
}

var errBrittle = errors.New("storage is full")

func (w brittleWriter) Write(p []byte) (int, error) {
	if *w.left--; *w.left < 0 {
		return 0, errBrittle
	}

	return w.FileWriter.Write(p)
}

func TestEveryFailedWriteLeavesNothing(t *testing.T) {
	e, _, _ := tenFiles(t)
	for engine, least := range map[string]int{EngineGeneral: 4, EngineSplice: 1} {
		t.Run(engine, func(t *testing.T) { everyFailedWrite(t, e, engine, least) })
	}
}

// everyFailedWrite fails the first write, then the second, until a run passes.
func everyFailedWrite(t *testing.T, e *env, engine string, least int) {
	t.Helper()
	tbl, plan := e.load(), e.plan(PlanOptions{TargetFileSize: 1500, MinInputFiles: 2})
	before := e.onDisk()
	for calls := 0; ; calls++ {
		left := calls
		broken := table.New(tbl.Identifier(), tbl.Metadata(), tbl.MetadataLocation(), func(ctx context.Context) (iceio.IO, error) {
			fs, err := tbl.FS(ctx)

			return brittle{fs.(iceio.WriteFileIO), &left}, err
		}, nil)
		r := New(Options{Engine: engine})
		results, err := r.Rewrite(t.Context(), broken, plan.Groups)
		require.NoError(t, err)
		if results[0].Err == nil {
			require.Equal(t, engine, results[0].Engine.Name)
			require.GreaterOrEqual(t, calls, least)
			_, err = r.RemoveOutputs(t.Context(), tbl, results)
			require.NoError(t, err)
			assert.Equal(t, before, e.onDisk())

			return
		}
		require.ErrorIs(t, results[0].Err, errBrittle)
		require.Equal(t, before, e.onDisk(), "after %d writes", calls)
		require.Less(t, calls, 1000)
	}
}

func TestAnOutputNobodyReportedFailsTheGroup(t *testing.T) {
	_, tbl, plan := tenFiles(t)
	rec := &recorder{}
	run := &groupRun{rewriter: New(Options{}), tbl: tbl, group: plan.Groups[0], fs: rec, allotment: footprint{}.fit(0)}
	res := Result{RowsIn: 100}
	require.NoError(t, run.write(t.Context(), &res))
	rec.note(filepath.Join(tbl.Location(), "data", "stray.parquet"))
	require.ErrorContains(t, run.check(&Result{RowsIn: 100, Outputs: res.Outputs}), "did not report")
	run.rows--
	require.ErrorIs(t, run.check(&Result{RowsIn: 100, Outputs: res.Outputs}), ErrIntegrity)
	for _, path := range rec.paths()[:1] {
		require.NoError(t, os.Remove(strings.TrimPrefix(path, "file://")))
	}
}

func TestGroupsThatShareAFileAreRefused(t *testing.T) {
	_, tbl, plan := tenFiles(t)
	_, err := New(Options{}).Rewrite(t.Context(), tbl, []Group{plan.Groups[0], plan.Groups[0]})
	require.ErrorIs(t, err, ErrIntegrity)
}
