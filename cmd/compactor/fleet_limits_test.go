package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"compactor/internal/catalog"
	"compactor/internal/tabletest"
	"compactor/internal/testenv"
	"compactor/pkg/maintenance"
)

// After --max-duration no round and no table is begun; what was begun is ended,
// what is left is reported, and that is no failure.
func TestMaxDurationBeginsNothingMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.ident, table.Identifier{w.ident[0], "second"}
	before := tabletest.Rows(t, tabletest.FragmentAtOnce(t, w.create(), 40, 10))
	w.ident = second
	tabletest.FragmentAtOnce(t, w.create(), 6, 1)
	w.ident = first

	var passed atomic.Int64
	w.now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	w.catalog.Handle(testenv.Rule{
		Match: func(r *http.Request) bool { return w.isCommit()(r.Method, r.URL.Path) },
		// The commit of the first round is under way when the time is up.
		Before: func(*http.Request) { passed.Store(int64(2 * time.Hour)) },
	})
	size := tabletest.LargestFile(t, w.load())
	r := w.compactor("run", "--config", w.config, "-o", "json", "--max-duration", "1h", "--target-file-size", itoa(10*size), "--min-file-size", itoa(2*size),
		"--parallel-groups", "1", w.name(), strings.Join(second, "."))
	require.Equal(t, 0, r.code, r.stderr)
	doc := r.fleet(t)
	require.Len(t, doc.Tables, 2)
	require.Equal(t, w.name(), doc.Tables[0].Table, "the one with more small bytes goes first")
	compact := doc.Tables[0].Steps[0]
	require.Len(t, doc.Tables[0].Steps, 1, "no further step begins")
	require.Equal(t, "done", compact.Status)
	require.Len(t, compact.Rounds, 1)
	require.NotNil(t, compact.Rounds[0].Snapshot)
	require.Positive(t, compact.GroupsLeft)
	require.Contains(t, compact.Reason, "--max-duration")
	require.Equal(t, maintenance.StatusLeft, doc.Tables[0].Status)
	require.Equal(t, maintenance.StatusLeft, doc.Tables[1].Status)
	require.Empty(t, doc.Tables[1].Steps)
	require.Contains(t, doc.Tables[1].Reason, "--max-duration")
	require.Equal(t, 1, w.commits())
	require.Equal(t, before, tabletest.Rows(t, w.load()))
	require.True(t, w.claimFree())
}

// A wait for the claim that --max-duration cuts short says nothing about the
// holder: the table is left, not held.
func TestMaxDurationEndsAWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 6, 1)
	held, err := w.openClaimer().Acquire(t.Context(), w.key(), acquireNow())
	require.NoError(t, err)
	began := time.Now()
	w.now = func() time.Time { return began } // However slow the machine is, the wait has all of the second.
	r := w.compact("--max-duration", "1s")
	require.NoError(t, held.Release(t.Context()))
	require.Equal(t, 0, r.code, r.stderr)
	step := r.step(t)
	require.Equal(t, "left", step.Status)
	require.Contains(t, step.Reason, "writer@test")
	require.Zero(t, w.commits())
}

// Requests to the store are spread over time, whichever table they are for.
func TestRateLimitSpreadsRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 20, 1)
	const perSecond = 10
	started := time.Now()
	r := w.compact("--rate-limit", itoa(perSecond))
	took := time.Since(started)
	require.Equal(t, 0, r.code, r.stderr)
	requests := len(w.s3.Requests())
	require.Greater(t, requests, 2*perSecond)
	// A second's worth may go at once; a busy machine only makes it take longer.
	require.GreaterOrEqual(t, took, time.Duration(requests-perSecond-1)*time.Second/perSecond, "%d requests", requests)
}

