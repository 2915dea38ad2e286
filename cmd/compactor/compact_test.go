package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	icebergcatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/internal/testenv"
	"compactor/pkg/claim"
)

func props(kv ...string) icebergcatalog.CreateTableOpt {
	p := iceberg.Properties{}
	for i := 0; i+1 < len(kv); i += 2 {
		p[kv[i]] = kv[i+1]
	}

	return icebergcatalog.WithProperties(p)
}

func TestCompact200FilesUnderOneClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.FragmentAtOnce(t, w.create(), 200, 10)
	before := tabletest.Rows(t, tbl)
	require.Len(t, before, 2000)
	parent := tbl.CurrentSnapshot().SnapshotID
	properties := tbl.Properties()

	r := w.compact("--max-hold", "0", "--verify")
	require.Equal(t, 0, r.code, r.stderr)
	step := r.step(t)
	require.Equal(t, "done", step.Status)
	require.Len(t, step.Rounds, 1, "one claim")

	after := w.load()
	require.Equal(t, before, tabletest.Rows(t, after))
	require.Len(t, tabletest.Files(t, after), 1)
	snap := after.CurrentSnapshot()
	require.Equal(t, table.OpReplace, snap.Summary.Operation)
	require.Equal(t, parent, *snap.ParentSnapshotID, "the parent is the snapshot loaded under the claim")
	require.Equal(t, parent, *step.Rounds[0].Parent)
	require.NotEmpty(t, snap.Summary.Properties["compactor.run-id"])
	require.Equal(t, "1", snap.Summary.Properties["compactor.round"])
	require.Equal(t, "compactor", snap.Summary.Properties["engine-name"])
	require.Equal(t, 1, w.commits(), "exactly one commit request reached the catalog")
	require.Equal(t, properties, after.Properties(), "no property is set that nobody asked for")
	require.True(t, w.claimFree())
}

// A writer that takes the same claim never meets a conflict, and gets its turn
// between two rounds.
func TestWritersGoBetweenRounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.FragmentAtOnce(t, w.create(), 300, 10)
	var order orderLog
	var waited atomic.Int64
	next := int64(10_000)
	var appended []string
	var mu sync.Mutex
	write := func(claimer claim.Claimer) error {
		c, err := claimer.Acquire(context.Background(), w.key(), claim.AcquireOptions{})
		if err != nil {
			return fmt.Errorf("acquire: %w", err)
		}
		defer func() { _ = c.Release(context.Background()) }() // A lost claim fails the append.
		if c.Waited() > 20*time.Millisecond {
			waited.Add(1)
		}
		tbl, err := w.direct.LoadTable(c.Context(), w.ident)
		if err != nil {
			return fmt.Errorf("load: %w", err)
		}
		mu.Lock()
		id := next
		next++
		mu.Unlock()
		after, err := tabletest.AppendErr(c.Context(), tbl, fmt.Sprintf(`[{"id":%d,"s":"appended"}]`, id))
		if err != nil {
			return fmt.Errorf("append: %w", err)
		}
		order.add(after.CurrentSnapshot().SnapshotID)
		mu.Lock()
		appended = append(appended, fmt.Sprintf("id=%d;s=appended;", id))
		mu.Unlock()

		return nil
	}
	before := tabletest.Rows(t, tbl)
	var writers sync.WaitGroup
	errs := make(chan error, 100)
	for range 4 {
		claimer := w.openClaimer()
		writers.Go(func() {
			for range 25 {
				errs <- write(claimer)
			}
		})
	}
	writing := make(chan struct{})
	go func() { writers.Wait(); close(writing) }()
	var rounds []int64
	for running := true; running; {
		select {
		case <-writing:
			running = false
		default:
		}
		r := w.compact("--max-hold", "1ms", "--target-file-size", "4KiB", "--min-input-files", "2", "--max-rounds", "5")
		require.Equal(t, 0, r.code, r.stderr)
		for _, round := range r.step(t).Rounds {
			if round.Snapshot != nil {
				rounds = append(rounds, *round.Snapshot)
			}
		}
	}
	close(errs)
	for err := range errs {
		require.NoError(t, err, "no append ever meets a conflict")
	}
	after := w.load()
	want := append(slices.Clone(before), appended...)
	slices.Sort(want)
	require.Equal(t, want, tabletest.Rows(t, after), "no row lost")
	require.GreaterOrEqual(t, waited.Load(), int64(50), "appends that really waited")
	chain := history(after)
	require.Equal(t, order.ids, slices.DeleteFunc(slices.Clone(chain), func(id int64) bool { return !slices.Contains(order.ids, id) }),
		"commits in the order in which the claim was granted")
	require.Positive(t, between(chain, rounds, order.ids), "some appends landed between two rounds of the compactor")
	require.Zero(t, w.catalog.Count(func(r testenv.Request) bool { return r.Status == http.StatusConflict }))
}

