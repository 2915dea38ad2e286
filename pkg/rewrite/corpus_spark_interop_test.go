//go:build interop && spark

package rewrite

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/rewrite/rewritetest"
)

// sparkJob asks Spark to read files, and tables that have them.
type sparkJob struct {
	Name    string            `json:"name"`
	Plain   bool              `json:"plain"` // Spark's own reader knows the types too
	Vectors bool              `json:"vectors"`
	Inputs  []string          `json:"inputs"` // none where Spark cannot read them
	General []string          `json:"general"`
	Spliced []string          `json:"spliced"`
	Tables  map[string]string `json:"tables"` // metadata files, by engine
}

// sparkReads has one session of Spark do all jobs.
func sparkReads(t *testing.T, jobs []sparkJob) {
	t.Helper()
	python := testenv.Tool(t, "engines-spark", "bin", "python")
	runJobs(t, jobs, exec.CommandContext(t.Context(), python, "../../internal/interop/engines/corpus_spark.py"),
		"INTEROP_JARS="+testenv.Tool(t, "iceberg-spark-4.0_2.13-1.11.0"), "JAVA_HOME=/usr/lib/jvm/java-17-openjdk-"+runtime.GOARCH)
}

// job asks for what became of a table of files; dir outlives the test.
func (o judged) job(t *testing.T, name, dir string, sc *iceberg.Schema) sparkJob {
	t.Helper()
	job := sparkJob{
		Name: name, Plain: true, Vectors: true, Inputs: localPaths(o.inputs), General: localPaths(o.general), Spliced: localPaths(o.spliced),
		Tables: make(map[string]string),
	}
	for engine, files := range map[string][]iceberg.DataFile{"general": o.general, "spliced": o.spliced} {
		e := newEnvIn(t, folder(t, dir, engine), sc, *iceberg.UnpartitionedSpec, nil)
		tbl := e.commit(func(tx *table.Transaction) {
			require.NoError(t, tx.AddDataFiles(t.Context(), files, nil, table.WithoutAutoNameMapping()))
		})
		job.Tables[engine] = strings.TrimPrefix(tbl.MetadataLocation(), "file://")
	}

	return job
}

func localPaths(files []iceberg.DataFile) (paths []string) {
	for _, df := range files {
		paths = append(paths, strings.TrimPrefix(df.FilePath(), "file://"))
	}

	return paths
}

func folder(t *testing.T, elements ...string) string {
	t.Helper()
	dir := filepath.Join(elements...)
	require.NoError(t, os.MkdirAll(dir, 0o755))

	return dir
}

// TestCorpusReadBySpark has Spark read what both engines make of its own files and
// of a sample of those of others.
func TestCorpusReadBySpark(t *testing.T) {
	var jobs []sparkJob
	for name, paths := range sparkCells(t) {
		dir := folder(t, t.TempDir(), name)
		var files [][]byte
		var sc *iceberg.Schema
		for _, path := range paths {
			var raw []byte
			raw, sc = tableOfSpark(t, path)
			files = append(files, raw)
		}
		got := verdictOf(t, newEnvIn(t, dir, sc, *iceberg.UnpartitionedSpec, nil), sc, files...)
		assert.Equal(t, notSplicedOfSpark(name), got.what)
		if got.what != "refused" {
			job := got.job(t, name, dir, sc)
			job.Plain = !strings.HasSuffix(name, "-bytes") // Spark's own reader knows no UUIDs
			jobs = append(jobs, job)
		}
	}
	for _, cell := range corpusCells() {
		for _, writer := range []string{"arrow-go", "parquet-go"} {
			name := writer + "-" + cell.String()
			jobs = append(jobs, sampled(t, name, folder(t, t.TempDir(), name), func(raw []byte) []byte {
				if writer == "parquet-go" {
					return rewrittenByParquetGo(t, cell, raw)
				}

				return raw
			}, cell, cell))
		}
	}
	sparkReads(t, jobs)
}

