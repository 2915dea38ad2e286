//go:build bench

package rewrite

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/table/compaction"
	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
)

const (
	benchDir    = "REWRITE_BENCH_DIR"
	benchEngine = "REWRITE_BENCH_ENGINE"
	benchTarget = 128 << 20
	// The other engines, beside those of this package.
	libraryEngine = "iceberg-go"
	duckEngine    = "DuckDB"
	copyEngine    = "cp"
)

// duckCopy has DuckDB write all files of a folder into one, and prints what it
// took: wall and processor time in seconds, and peak memory in MiB.
const duckCopy = `
import duckdb, resource, sys, time
source, target, threads = sys.argv[1:]
db = duckdb.connect()
db.execute(f"SET threads={threads}")
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
before, start = cpu(), time.time()
db.execute(f"COPY (FROM read_parquet('{source}')) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
print("measured", time.time() - start, cpu() - before, flush=True)
`

// TestBenchEngines runs the engines one after the other, round by round, each in
// a process of its own, and prints medians and the medians of the ratios within
// a round: how many times longer than the splice engine each one took.
func TestBenchEngines(t *testing.T) {
	rounds, mb := number(t, "REWRITE_BENCH_ROUNDS", 3), number(t, "REWRITE_BENCH_MB", 400)
	engines := []string{libraryEngine, duckEngine, EngineGeneral, EngineSplice, copyEngine}
	if only := os.Getenv("REWRITE_BENCH_ENGINES"); only != "" {
		engines = strings.Split(only, ",")
	}
	for _, set := range benchSets() {
		if only := os.Getenv("REWRITE_BENCH_SET"); only != "" && only != set.name {
			continue
		}
		e, total := benchTable(t, set, mb)
		took := map[string][]sample{}
		for range rounds {
			for _, engine := range engines {
				took[engine] = append(took[engine], benchRun(t, e, engine))
			}
		}
		fmt.Printf("%s, %d MB, %d rounds, %d threads\n", set.name, total/1e6, rounds, runtime.GOMAXPROCS(0))
		for _, engine := range engines {
			fmt.Println(benchLine(engine, total, took[engine], took[EngineSplice]))
		}
	}
}

// benchLine is what a person reads of one engine.
func benchLine(engine string, total int, runs, splice []sample) string {
	of := func(value func(sample) float64) float64 {
		return median(runs, func(i int) float64 { return value(runs[i]) })
	}
	wall := of(func(s sample) float64 { return s.wall })
	line := fmt.Sprintf("  %-11s %6.0f MB/s  wall %6.2f s  CPU %6.2f s  RSS %5.0f MB", engine, float64(total)/1e6/wall, wall,
		of(func(s sample) float64 { return s.cpu }), of(func(s sample) float64 { return s.rss }))
	if out := of(func(s sample) float64 { return s.out }); out > 0 {
		line += fmt.Sprintf("  out %6.1f MB", out)
	}
	if len(splice) == len(runs) {
		line += fmt.Sprintf("  wall x%.1f  CPU x%.1f", median(runs, func(i int) float64 { return runs[i].wall / splice[i].wall }),
			median(runs, func(i int) float64 { return runs[i].cpu / splice[i].cpu }))
	}

	return line
}

// sample is one run: seconds, MB of memory, MB written (0 when it is not told).
type sample struct{ wall, cpu, rss, out float64 }

func median[T any](s []T, value func(i int) float64) float64 {
	out := make([]float64, len(s))
	for i := range s {
		out[i] = value(i)
	}
	slices.Sort(out)

	return out[len(out)/2]
}

func number(t *testing.T, name string, def int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)

	return n
}

