//go:build bench

package rewrite

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/table/compaction"
	"github.com/stretchr/testify/require"
)

const (
	benchDir    = "REWRITE_BENCH_DIR"
	benchEngine = "REWRITE_BENCH_ENGINE"
	benchTarget = 128 << 20
)

// benchSets are tables of many small files, by rows of a file. REWRITE_BENCH_MB
// says how much of each is made.
var benchSets = map[string]struct {
	rows       int
	dictionary bool // version 1 pages, a dictionary for every column
}{
	"1MiB files": {rows: 21_500}, "64KiB files": {rows: 1_150}, "dictionaries": {rows: 21_500, dictionary: true},
}

// TestBenchEngines runs the engines one after the other, round by round, each in
// a process of its own, and prints medians and the medians of the ratios.
func TestBenchEngines(t *testing.T) {
	rounds, mb := number(t, "REWRITE_BENCH_ROUNDS", 3), number(t, "REWRITE_BENCH_MB", 100)
	engines := []string{"iceberg-go", EngineGeneral, EngineSplice}
	for name, set := range benchSets {
		e := newEnv(t, benchSchema(), *iceberg.UnpartitionedSpec, nil)
		total := 0
		var files []iceberg.DataFile
		sc := e.load().Schema()
		for seed := 0; total < mb<<20; seed++ {
			raw := benchFile(t, sc, set.rows, uint64(seed), set.dictionary)
			total += len(raw)
			files = append(files, e.putRaw(raw, int64(set.rows)))
		}
		e.commit(func(tx *table.Transaction) {
			require.NoError(t, tx.AddDataFiles(t.Context(), files, nil, table.WithoutAutoNameMapping()))
		})
		took := map[string][]sample{}
		for range rounds {
			for _, engine := range engines {
				took[engine] = append(took[engine], benchRun(t, e, engine))
			}
		}
		fmt.Printf("%s, %d MB, %d rounds\n", name, total/1e6, rounds)
		for _, engine := range engines {
			base := took["iceberg-go"]
			fmt.Printf("  %-11s %6.0f MB/s  wall %6.2f s  CPU %6.2f s  RSS %5.0f MB  wall x%.1f  CPU x%.1f\n", engine,
				float64(total)/1e6/median(took[engine], func(i int) float64 { return took[engine][i].wall }),
				median(took[engine], func(i int) float64 { return took[engine][i].wall }),
				median(took[engine], func(i int) float64 { return took[engine][i].cpu }),
				median(took[engine], func(i int) float64 { return took[engine][i].rss }),
				median(base, func(i int) float64 { return base[i].wall / took[engine][i].wall }),
				median(base, func(i int) float64 { return base[i].cpu / took[engine][i].cpu }))
		}
	}
}

type sample struct{ wall, cpu, rss float64 }

func median(s []sample, value func(i int) float64) float64 {
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

func benchRun(t *testing.T, e *env, engine string) sample {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBenchChild$", "-test.count=1", "-test.v")
	child.Env = append(os.Environ(), benchDir+"="+e.dir, benchEngine+"="+engine)
	out, err := child.CombinedOutput()
	require.NoError(t, err, string(out))
	var s sample
	for line := range bytes.Lines(out) {
		if text, found := strings.CutPrefix(string(line), "measured "); found {
			_, err := fmt.Sscanf(text, "%f %f", &s.wall, &s.cpu)
			require.NoError(t, err)
		}
	}
	require.Positive(t, s.wall)
	usage, ok := child.ProcessState.SysUsage().(*syscall.Rusage)
	require.True(t, ok)
	s.rss = float64(usage.Maxrss) / 1024

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
	if engine := os.Getenv(benchEngine); engine == "iceberg-go" {
		benchLibrary(t, tbl)
	} else {
		benchOurs(t, tbl, engine)
	}
	fmt.Printf("measured %f %f\n", time.Since(start).Seconds(), cpuSeconds(t)-before)
}

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
		fmt.Printf("%+v, %d bytes out\n", res.Engine.Pages, res.BytesOut)
	}
	_, err = r.Prove(t.Context(), tbl, plan, results)
	require.NoError(t, err)
	_, err = r.RemoveOutputs(t.Context(), tbl, results)
	require.NoError(t, err)
}

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

