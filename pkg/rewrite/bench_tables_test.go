//go:build bench

package rewrite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/rewritetest"
)

// benchSet is a table of many small files.
type benchSet struct {
	name       string
	rows       int  // of a file
	dictionary bool // version 1 pages, a dictionary for every column
}

// benchSets are the tables. REWRITE_BENCH_MB says how much of each is made.
func benchSets() []benchSet {
	return []benchSet{
		{name: "1 MiB files", rows: rewritetest.EventRows}, {name: "64 KiB files", rows: 1_150}, {name: "dictionaries", rows: rewritetest.EventRows, dictionary: true},
	}
}

// benchTable is the set's table and the size of its files. It is kept, and taken
// from there next time, when REWRITE_BENCH_TABLES names a folder.
func benchTable(t *testing.T, set benchSet, mb int) (*env, int) {
	t.Helper()
	dir := t.TempDir()
	if kept := os.Getenv("REWRITE_BENCH_TABLES"); kept != "" {
		dir = filepath.Join(kept, fmt.Sprintf("%s %d", set.name, mb))
		dir = strings.ReplaceAll(dir, " ", "-")
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)

			return openIn(t, dir), benchBytes(t, dir)
		}
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	e := newEnvIn(t, dir, rewritetest.EventSchema(), *iceberg.UnpartitionedSpec, nil)
	sc := e.load().Schema()
	require.NoError(t, os.MkdirAll(benchData(dir), 0o755))
	var files []iceberg.DataFile
	for seed, total := 0, 0; total < mb*1e6; seed++ {
		raw, err := rewritetest.EventFile(sc, set.rows, uint64(seed), set.dictionary)
		require.NoError(t, err)
		total += len(raw)
		path := filepath.Join(benchData(dir), fmt.Sprintf("small-%06d.parquet", seed))
		require.NoError(t, os.WriteFile(path, raw, 0o644))
		b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, "file://"+path, iceberg.ParquetFile,
			nil, nil, nil, int64(set.rows), int64(len(raw)))
		require.NoError(t, err)
		files = append(files, b.Build())
	}
	e.commit(func(tx *table.Transaction) {
		require.NoError(t, tx.AddDataFiles(t.Context(), files, nil, table.WithoutAutoNameMapping()))
	})

	return e, benchBytes(t, dir)
}

func benchData(dir string) string { return filepath.Join(dir, "t", "data") }

func benchBytes(t *testing.T, dir string) (total int) {
	t.Helper()
	entries, err := os.ReadDir(benchData(dir))
	require.NoError(t, err)
	for _, entry := range entries {
		info, err := entry.Info()
		require.NoError(t, err)
		total += int(info.Size())
	}

	return total
}
