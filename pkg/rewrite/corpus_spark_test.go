package rewrite

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sparkCells are the files that Spark wrote, by the name of how they are written;
// testdata/spark/README.md explains the names.
func sparkCells(t *testing.T) map[string][]string {
	t.Helper()
	paths, err := filepath.Glob("testdata/spark/*.parquet")
	require.NoError(t, err)
	cells := make(map[string][]string)
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".parquet")
		name = name[:strings.LastIndex(name, "-")]
		cells[name] = append(cells[name], path)
	}
	require.Len(t, cells, 56)

	return cells
}

// tableOfSpark is a file of Spark as a table would have it, with the table's schema:
// plain Spark writes no field ids, and Iceberg's are those of another table.
func tableOfSpark(t *testing.T, path string) ([]byte, *iceberg.Schema) {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	written, sc, err := withIDs(raw)
	require.NoError(t, err)
	text, err := json.Marshal(sc)
	require.NoError(t, err)
	micros := &iceberg.Schema{}
	// INT96 has nanoseconds, Spark's type has not.
	require.NoError(t, json.Unmarshal(bytes.ReplaceAll(text, []byte("_ns\""), []byte("\"")), micros))

	return written, micros
}

// notSplicedOfSpark is what becomes of the cells that are not spliced. Any other
// that is left to the general engine is a surprise.
func notSplicedOfSpark(name string) string {
	const form = "general: column stored in another form than its type's"
	switch {
	case strings.HasSuffix(name, "-int96"), strings.HasSuffix(name, "-millis"):
		return form
	case strings.Contains(name, "-lz4-"): // the older form, with frames of Hadoop's
		return "refused"
	default:
		return "spliced"
	}
}

func TestFilesOfSparkAreSplicedOrLeftToTheGeneralEngine(t *testing.T) {
	for name, paths := range sparkCells(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var files [][]byte
			var sc *iceberg.Schema
			for _, path := range paths {
				raw, of := tableOfSpark(t, path)
				require.True(t, sc == nil || sc.Equals(of), path)
				files, sc = append(files, raw), of
			}
			require.Len(t, files, 2)
			got := verdictOf(t, newEnv(t, sc, *iceberg.UnpartitionedSpec, nil), sc, files...)
			t.Logf("%s: %s", name, got.what)
			assert.Equal(t, notSplicedOfSpark(name), got.what)
		})
	}
}

// Plain Spark writes no field ids: its columns are told by the table's name mapping.
func TestFilesOfSparkAreSplicedByTheirNames(t *testing.T) {
	for name, paths := range sparkCells(t) {
		if !strings.HasPrefix(name, "spark-") || !strings.Contains(name, "-none-") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var files [][]byte
			var sc *iceberg.Schema
			for _, path := range paths {
				raw, err := os.ReadFile(path)
				require.NoError(t, err)
				_, sc = tableOfSpark(t, path)
				files = append(files, raw)
			}
			mapping, err := json.Marshal(sc.NameMapping())
			require.NoError(t, err)
			e := newEnv(t, sc, *iceberg.UnpartitionedSpec, iceberg.Properties{table.DefaultNameMappingKey: string(mapping)})
			assert.Equal(t, "spliced", verdictOf(t, e, sc, files...).what)
		})
	}
}