// benchSchema is like an event table: keys, times, few and many different
// values, and a list.
func benchSchema() *iceberg.Schema {
	p := iceberg.PrimitiveTypes

	return iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: p.Int64}, iceberg.NestedField{ID: 2, Name: "ts", Type: p.TimestampTz},
		iceberg.NestedField{ID: 3, Name: "region", Type: p.String}, iceberg.NestedField{ID: 4, Name: "status", Type: p.String},
		iceberg.NestedField{ID: 5, Name: "key", Type: p.String}, iceberg.NestedField{ID: 6, Name: "price", Type: p.Float64},
		iceberg.NestedField{ID: 7, Name: "score", Type: p.Float64}, iceberg.NestedField{ID: 8, Name: "lat", Type: p.Float64},
		iceberg.NestedField{ID: 9, Name: "amount", Type: iceberg.DecimalTypeOf(18, 4)}, iceberg.NestedField{ID: 10, Name: "qty", Type: p.Int32},
		iceberg.NestedField{ID: 11, Name: "flag", Type: p.Bool},
		iceberg.NestedField{ID: 12, Name: "tags", Type: &iceberg.ListType{ElementID: 13, Element: p.String}})
}

func benchFile(t *testing.T, sc *iceberg.Schema, rows int, seed uint64, dictionary bool) []byte {
	t.Helper()
	as, err := table.SchemaToArrowSchemaWithOptions(sc, table.ArrowSchemaOptions{IncludeFieldIDs: true})
	require.NoError(t, err)
	rnd := rand.New(rand.NewPCG(seed, 1))
	b := array.NewRecordBuilder(memory.DefaultAllocator, as)
	defer b.Release()
	text := func(c int, v string) { b.Field(c).(interface{ Append(string) }).Append(v) }
	for i := range rows {
		id := int64(seed)*int64(rows) + int64(i)
		b.Field(0).(*array.Int64Builder).Append(id)
		b.Field(1).(*array.TimestampBuilder).Append(arrow.Timestamp(1_700_000_000_000_000 + id*1000 + rnd.Int64N(900)))
		text(2, fmt.Sprintf("region-%d", rnd.IntN(12)))
		text(3, []string{"new", "paid", "sent", "done", "back"}[rnd.IntN(5)])
		text(4, fmt.Sprintf("%016x-%04x-%016x", rnd.Uint64(), rnd.IntN(1<<16), rnd.Uint64()))
		b.Field(5).(*array.Float64Builder).Append(math.Round(rnd.Float64()*1e5) / 100)
		if rnd.IntN(10) == 0 {
			b.Field(6).AppendNull()
		} else {
			b.Field(6).(*array.Float64Builder).Append(rnd.Float64())
		}
		b.Field(7).(*array.Float64Builder).Append(math.Round(rnd.Float64()*9e6) / 1e5)
		require.NoError(t, b.Field(8).AppendValueFromString(fmt.Sprintf("%d.%04d", rnd.IntN(100000), rnd.IntN(10000))))
		if rnd.IntN(5) == 0 {
			b.Field(9).AppendNull()
		} else {
			b.Field(9).(*array.Int32Builder).Append(rnd.Int32N(1000))
		}
		b.Field(10).(*array.BooleanBuilder).Append(rnd.IntN(3) == 0)
		list := b.Field(11).(*array.ListBuilder)
		list.Append(true)
		for range rnd.IntN(4) {
			list.ValueBuilder().(interface{ Append(string) }).Append(fmt.Sprintf("tag-%d", rnd.IntN(200)))
		}
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	props := []parquet.WriterProperty{parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDataPageVersion(parquet.DataPageV2)}
	if dictionary {
		props[1] = parquet.WithDataPageVersion(parquet.DataPageV1)
	} else {
		ps, err := pqarrow.ToParquet(as, parquet.NewWriterProperties(props...), pqarrow.DefaultWriterProps())
		require.NoError(t, err)
		for i := range ps.NumColumns() {
			props = append(props, parquet.WithDictionaryCostFallbackFor(ps.Column(i).Path(), true))
		}
	}
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(as, &out, parquet.NewWriterProperties(props...), pqarrow.DefaultWriterProps())
	require.NoError(t, err)
	require.NoError(t, w.Write(rec))
	require.NoError(t, w.Close())

	return out.Bytes()
}