// benchRun measures an engine in a process of its own. A run of this program or
// of DuckDB measures itself, so that the start of the process is left out.
func benchRun(t *testing.T, e *env, engine string) sample {
	t.Helper()
	var child *exec.Cmd
	target := filepath.Join(t.TempDir(), "out")
	switch engine {
	case copyEngine:
		child = exec.CommandContext(t.Context(), "cp", "-r", benchData(e.dir), target)
	case duckEngine:
		child = exec.CommandContext(t.Context(), testenv.Tool(t, "engines-python", "bin", "python"), "-c", duckCopy,
			filepath.Join(benchData(e.dir), "small-*.parquet"), target, strconv.Itoa(runtime.GOMAXPROCS(0)))
	default:
		args := []string{"-test.run=^TestBenchChild$", "-test.count=1", "-test.v"}
		if dir := os.Getenv("REWRITE_BENCH_PROFILE"); dir != "" {
			args = append(args, "-test.cpuprofile="+filepath.Join(dir, engine+".cpu"), "-test.memprofile="+filepath.Join(dir, engine+".mem"))
		}
		child = exec.CommandContext(t.Context(), os.Args[0], args...)
	}
	child.Env = append(os.Environ(), benchDir+"="+e.dir, benchEngine+"="+engine)
	start := time.Now()
	out, err := child.CombinedOutput()
	s := sample{wall: time.Since(start).Seconds()}
	require.NoError(t, err, string(out))
	usage, ok := child.ProcessState.SysUsage().(*syscall.Rusage)
	require.True(t, ok)
	s.rss = float64(usage.Maxrss) / 1024
	s.cpu = time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
	for line := range bytes.Lines(out) {
		if text, found := strings.CutPrefix(string(line), "measured "); found {
			s.out = 0
			_, err := fmt.Sscanf(strings.TrimSpace(text)+" 0", "%f %f %f", &s.wall, &s.cpu, &s.out)
			require.NoError(t, err)
		}
	}
	if engine == duckEngine {
		info, err := os.Stat(target)
		require.NoError(t, err)
		s.out = float64(info.Size()) / 1e6
	}
	require.NoError(t, os.RemoveAll(target))

	return s
}

func cpuSeconds(t *testing.T) float64 {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))

	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// TestBenchChild is the process that is measured; it does nothing unless
// TestBenchEngines starts it.
func TestBenchChild(t *testing.T) {
	dir := os.Getenv(benchDir)
	if dir == "" {
		return
	}
	tbl := openIn(t, dir).load()
	before, start := cpuSeconds(t), time.Now()
	if engine := os.Getenv(benchEngine); engine == libraryEngine {
		benchLibrary(t, tbl)
	} else {
		benchOurs(t, tbl, engine)
	}
	wall, cpu, out := time.Since(start).Seconds(), cpuSeconds(t)-before, 0.0
	entries, err := os.ReadDir(benchData(dir))
	require.NoError(t, err)
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), "small-") {
			info, err := entry.Info()
			require.NoError(t, err)
			out += float64(info.Size()) / 1e6
			from := filepath.Join(benchData(dir), entry.Name())
			if keep := os.Getenv(benchKeep); keep != "" {
				require.NoError(t, os.Rename(from, filepath.Join(keep, entry.Name())))
			} else {
				require.NoError(t, os.Remove(from))
			}
		}
	}
	fmt.Printf("measured %f %f %f\n", wall, cpu, out)
}

// benchOurs plans, rewrites, proves and stages.
func benchOurs(t *testing.T, tbl *table.Table, engine string) {
	t.Helper()
	plan, err := NewPlan(t.Context(), tbl, PlanOptions{TargetFileSize: benchTarget})
	require.NoError(t, err)
	r := New(Options{Engine: engine})
	results, err := r.Rewrite(t.Context(), tbl, plan.Groups)
	require.NoError(t, err)
	for _, res := range results {
		require.NoError(t, res.Err)
		require.Equal(t, engine, res.Engine.Name, res.Engine.Reason)
	}
	proof, err := r.Prove(t.Context(), tbl, plan, results)
	require.NoError(t, err)
	require.NoError(t, Stage(t.Context(), tbl.NewTransaction(), results, proof, nil))
}

// benchLibrary plans, rewrites and stages with the library's own calls.
func benchLibrary(t *testing.T, tbl *table.Table) {
	t.Helper()
	cfg := compaction.DefaultConfig()
	cfg.TargetFileSizeBytes, cfg.MinFileSizeBytes, cfg.MaxFileSizeBytes = benchTarget, benchTarget*3/4, benchTarget*9/5
	plan, err := compaction.Analyze(t.Context(), tbl, cfg)
	require.NoError(t, err)
	var groups []table.CompactionTaskGroup
	for _, g := range plan.Groups {
		groups = append(groups, table.CompactionTaskGroup{PartitionKey: g.PartitionKey, Tasks: g.Tasks, TotalSizeBytes: g.TotalSizeBytes})
	}
	require.NotEmpty(t, groups)
	_, err = tbl.NewTransaction().RewriteDataFiles(t.Context(), groups, table.RewriteDataFilesOptions{})
	require.NoError(t, err)
}
