package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	icebergcatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/pkg/maintenance"
)

func idDescending(t *testing.T) table.SortOrder {
	t.Helper()
	order, err := table.NewSortOrder(1, []table.SortField{{
		SourceIDs: []int{1}, Transform: iceberg.IdentityTransform{}, Direction: table.SortDESC, NullOrder: table.NullsLast,
	}})
	require.NoError(t, err)

	return order
}

// A table with a sort order: the dry run says by what rows are sorted, the run
// sorts them, inspect sees it, and then there is nothing to do.
func TestSortedTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(icebergcatalog.WithSortOrder(idDescending(t))), 6, 10)
	rows := tabletest.Rows(t, w.load())
	sortedBy := func(r result) string {
		var doc struct {
			Tables []struct {
				Steps []struct {
					SortedBy string `json:"sorted_by"`
				} `json:"steps"`
			} `json:"tables"`
		}
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &doc), r.stdout)

		return doc.Tables[0].Steps[0].SortedBy
	}
	r := w.compact("--dry-run")
	require.Equal(t, 0, r.code, r.stderr)
	require.Equal(t, "id desc nulls last", sortedBy(r))
	r = w.compactor("compact", "--config", w.config, "--dry-run", w.name())
	require.NotEmpty(t, r.grep("sorted by +id desc nulls last"), r.stdout)
	r = w.compact("--verify")
	require.Equal(t, 0, r.code, r.stderr)
	require.Equal(t, "id desc nulls last", sortedBy(r))
	require.Len(t, tabletest.Files(t, w.load()), 1)
	require.Equal(t, rows, tabletest.Rows(t, w.load()))
	r = w.compactor("inspect", "--config", w.config, w.name())
	require.NotEmpty(t, r.grep("1 of 1 files"), r.stdout)
	r = w.compact()
	require.Equal(t, 0, r.code, r.stderr)
	require.EqualValues(t, maintenance.StatusNothing, r.step(t).Status)
	require.Equal(t, 1, len(tabletest.Files(t, w.load())))
}

// What is asked for wrongly is a matter of usage; what the table does not have
// is a refusal.
func TestSortFlags(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 6, 2)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct {
		flags []string
		code  int
		says  string
	}{
		{[]string{"--strategy", "zorder"}, 2, "auto"},
		{[]string{"--strategy", "binpack", "--sort-by", "id"}, 2, "does not go with"},
		{[]string{"--sort-by", ""}, 2, "empty value"},
		{[]string{"--temp-dir", "/no/such/folder"}, 2, "/no/such/folder"},
		{[]string{"--temp-dir", file}, 2, "no folder"},
		{[]string{"--strategy", "sort"}, 3, "no sort order"},
		{[]string{"--sort-by", "nope"}, 3, `no column "nope"`},
		{[]string{"--sort-by", "id sideways"}, 3, "sideways"},
		{[]string{"--strategy", "sort", "--sort-by", "bucket(4, id), id desc", "--dry-run"}, 0, "would rewrite"},
		{[]string{"--strategy", "binpack", "--dry-run"}, 0, "would rewrite"},
	} {
		r := w.compact(c.flags...)
		require.Equal(t, c.code, r.code, "%v: %s%s", c.flags, r.stdout, r.stderr)
		require.Contains(t, r.stdout+r.stderr, strings.ReplaceAll(c.says, `"`, map[bool]string{true: `\"`, false: `"`}[c.code == 3]), "%v", c.flags)
	}
}

// More rows than memory are sorted within 1.3 times the memory, through files
// that are gone when the program was killed, when it was asked to stop, and at
// its end.
func TestSortingThroughFiles(t *testing.T) {
	w := newWorld(t)
	sc := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "b", Type: iceberg.PrimitiveTypes.Binary},
	)
	tabletest.Create(w.direct.Context(context.Background()), t, w.direct.Client(), w.ident, sc,
		props("write.parquet.compression-codec", "uncompressed", "coldfront.sort-key", "b"))
	const files, rows = 14, 16 << 10
	raw := make([]byte, 2<<20)
	_, err := rand.Read(raw)
	require.NoError(t, err)
	addFiles(t, w.load(), files, func(b *array.RecordBuilder) {
		for i := range rows {
			b.Field(0).(*array.Int64Builder).Append(int64(i))
			b.Field(1).(*array.BinaryBuilder).Append(raw[i*61 : i*61+1<<10])
		}
	})
	dir := t.TempDir()
	args := w.compactArgs("--memory", "256MiB", "--max-hold", "0", "--temp-dir", dir, "--log-level", "debug")
	before := w.dataObjects()
	bin := built(t)
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		p := w.startFile(bin, args...)
		p.untilItSpills(dir)
		require.NoError(t, p.cmd.Process.Signal(signal))
		code := p.wait(2 * time.Minute)
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left, "after %s", signal)
		require.Zero(t, w.commits())
		if signal == syscall.SIGTERM {
			require.Equal(t, 143, code, p.stderr)
			require.Equal(t, before, w.dataObjects())
		}
	}
	p := w.startFile(bin, args...)
	most := p.largestResident(10 * time.Minute)
	require.Equal(t, 0, p.code, p.stderr)
	t.Logf("peak %d MiB", most>>20)
	require.Less(t, most, int64(256<<20*13/10))
	require.Contains(t, p.stderr.String(), "sorted through temporary files")
	require.Equal(t, int64(files*rows), rowCount(t, w.load()))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// untilItSpills waits until the process has a temporary file open.
func (p *process) untilItSpills(dir string) {
	p.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(5 * time.Minute)
	for {
		select {
		case <-p.done:
			p.t.Fatalf("the program ended before it used a file: %s", p.stderr)
		case <-deadline:
			p.t.Fatalf("the program used no file: %s", p.stderr)
		case <-tick.C:
		}
		open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.cmd.Process.Pid))
		require.NoError(p.t, err)
		for _, fd := range open {
			if target, err := os.Readlink(fd); err == nil && strings.HasPrefix(target, dir) {
				return
			}
		}
	}
}
