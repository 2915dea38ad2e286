//go:build interop

package rewrite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/rewrite/rewritetest"
)

// corpusJob is a request to the script.
type corpusJob struct {
	Do       string   `json:"do"`
	Name     string   `json:"name,omitempty"`
	Source   string   `json:"source,omitempty"`
	Target   string   `json:"target,omitempty"`
	Version  string   `json:"version,omitempty"`
	Encoding string   `json:"encoding,omitempty"`
	Codec    string   `json:"codec,omitempty"`
	Inputs   []string `json:"inputs,omitempty"`
	General  []string `json:"general,omitempty"`
	Spliced  []string `json:"spliced,omitempty"`
}

func runCorpus(t *testing.T, jobs []corpusJob) {
	t.Helper()
	runJobs(t, jobs, exec.CommandContext(t.Context(), testenv.Tool(t, "engines-python", "bin", "python"), "../../internal/interop/engines/corpus.py"))
}

// runJobs hands the jobs to a program that answers with what is wrong, and fails
// the test unless that is nothing.
func runJobs[J any](t *testing.T, jobs []J, cmd *exec.Cmd, env ...string) {
	t.Helper()
	var in, log bytes.Buffer
	for _, j := range jobs {
		require.NoError(t, json.NewEncoder(&in).Encode(j))
	}
	cmd.Stdin, cmd.Stderr = &in, &log
	cmd.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "TZ=UTC"), env...)
	out, err := cmd.Output()
	require.NoError(t, err, log.String())
	var wrong []string
	require.NoError(t, json.Unmarshal(out, &wrong), string(out))
	assert.Empty(t, wrong)
}

// corpusOf are the cells for a writer. DuckDB chooses encodings itself.
func corpusOf(writer string) (out []rewritetest.Cell) {
	seen := make(map[rewritetest.Cell]bool)
	for _, c := range corpusCells() {
		if writer == "DuckDB" {
			c.Encoding = "chosen"
		}
		if !seen[c] {
			seen[c] = true
			out = append(out, c)
		}
	}

	return out
}

// TestCorpusOfOtherWriters has PyArrow and DuckDB write files, rewrites them with
// both engines, and has PyArrow and DuckDB read what came out.
func TestCorpusOfOtherWriters(t *testing.T) {
	for _, writer := range []string{"PyArrow", "DuckDB"} {
		t.Run(writer, func(t *testing.T) {
			dir := t.TempDir()
			var writes, reads []corpusJob
			for i, cell := range corpusOf(writer) {
				for n := range 2 {
					source := filepath.Join(dir, fmt.Sprintf("%s-%d-plain.parquet", cell, n))
					rec, err := rewritetest.CorpusBatch(rewritetest.CorpusSchema(), cell.Nulls, 30+40*n, uint64(10*i+n))
					require.NoError(t, err)
					raw, err := rewritetest.WriteCell(rewritetest.Cell{Version: "v1", Encoding: "plain", Codec: "none"}, rec)
					require.NoError(t, err)
					require.NoError(t, os.WriteFile(source, raw, 0o600))
					writes = append(writes, corpusJob{
						Do: writer, Source: source, Target: strings.Replace(source, "-plain", "", 1),
						Version: cell.Version, Encoding: cell.Encoding, Codec: cell.Codec,
					})
				}
			}
			runCorpus(t, writes)
			for i, cell := range corpusOf(writer) {
				job := rewriteForeign(t, cell.String(), []string{writes[2*i].Target, writes[2*i+1].Target})
				job.Encoding = cell.Encoding
				reads = append(reads, job)
			}
			runCorpus(t, reads)
		})
	}
}

func rewriteForeign(t *testing.T, name string, paths []string) corpusJob {
	t.Helper()
	job := corpusJob{Do: "compare", Name: name, Inputs: paths}
	e := newEnv(t, rewritetest.CorpusSchema(), *iceberg.UnpartitionedSpec, nil)
	for n, path := range paths {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		e.addRaw(raw, int64(30+40*n))
	}
	tbl, plan := e.load(), e.plan(PlanOptions{MinInputFiles: 2})
	require.Len(t, plan.Groups, 1, plan.Reason)
	slices.SortFunc(plan.Groups[0].Files, func(a, b File) int { return strings.Compare(a.Data.FilePath(), b.Data.FilePath()) })
	general := rewriteWith(t, tbl, plan, Options{Engine: EngineGeneral})[0]
	spliced := rewriteWith(t, tbl, plan, Options{Engine: EngineSplice, Verify: true})[0]
	assert.Equal(t, EngineSplice, spliced.Engine.Name, "%s: %s: %s", name, spliced.Engine.Reason, spliced.Engine.Detail)
	assert.Zero(t, spliced.Engine.Pages.Decoded, name)
	t.Logf("%s: %+v", name, spliced.Engine.Pages)
	assert.Equal(t, inOrder(t, tbl, general.Outputs), inOrder(t, tbl, spliced.Outputs), name)
	sameMetrics(t, general.Outputs, spliced.Outputs)
	for _, df := range general.Outputs {
		job.General = append(job.General, strings.TrimPrefix(df.FilePath(), "file://"))
	}
	for _, df := range spliced.Outputs {
		job.Spliced = append(job.Spliced, strings.TrimPrefix(df.FilePath(), "file://"))
	}

	return job
}

// TestCorpusOfPyArrowsOwnFiles takes the files that come inside the package.
func TestCorpusOfPyArrowsOwnFiles(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(testenv.Tool(t, "engines-python"), "lib/python*/site-packages/pyarrow/tests/data/parquet/*.parquet"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	for _, path := range found {
		assert.Equal(t, "spliced", verdict(t, path), path)
	}
}
