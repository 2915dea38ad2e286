package rewrite

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	childDir     = "REWRITE_TEST_CHILD_DIR"
	childRefusal = "REWRITE_TEST_CHILD_REFUSAL"
	childMemory  = 96 * mib
)

// TestMemoryChild is the process that TestMemoryStaysInItsBudget measures; it
// does nothing unless that test starts it.
func TestMemoryChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		return
	}
	debug.SetMemoryLimit(childMemory)
	tbl := openIn(t, dir).load()
	o := PlanOptions{Memory: childMemory, TargetFileSize: 256 * mib, MaxGroupBytes: 44 * mib, RewriteAll: true}
	plan, err := NewPlan(t.Context(), tbl, o)
	require.NoError(t, err)
	require.NotEmpty(t, plan.Groups, plan.Reason)
	var peak atomic.Uint64
	r := New(Options{Memory: childMemory, Parallel: 2, Progress: func(Progress) {
		for now := runtimeBytes(); ; {
			if seen := peak.Load(); now <= seen || peak.CompareAndSwap(seen, now) {
				return
			}
		}
	}})
	results, err := r.Rewrite(t.Context(), tbl, plan.Groups)
	require.NoError(t, err)
	_, err = r.Prove(t.Context(), tbl, plan, results)
	require.NoError(t, err)
	require.NoError(t, r.Verify(t.Context(), tbl, results))
	for _, res := range results {
		if reason := os.Getenv(childRefusal); reason != "" {
			require.ErrorContains(t, res.Err, reason)
			t.Log("output refused")

			continue
		}
		require.NoError(t, res.Err)
		for _, df := range res.Outputs {
			t.Logf("output %d bytes, %d rows", df.FileSizeBytes(), df.Count())
		}
	}
	_, err = r.RemoveOutputs(t.Context(), tbl, results)
	require.NoError(t, err)
	t.Logf("peak %d MiB of %d MiB", peak.Load()/mib, childMemory/mib)
	assert.Less(t, peak.Load(), uint64(childMemory*13/10))
}

// runtimeBytes is what the runtime holds of the system's memory. It leaves out
// what the race detector takes for itself, which the resident size does not.
func runtimeBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(sample)

	return sample[0].Value.Uint64() - sample[1].Value.Uint64()
}

func openIn(t *testing.T, dir string) *env {
	t.Helper()
	cat, err := catalog.Load(t.Context(), "test", iceberg.Properties{
		"type": "sql", "sql.driver": "sqliteshim", "sql.dialect": "sqlite",
		"uri": "file:" + dir + "/catalog.db", "warehouse": "file://" + dir,
	})
	require.NoError(t, err)

	return &env{t: t, cat: cat, name: table.Identifier{"db", "t"}, dir: dir}
}

// floats is a schema of n columns of random numbers, which do not compress.
func floats(n int) *iceberg.Schema {
	fields := make([]iceberg.NestedField, n)
	for i := range fields {
		fields[i] = iceberg.NestedField{ID: i + 1, Name: fmt.Sprintf("c%d", i), Type: iceberg.PrimitiveTypes.Float64}
	}

	return iceberg.NewSchema(0, fields...)
}

// appendFloats appends one batch several times, a file each.
func (e *env) appendFloats(columns, rows, files int) {
	e.t.Helper()
	b := e.builder()
	defer b.Release()
	for c := range columns {
		for range rows {
			b.Field(c).(*array.Float64Builder).Append(rand.Float64())
		}
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	for range files {
		e.appendBatch(rec)
	}
}

// runChild rewrites the table in a process of its own, which measures itself.
func runChild(t *testing.T, e *env, env ...string) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemoryChild$", "-test.count=1", "-test.v")
	child.Env = append(append(os.Environ(), childDir+"="+e.dir), env...)
	out, err := child.CombinedOutput()
	require.NoError(t, err, string(out))
	require.True(t, bytes.Contains(out, []byte("output ")), string(out))
	t.Log(string(out))
}

// appendValues appends a file of n times the same batch of long texts.
func (e *env) appendValues(n int, values ...string) {
	e.t.Helper()
	b := e.builder()
	defer b.Release()
	for i, v := range values {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.StringBuilder).Append(v)
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	rdr, err := array.NewRecordReader(b.Schema(), slices.Repeat([]arrow.RecordBatch{rec}, n))
	require.NoError(e.t, err)
	defer rdr.Release()
	e.commit(func(tx *table.Transaction) { require.NoError(e.t, tx.Append(e.t.Context(), rdr, nil)) })
}

// TestMemoryOfValuesThatTakeNoRoomInTheFile has files of a few kilobytes that
// hold hundreds of megabytes once they are decoded.
func TestMemoryOfValuesThatTakeNoRoomInTheFile(t *testing.T) {
	for name, c := range map[string]struct {
		width, batch, batches int
		distinct              bool
		refused               string
	}{
		"120 MB of one text of 4 kB":   {width: 4000, batch: 1000, batches: 30},
		"100 MB of one text of 100 kB": {width: 100_000, batch: 50, batches: 20},
		"texts of 1 MB":                {width: 1_000_000, batch: 2, batches: 3, distinct: true},
		"texts of 20 MB":               {width: 20_000_000, batch: 2, batches: 2, distinct: true, refused: "bytes of memory"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
			values := make([]string, c.batch)
			for i := range values {
				values[i] = strings.Repeat("a", c.width)
				if c.distinct {
					values[i] = fmt.Sprint(i) + values[i]
				}
			}
			for range 3 {
				e.appendValues(c.batches, values...)
			}
			runChild(t, e, childRefusal+"="+c.refused)
		})
	}
}

func TestMemoryStaysInItsBudget(t *testing.T) {
	for name, c := range map[string]struct {
		columns, rows, files, rowGroup int
	}{
		"eighty MiB in sixteen files": {columns: 16, rows: 40_000, files: 16, rowGroup: 1 << 20},
		"one file of 500 columns":     {columns: 500, rows: 2_000, files: 1, rowGroup: 250},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, floats(c.columns), *iceberg.UnpartitionedSpec, iceberg.Properties{
				"write.parquet.row-group-limit": fmt.Sprint(c.rowGroup),
			})
			e.appendFloats(c.columns, c.rows, c.files)
			runChild(t, e)
		})
	}
}
