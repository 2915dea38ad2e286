//go:build bench

package rewrite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
)

// benchKeep names the folder to which a measured run moves its outputs; without
// it they are removed.
const benchKeep = "REWRITE_BENCH_KEEP"

// duckWrite is how DuckDB rewrites the table for its readers.
const duckWrite = `
import duckdb, sys
source, target = sys.argv[1:]
duckdb.execute(f"COPY (FROM read_parquet('{source}')) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
`

// readAll asks the same of the files of every writer, in turns, and prints one
// JSON object for each writer, reader and question: the seconds of each round, by
// the clock and of processor time, and the answer, which has to be the same for
// all of them.
const readAll = `
import glob, json, sys, time
import duckdb, pyarrow as pa, pyarrow.compute as pc, pyarrow.dataset as ds
rounds, threads, folders = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
pa.set_cpu_count(threads)
db = duckdb.connect(config={"threads": threads})
for setting in ("enable_object_cache", "enable_external_file_cache", "parquet_metadata_cache"):
    try:
        db.execute(f"SET {setting} = false")
    except duckdb.Error:
        pass  # This version has no such cache.
files = {folder: sorted(glob.glob(folder + "/*.parquet")) for folder in folders}
rows, = db.execute(f"SELECT count(*) FROM read_parquet({files[folders[0]]})").fetchone()
first = rows // 3
key, = db.execute(f"SELECT key FROM read_parquet({files[folders[0]]}) WHERE id = {first}").fetchone()
every = """count(*), min(id), epoch_us(max(ts)), max(region), max(status), max(key), max(price), max(score), max(lat), sum(amount), sum(qty),
    count(*) FILTER (flag), sum(len(tags))"""
wanted = "count(*), min(id), max(key), max(price), sum(amount)"
few = ["id", "key", "price", "amount"]
chosen = (ds.field("id") >= first) & (ds.field("id") < first + 1000)

def duck(what, where=""):
    return lambda folder: db.execute(f"SELECT {what} FROM read_parquet({files[folder]}) {where}").fetchall()

def arrow_all(folder):
    counted, largest = 0, {}
    for batch in ds.dataset(files[folder]).to_batches():
        counted += len(batch)
        for name, column in zip(batch.schema.names, batch.columns):
            if name != "tags" and len(batch):
                value = pc.max(column).as_py()
                largest[name] = value if largest.get(name) is None else max(value, largest[name])
            elif name == "tags":
                largest[name] = largest.get(name, 0) + len(column.flatten())
    return counted, sorted(largest.items())

def arrow_some(condition):
    def ask(folder):
        found = ds.dataset(files[folder]).to_table(columns=few, filter=condition)
        return len(found), pc.min(found["id"]).as_py(), pc.max(found["key"]).as_py(), pc.sum(found["amount"]).as_py()
    return ask

questions = {
    ("DuckDB", "full scan"): duck(every),
    ("DuckDB", "range of ids"): duck(wanted, f"WHERE id >= {first} AND id < {first + 1000}"),
    ("DuckDB", "one key"): duck(wanted, f"WHERE key = '{key}'"),
    ("PyArrow", "full scan"): arrow_all,
    ("PyArrow", "range of ids"): arrow_some(chosen),
    ("PyArrow", "one key"): arrow_some(ds.field("key") == key),
}
for (reader, name), ask in questions.items():
    seconds = {folder: [] for folder in folders}
    cpu = {folder: [] for folder in folders}
    answers = {folder: repr(ask(folder)) for folder in folders}  # Not counted: it warms what there is to be warmed.
    for turn in range(rounds):
        for folder in folders[turn % len(folders):] + folders[:turn % len(folders)]:
            start, used = time.perf_counter(), time.process_time()
            ask(folder)
            seconds[folder].append(time.perf_counter() - start)
            cpu[folder].append(time.process_time() - used)
    for folder in folders:
        print("read " + json.dumps({"folder": folder, "reader": reader, "question": name, "seconds": seconds[folder],
                                    "cpu": cpu[folder], "answer": answers[folder]}), flush=True)
`

// reading is what one reader took for one question to one writer's files.
type reading struct {
	Folder, Reader, Question, Answer string
	Seconds, CPU                     []float64
}