// TestCorpusOfMixedFilesReadBySpark joins files that are written in different ways,
// and values with indices in every order.
func TestCorpusOfMixedFilesReadBySpark(t *testing.T) {
	var jobs []sparkJob
	for _, version := range []string{"v1", "v2"} {
		for _, encodings := range [][]string{
			{"plain", "dictionary"}, {"dictionary", "plain"}, {"dictionary", "plain", "dictionary"}, {"delta", "dictionary", "plain"}, {"deltabytes", "dictionary"},
		} {
			for _, first := range []string{"some", "all"} {
				var cells []rewritetest.Cell
				for i, encoding := range encodings {
					cells = append(cells, rewritetest.Cell{Version: version, Encoding: encoding, Codec: "zstd", Nulls: "some"})
					if i == 0 {
						cells[0].Nulls = first
					}
				}
				name := strings.Join(append(encodings, version, first), "-")
				jobs = append(jobs, sampled(t, name, folder(t, t.TempDir(), name), func(raw []byte) []byte { return raw }, cells...))
			}
		}
	}
	sparkReads(t, jobs)
}

// TestCorpusOfColumnsAddedLaterReadBySpark joins files that lack half of the columns with
// files that have all of them, in every order.
func TestCorpusOfColumnsAddedLaterReadBySpark(t *testing.T) {
	var jobs []sparkJob
	for _, version := range []string{"v1", "v2"} {
		for _, encodings := range [][]string{
			{"", "dictionary"}, {"", "dictionary", "", "dictionary"}, {"dictionary", "plain", ""}, {"", "plain"}, {"", "plain", "dictionary"},
		} {
			name := strings.Join(append(encodings, "lacking"), "-")
			e := newEnvIn(t, folder(t, t.TempDir(), name, version), knownToSpark(), *iceberg.UnpartitionedSpec, nil)
			all := e.load().Schema()
			var some []iceberg.NestedField
			for i, f := range all.Fields() {
				if f.Required || i%2 == 0 {
					some = append(some, f)
				}
			}
			var files [][]byte
			for n, encoding := range encodings {
				sc := all
				if encoding == "" {
					sc, encoding = iceberg.NewSchema(0, some...), "dictionary"
				}
				rec, err := rewritetest.CorpusBatch(sc, "some", 30+40*n, uint64(n))
				require.NoError(t, err)
				raw, err := rewritetest.WriteCell(rewritetest.Cell{Version: version, Encoding: encoding, Codec: "zstd", Nulls: "some"}, rec)
				require.NoError(t, err)
				files = append(files, raw)
			}
			got := verdictOf(t, e, all, files...)
			assert.Equal(t, "spliced", got.what, name)
			job := got.job(t, version+name, e.dir, all)
			job.Inputs = nil // their columns differ
			jobs = append(jobs, job)
		}
	}
	sparkReads(t, jobs)
}

// sampled rewrites a file of each cell.
func sampled(t *testing.T, name, dir string, written func(raw []byte) []byte, cells ...rewritetest.Cell) sparkJob {
	t.Helper()
	e := newEnvIn(t, dir, knownToSpark(), *iceberg.UnpartitionedSpec, nil)
	sc := e.load().Schema()
	var files [][]byte
	for n, cell := range cells {
		rec, err := rewritetest.CorpusBatch(sc, cell.Nulls, 30+40*n, uint64(n))
		require.NoError(t, err)
		raw, err := rewritetest.WriteCell(cell, rec)
		require.NoError(t, err)
		files = append(files, written(raw))
	}
	got := verdictOf(t, e, sc, files...)
	assert.Equal(t, "spliced", got.what, name)

	job := got.job(t, name, dir, sc)
	job.Vectors = cells[0].Encoding != "split" // Spark has no reader of vectors for it
	if cells[0].Encoding == "deltabytes" {
		job.Inputs = nil // parquet-go's version is too low for Java's reader (PARQUET-246)
	}

	return job
}

// knownToSpark are the columns of the corpus without times and UUIDs.
func knownToSpark() *iceberg.Schema {
	var kept []iceberg.NestedField
	for _, f := range rewritetest.CorpusSchema().Fields() {
		if !strings.HasSuffix(f.Name, "_6") && !strings.HasSuffix(f.Name, "_11") {
			kept = append(kept, f)
		}
	}

	return iceberg.NewSchema(0, kept...)
}