type orderLog struct {
	mu  sync.Mutex
	ids []int64
}

func (o *orderLog) add(id int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ids = append(o.ids, id)
}

// history lists the snapshots of main, oldest first.
func history(tbl *table.Table) []int64 {
	var ids []int64
	for s := tbl.CurrentSnapshot(); s != nil; {
		ids = append(ids, s.SnapshotID)
		if s.ParentSnapshotID == nil {
			break
		}
		s = tbl.SnapshotByID(*s.ParentSnapshotID)
	}
	slices.Reverse(ids)

	return ids
}

// between counts the appends that have a round before and after them.
func between(chain, rounds, appends []int64) int {
	first, last := -1, -1
	for i, id := range chain {
		if slices.Contains(rounds, id) {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	n := 0
	for i, id := range chain {
		if i > first && i < last && slices.Contains(appends, id) {
			n++
		}
	}

	return n
}

func TestTwoSpellingsOfOneTableAreOneClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 6, 2)
	holder := w.openClaimer()
	held, err := holder.Acquire(context.Background(), w.key(), claim.AcquireOptions{})
	require.NoError(t, err)
	for _, spelling := range []string{w.name(), `"` + w.ident[0] + `".events`, w.ident[0] + `."events"`} {
		r := w.compactor("compact", "--config", w.config, "--output", "json", "--claim-timeout", "300ms", spelling)
		require.Equal(t, 10, r.code, "%s: %s", spelling, r.stdout)
		require.Contains(t, r.stdout, "writer@test", "the holder is named")
	}
	require.NoError(t, held.Release(context.Background()))
	require.Equal(t, 0, w.compact().code)
}

// Plain SQL, as the README prints it, excludes the program and is excluded.
// A run without a claim says so once, and so does its dry run.
func TestModeNoneIsSaidOncePerRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.Fragment(t, w.create(), 3, 2)
	for _, flags := range [][]string{{"--dry-run"}, {"--max-hold", "1ms"}} {
		r := w.compact(append(flags, "--claim-mode", "none", "--min-input-files", "2")...)
		require.Equal(t, 0, r.code, r.stderr)
		require.Equal(t, 1, strings.Count(r.stderr, `"level":"warn"`), r.stderr)
		require.Contains(t, r.stderr, "takes no claim")
	}
}

func TestPlainSQLExcludesTheProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 6, 2)
	conn := w.db.Conn(t)
	_, err := conn.Exec(context.Background(), `SELECT pg_advisory_lock(hashtextextended('iceberg:' || $1, 0))`, w.key().String())
	require.NoError(t, err)
	r := w.compact("--claim-timeout", "300ms")
	require.Equal(t, 10, r.code, r.stderr)
	_, err = conn.Exec(context.Background(), `SELECT pg_advisory_unlock(hashtextextended('iceberg:' || $1, 0))`, w.key().String())
	require.NoError(t, err)
	require.Equal(t, 0, w.compact().code)
}