// TestBenchReaders compares how fast other programs read what the engines and
// DuckDB make of the same table. It prints medians, the medians of the ratios
// within a round, and sizes, and asserts only that all files hold the same.
func TestBenchReaders(t *testing.T) {
	rounds, mb := number(t, "READERS_BENCH_ROUNDS", 9), number(t, "READERS_BENCH_MB", 400)
	writers := []string{EngineSplice, EngineGeneral, duckEngine}
	for _, set := range benchSets() {
		if only := os.Getenv("REWRITE_BENCH_SET"); set.dictionary || (only != "" && only != set.name) {
			continue
		}
		e, total := benchTable(t, set, mb)
		fmt.Printf("%s, %d MB, %d rounds, %d threads\n", set.name, total/1e6, rounds, runtime.GOMAXPROCS(0))
		folders := make([]string, len(writers))
		sizes := make([]float64, len(writers))
		for i, writer := range writers {
			folders[i] = filepath.Join(t.TempDir(), writer)
			require.NoError(t, os.Mkdir(folders[i], 0o755))
			benchWrite(t, e, writer, folders[i])
			sizes[i] = folderSize(t, folders[i])
		}
		fmt.Printf("  %-21s", "size, MB")
		for i, writer := range writers {
			fmt.Printf("  %s %7.1f (x%.3f)", writer, sizes[i], sizes[0]/sizes[i])
		}
		fmt.Println()
		readings := benchRead(t, rounds, folders)
		require.NotEmpty(t, readings)
		for len(readings) > 0 {
			of := readings[:len(writers)]
			readings = readings[len(writers):]
			fmt.Printf("  %-7s %-13s", of[0].Reader, of[0].Question)
			for i, writer := range writers {
				require.Equal(t, of[0].Answer, of[i].Answer, "%s of %s and %s", of[0].Question, writers[0], writer)
				fmt.Printf("  %s %6.3f s, CPU %6.3f s", writer, median(of[i].Seconds, func(n int) float64 { return of[i].Seconds[n] }),
					median(of[i].CPU, func(n int) float64 { return of[i].CPU[n] }))
				if i > 0 {
					fmt.Printf(" (x%.2f, CPU x%.2f)", median(of[i].Seconds, func(n int) float64 { return of[0].Seconds[n] / of[i].Seconds[n] }),
						median(of[i].CPU, func(n int) float64 { return of[0].CPU[n] / of[i].CPU[n] }))
				}
			}
			fmt.Println()
		}
	}
}

// benchWrite has a writer rewrite the table into files of a folder.
func benchWrite(t *testing.T, e *env, writer, folder string) {
	t.Helper()
	if writer != duckEngine {
		t.Setenv(benchKeep, folder)
		benchRun(t, e, writer)

		return
	}
	out, err := exec.CommandContext(t.Context(), testenv.Tool(t, "engines-python", "bin", "python"), "-c", duckWrite,
		filepath.Join(benchData(e.dir), "small-*.parquet"), filepath.Join(folder, "all.parquet")).CombinedOutput()
	require.NoError(t, err, string(out))
}

func folderSize(t *testing.T, folder string) (mb float64) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.NotEmpty(t, entries)
	for _, entry := range entries {
		info, err := entry.Info()
		require.NoError(t, err)
		mb += float64(info.Size()) / 1e6
	}

	return mb
}

// benchRead returns the readings, those of one question next to each other and in
// the order of the folders.
func benchRead(t *testing.T, rounds int, folders []string) []reading {
	t.Helper()
	args := append([]string{"-c", readAll, strconv.Itoa(rounds), strconv.Itoa(runtime.GOMAXPROCS(0))}, folders...)
	child := exec.CommandContext(t.Context(), testenv.Tool(t, "engines-python", "bin", "python"), args...)
	child.Stderr = os.Stderr
	out, err := child.Output()
	require.NoError(t, err)
	var all []reading
	for line := range bytes.Lines(out) {
		if text, found := bytes.CutPrefix(line, []byte("read ")); found {
			var r reading
			require.NoError(t, json.Unmarshal(text, &r))
			all = append(all, r)
		}
	}
	require.Zero(t, len(all)%len(folders))

	return all
}
