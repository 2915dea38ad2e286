package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
)

// built is the program as it is built for use: what the race detector takes of
// memory for itself is none of ours.
func built(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "compactor")
	build := exec.Command("go", "build", "-trimpath", "-o", bin, ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	return bin
}

// peak compacts the world's table with the program as it is built for use, and
// returns the most memory the process had resident, in bytes.
func (w *world) peak(flags ...string) int64 {
	w.t.Helper()
	p := w.startFile(built(w.t), w.compactArgs(flags...)...)
	most := p.largestResident(10 * time.Minute)
	require.Equal(w.t, 0, p.code, p.stderr)

	return most
}

// largestResident watches the process until it ends and returns the most
// memory it had resident, in bytes. What wait reports would not do: it counts
// the test's own memory, which the child had for a moment before it became the
// program.
func (p *process) largestResident(limit time.Duration) int64 {
	p.t.Helper()
	status := fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(limit)
	most := int64(0)
	for {
		select {
		case <-p.done:
			require.Positive(p.t, most, "the process was seen")

			return most
		case <-deadline:
			p.t.Fatalf("the program still runs after %s; stderr: %s", limit, p.stderr)
		case <-tick.C:
		}
		raw, err := os.ReadFile(status)
		if err != nil {
			continue // It has just ended.
		}
		for line := range strings.Lines(string(raw)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
				kib, err := strconv.ParseInt(f[1], 10, 64)
				require.NoError(p.t, err)
				most = max(most, kib<<10)
			}
		}
	}
}

// compactsWithin compacts files files of 16 MiB with an engine and a budget of
// mib MiB.
func compactsWithin(t *testing.T, files int, mib int64, engine string) {
	t.Helper()
	w := newWorld(t)
	sc := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "b", Type: iceberg.PrimitiveTypes.Binary},
	)
	tabletest.Create(w.direct.Context(context.Background()), t, w.direct.Client(), w.ident, sc, props("write.parquet.compression-codec", "uncompressed"))
	const rows = 16 << 10
	raw := make([]byte, 1<<20)
	_, err := rand.Read(raw)
	require.NoError(t, err)
	tbl := addFiles(t, w.load(), files, func(b *array.RecordBuilder) {
		for i := range rows {
			b.Field(0).(*array.Int64Builder).Append(int64(i))
			b.Field(1).(*array.BinaryBuilder).Append(raw[i*63 : i*63+1<<10])
		}
	})
	require.GreaterOrEqual(t, liveBytes(t, tbl), int64(files)*rows<<10)
	got := w.peak("--memory", fmt.Sprintf("%dMiB", mib), "--max-hold", "0", "--engine", engine)
	t.Logf("peak %d MiB", got>>20)
	require.Less(t, got, mib<<20*13/10)
	require.Equal(t, int64(files*rows), rowCount(t, w.load()))
	require.Less(t, len(tabletest.Files(t, w.load())), files)
}

// More input than memory is compacted within 1.3 times the memory it was given.
func TestMemoryOfManyFiles(t *testing.T) {
	for _, engine := range []string{"general", "splice"} {
		t.Run(engine, func(t *testing.T) { compactsWithin(t, 24, 256, engine) })
	}
}

// So is one file of 500 columns.
func TestMemoryOfWideFile(t *testing.T) {
	w := newWorld(t)
	fields := make([]iceberg.NestedField, 500)
	for i := range fields {
		fields[i] = iceberg.NestedField{ID: i + 1, Name: fmt.Sprintf("c%d", i), Type: iceberg.PrimitiveTypes.String}
	}
	tabletest.Create(w.direct.Context(context.Background()), t, w.direct.Client(), w.ident, iceberg.NewSchema(0, fields...))
	const rows = 5_000
	addFiles(t, w.load(), 1, func(b *array.RecordBuilder) {
		for c := range fields {
			col := b.Field(c).(*array.StringBuilder)
			for i := range rows {
				col.Append(fmt.Sprintf("value %d of column %d", i*7919%rows, c))
			}
		}
	})
	got := w.peak("--memory", "512MiB", "--rewrite-all", "--max-hold", "0")
	t.Logf("peak %d MiB", got>>20)
	require.Less(t, got, int64(512<<20*13/10))
	require.Equal(t, int64(rows), rowCount(t, w.load()))
}

// addFiles commits n files, each filled by fill, as one snapshot.
func addFiles(t *testing.T, tbl *table.Table, n int, fill func(*array.RecordBuilder)) *table.Table {
	t.Helper()
	ctx := context.Background()
	sc, err := table.SchemaToArrowSchema(tbl.Schema(), nil, true, false)
	require.NoError(t, err)
	var added []iceberg.DataFile
	for range n {
		b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
		fill(b)
		rec := b.NewRecordBatch()
		b.Release()
		one := func(yield func(arrow.RecordBatch, error) bool) { yield(rec, nil) }
		for df, err := range table.WriteRecords(ctx, tbl, sc, one) {
			require.NoError(t, err)
			added = append(added, df)
		}
	}
	tx := tbl.NewTransaction()
	require.NoError(t, tx.AddDataFiles(ctx, added, nil))
	next, err := tx.Commit(ctx)
	require.NoError(t, err)

	return next
}

func liveBytes(t *testing.T, tbl *table.Table) int64 {
	t.Helper()
	size, err := measure(context.Background(), tbl)
	require.NoError(t, err)

	return size.bytes
}

func rowCount(t *testing.T, tbl *table.Table) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	_, batches, err := tbl.Scan(table.WithMaxConcurrency(1)).ToArrowRecords(ctx)
	require.NoError(t, err)
	n := int64(0)
	for rec, err := range batches {
		require.NoError(t, err)
		n += rec.NumRows()
		rec.Release()
	}

	return n
}