func TestUsageErrorsExitTwo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, args := range [][]string{
		{}, {"compcat"}, {"compact"}, {"compact", "events"}, {"compact", "a..b"}, {"compact", `"a.b`},
		{"compact", "--no-such-flag", "a.b"}, {"compact", "a.b", "--no-such-flag"},
		{"compact", "--target-file-size", "12XB", "a.b"}, {"compact", "--output", "xml", "a.b"},
		{"compact", "--on-conflict", "retry", "a.b"}, {"compact", "--memory", "1MiB", "a.b"},
		{"compact", "--config", "/does/not/exist.yaml", "a.b"}, {"config"}, {"config", "shwo"},
	} {
		full := args
		if len(args) > 1 && args[0] == "compact" && !slices.Contains(args, "--config") {
			full = append([]string{"--config", w.config}, args...)
		}
		r := w.compactor(full...)
		require.Equal(t, 2, r.code, "%v: %s", args, r.stderr)
		require.NotEmpty(t, r.stderr)
	}
}

func TestFlagsMayFollowTheTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 6, 2)
	r := w.compactor("--config", w.config, "compact", w.name(), "--dry-run", "--output", "json", "--target-file-size", "1MiB")
	require.Equal(t, 0, r.code, r.stderr)
	require.Equal(t, "planned", r.step(t).Status)
	require.Zero(t, w.commits())
}

func TestMissingTableIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create()
	r := w.compactor("compact", "--config", w.config, w.ident[0]+".evnets")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stdout+r.stderr, "evnets")
}

func TestOneFailingTableDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 6, 2)
	r := w.compactor("run", "--config", w.config, "--output", "json", w.ident[0]+".missing", w.name())
	require.Equal(t, 1, r.code)
	var doc struct {
		Tables []struct {
			Table string
			Error string
			Steps []stepDoc
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &doc))
	require.Len(t, doc.Tables, 2)
	require.Equal(t, w.name(), doc.Tables[0].Table, "a table whose need is not known goes last")
	require.Equal(t, "done", doc.Tables[0].Steps[0].Status)
	require.NotEmpty(t, doc.Tables[1].Error)
}

func TestTargetComesFromTheTableUnlessAskedOtherwise(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := w.create(props(table.WriteTargetFileSizeBytesKey, strconv.Itoa(4<<10)))
	tbl = tabletest.FragmentAtOnce(t, tbl, 40, 10)
	require.Len(t, tabletest.Files(t, tbl), 40)
	require.Equal(t, 0, w.compact().code)
	require.Greater(t, len(tabletest.Files(t, w.load())), 1, "the table's own small target counts")
	require.Equal(t, 0, w.compact("--target-file-size", "64MiB").code)
	require.Len(t, tabletest.Files(t, w.load()), 1, "the flag wins")
}

func TestHelpNamesDefaultsUnitsAndExitCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, args := range [][]string{{"--help"}, {"compact", "--help"}, {"orphans", "--help"}, {"run", "--help"}, {"config", "show", "--help"}, {"config", "validate", "--help"}, {"demo", "--help"}, {"version", "--help"}, {"claim", "status", "--help"}, {"claim", "exec", "--help"}} {
		r := w.compactor(args...)
		require.Equal(t, 0, r.code, "%v: %s", args, r.stderr)
		for _, rule := range exitRules() {
			require.Contains(t, r.stdout, fmt.Sprintf("%4d  %s", rule.code, rule.meaning), "%v", args)
		}
	}
	help := w.compactor("compact", "--help").stdout
	for _, s := range []string{"512MiB", "75 %", "180 %", "(default: 5)", "10m", "15s", "0.3", "rewrite-data-files"} {
		require.True(t, strings.Contains(help, s), "help says %q", s)
	}
	require.False(t, strings.Contains(help, "%!"), "no formatting slip")
}