// Tables that are worked on side by side share one bandwidth.
func TestTheBandwidthIsShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.ident, table.Identifier{w.ident[0], "second"}
	rows := map[string][]string{}
	for _, ident := range []table.Identifier{first, second} {
		w.ident = ident
		rows[w.name()] = tabletest.Rows(t, tabletest.FragmentAtOnce(t, w.create(props("write.parquet.compression-codec", "uncompressed")), 6, 4500))
	}
	w.s3.ResetRequests()
	started := time.Now()
	r := w.compactor("compact", "--config", w.config, "-o", "json", "--parallel", "2", "--memory", "1GiB", "--bandwidth", "1MiB", first[0]+".*")
	took := time.Since(started)
	require.Equal(t, 0, r.code, r.stderr)
	bytes := int64(0)
	for _, q := range w.s3.Requests() {
		bytes += q.BodyBytes + q.AnswerBytes
	}
	require.Greater(t, bytes, int64(2<<20))
	// A quarter of a second's worth goes at once; a busy machine only makes it take longer.
	require.GreaterOrEqual(t, took, time.Duration(bytes-1<<18)*time.Second/(1<<20), "%d bytes", bytes)
	for _, ident := range []table.Identifier{first, second} {
		w.ident = ident
		require.Len(t, tabletest.Files(t, w.load()), 1)
		require.Equal(t, rows[w.name()], tabletest.Rows(t, w.load()))
	}
}

// The parts that tables get of the memory never sum up to more than the budget.
func TestTheMemoryBudgetIsShared(t *testing.T) {
	t.Parallel()
	for _, budget := range []int64{256 << 20, 300 << 20, 1 << 30, 4 << 30} {
		for _, asked := range []int{1, 2, 7, 64} {
			for _, tables := range []int{0, 1, 3, 200} {
				s := &session{memory: budget, tables: asked, parallel: 16, log: zerolog.Nop()}
				s.split(tables)
				require.LessOrEqual(t, s.tables, max(1, min(asked, tables)))
				require.Positive(t, s.tables)
				sum := int64(s.tables)*(s.memory-programMemory) + programMemory
				require.LessOrEqual(t, sum, budget)
				require.Greater(t, sum, budget-int64(s.tables), "all of it is given away")
				if s.tables > 1 {
					require.GreaterOrEqual(t, s.memory-programMemory, int64(tableMemory))
				}
				require.Greater(t, s.memory, reserved(s.parallel), "something is left for the rewrite")
			}
		}
	}
}

// embedded is a catalog in a folder with tables at several levels.
func embedded(t *testing.T, tables ...string) (config string, cat *catalog.Catalog) {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, env: map[string]string{}, config: filepath.Join(dir, "compactor.yaml")}
	writeText(t, w.config, "catalog: {type: sql, uri: "+filepath.Join(dir, "catalog.db")+", warehouse: 'file://"+dir+"/lake'}\n"+
		"claim: {mode: file, dir: "+dir+"}\n")
	cat, err := catalog.Open(t.Context(), catalog.Options{Catalog: catalog.Settings{
		Type: catalog.TypeSQL, URI: filepath.Join(dir, "catalog.db"), Warehouse: "file://" + dir + "/lake",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cat.Close()) })
	for _, name := range tables {
		ident, err := parseTable(name)
		require.NoError(t, err)
		tabletest.Create(cat.Context(t.Context()), t, cat.Client(), ident, iceberg.NewSchema(0))
	}

	return w.config, cat
}

// A namespace that cannot be listed is reported and does not stop the others;
// while it is unknown, a glob without a match is no mistake.
func TestANamespaceThatCannotBeListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 6, 1)
	closed := w.ident[0] + "_closed"
	require.NoError(t, w.direct.Client().CreateNamespace(w.direct.Context(t.Context()), table.Identifier{closed}, nil))
	w.catalog.Handle(testenv.Rule{
		Match:  func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/namespaces/"+closed+"/tables") },
		Action: testenv.AnswerWithoutForward(http.StatusForbidden, `{"error":{"message":"not yours","type":"ForbiddenException","code":403}}`),
	})
	r := w.compactor("compact", "--config", w.config, "-o", "json", w.ident[0]+"*", closed+".x*")
	require.Equal(t, 1, r.code, r.stderr)
	doc := r.fleet(t)
	require.Equal(t, map[string]int{w.name(): 0, closed + ".*": 1}, doc.codes())
	require.Equal(t, "done", doc.Tables[0].Steps[0].Status)
	require.Contains(t, doc.Tables[1].Error, "privileges")
	require.Len(t, tabletest.Files(t, w.load()), 1)
}
