package rewrite

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	childDir    = "REWRITE_TEST_CHILD_DIR"
	childMemory = 200 * mib
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
	o := PlanOptions{Memory: childMemory, TargetFileSize: 32 * mib, MaxGroupBytes: 64 * mib, RewriteAll: true}
	plan, err := NewPlan(t.Context(), tbl, o)
	require.NoError(t, err)
	require.NotEmpty(t, plan.Groups, plan.Reason)
	r := New(Options{Memory: childMemory, Parallel: 2})
	results, err := r.Rewrite(t.Context(), tbl, plan.Groups)
	require.NoError(t, err)
	_, err = r.Prove(t.Context(), tbl, plan, results)
	require.NoError(t, err)
	for _, res := range results {
		require.NoError(t, res.Err)
		for _, df := range res.Outputs {
			t.Logf("output %d bytes, %d rows", df.FileSizeBytes(), df.Count())
		}
	}
	_, err = r.RemoveOutputs(t.Context(), tbl, results)
	require.NoError(t, err)
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

func (e *env) appendFloats(columns, rows int) {
	e.t.Helper()
	sc, err := table.SchemaToArrowSchemaWithOptions(e.load().Schema(), table.ArrowSchemaOptions{})
	require.NoError(e.t, err)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	for c := range columns {
		for range rows {
			b.Field(c).(*array.Float64Builder).Append(rand.Float64())
		}
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	e.appendBatch(rec)
}

func TestMemoryStaysInItsBudget(t *testing.T) {
	for name, c := range map[string]struct {
		columns, rows, files, rowGroup int
	}{
		"a hundred MiB in forty files": {columns: 8, rows: 40_000, files: 40, rowGroup: 1 << 20},
		"one file of 500 columns":      {columns: 500, rows: 8_000, files: 1, rowGroup: 1_000},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, floats(c.columns), *iceberg.UnpartitionedSpec, iceberg.Properties{
				"write.parquet.row-group-limit": fmt.Sprint(c.rowGroup),
			})
			for range c.files {
				e.appendFloats(c.columns, c.rows)
			}
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemoryChild$", "-test.count=1", "-test.v")
			child.Env = append(os.Environ(), childDir+"="+e.dir)
			out, err := child.CombinedOutput()
			require.NoError(t, err, string(out))
			require.True(t, bytes.Contains(out, []byte("output ")), string(out))
			usage, ok := child.ProcessState.SysUsage().(*syscall.Rusage)
			require.True(t, ok)
			peak := usage.Maxrss * 1024
			t.Logf("peak %d MiB of %d MiB\n%s", peak/mib, childMemory/mib, out)
			assert.Less(t, peak, int64(childMemory*13/10))
		})
	}
}
