//go:build bench

package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/internal/testenv"
)

const (
	benchRuns      = 3
	benchSnapshots = 100  // of which benchRetained stay
	benchRetained  = 10   //
	benchLive      = 1000 // files beside
	benchStrays    = 2000 // this many orphans
)

// engine does one kind of maintenance on the world's table, from opening the
// catalog to the last delete.
type engine struct {
	name string
	do   func(w *world)
}

// measured is one engine in one round.
type measured struct {
	took     time.Duration
	requests map[string]int
	gone     int
}

// TestBenchMaintenance compares the program with the calls of the client library
// for the same work, each on a table of its own of the same kind. The engines
// take turns. It prints medians and asserts nothing about them.
func TestBenchMaintenance(t *testing.T) {
	expiry := []engine{{"compactor", func(w *world) {
		r := w.do("expire", "--older-than", "0s", "--retain-last", fmt.Sprint(benchRetained))
		require.Equal(w.t, 0, r.code, r.stdout+r.stderr)
	}}, {"iceberg-go", func(w *world) {
		tbl := w.throughProxies()
		tx := tbl.NewTransaction()
		require.NoError(w.t, tx.ExpireSnapshots(table.WithOlderThan(0), table.WithRetainLast(benchRetained)))
		_, err := tx.Commit(context.Background())
		require.NoError(w.t, err)
	}}}
	orphans := []engine{{"compactor", func(w *world) {
		r := w.do("orphans", "--max-orphan-share", "1")
		require.Equal(w.t, 0, r.code, r.stdout+r.stderr)
	}}, {"iceberg-go", func(w *world) {
		tbl := w.throughProxies()
		_, err := tbl.DeleteOrphanFiles(context.Background(), table.WithFilesOlderThan(72*time.Hour))
		require.NoError(w.t, err)
	}}}
	for _, latency := range []time.Duration{0, 20 * time.Millisecond} {
		compare(t, "expire", latency, expiry, manySnapshots)
		compare(t, "orphans", latency, orphans, manyStrays)
	}
}

// manySnapshots leaves snapshots of which all but the last few name files that
// no longer belong to the table.
func manySnapshots(w *world) {
	appendMany(w.t, w.create(), benchSnapshots-benchRetained)
	require.Equal(w.t, 0, w.compact("--min-input-files", "2", "--max-hold", "0").code)
	appendMany(w.t, w.load(), benchRetained-1)
}

func manyStrays(w *world) {
	tbl := tabletest.Fragment(w.t, w.create(), 3, 3)
	var live, strays []string
	for n := range benchLive {
		live = append(live, fmt.Sprintf("%s/data/live-%05d.parquet", tbl.Location(), n))
	}
	for n := range benchStrays {
		strays = append(strays, fmt.Sprintf("%s/data/stray-%05d.parquet", tbl.Location(), n))
	}
	w.put(slices.Concat(live, strays)...)
	w.refer(live...)
}

func compare(t *testing.T, step string, latency time.Duration, engines []engine, prepare func(*world)) {
	t.Helper()
	runs := map[string][]measured{}
	for range benchRuns {
		for _, e := range engines {
			t.Run(step, func(t *testing.T) {
				w := newWorld(t)
				prepare(w)
				runs[e.name] = append(runs[e.name], w.measure(latency, e))
			})
		}
	}
	for _, e := range engines {
		fmt.Printf("%-8s %5s per request  %-10s %s\n", step, latency, e.name, summary(runs[e.name], runs[engines[0].name]))
	}
}

// measure runs an engine with a delay before each request to the store, whose
// listings call every object ten days old.
func (w *world) measure(latency time.Duration, e engine) measured {
	w.t.Helper()
	live, before := tabletest.Files(w.t, w.load()), w.objects()
	if latency > 0 {
		w.s3.Handle(testenv.Rule{Match: isList, Action: testenv.Delay(latency, aged())})
		w.s3.Handle(testenv.Rule{Action: testenv.Delay(latency)})
	} else {
		w.ageEverything()
	}
	w.s3.ResetRequests()
	started := time.Now()
	e.do(w)
	m := measured{took: time.Since(started), requests: map[string]int{}}
	for _, q := range w.s3.Requests() {
		m.requests[kindOf(q)]++
	}
	m.gone = len(w.lost(before))
	require.Positive(w.t, m.gone)
	require.Equal(w.t, live, tabletest.Files(w.t, w.load()))
	require.Subset(w.t, w.objects(), live, "no live file is gone")

	return m
}

func kindOf(q testenv.Request) string {
	switch {
	case q.Method == http.MethodGet && q.Query.Has("list-type"):
		return "list"
	case q.Method == http.MethodPost && q.Query.Has("delete"), q.Method == http.MethodDelete:
		return "delete"
	default:
		return strings.ToLower(q.Method)
	}
}

// summary is the median run of an engine, and how it compares with base, run by
// run.
func summary(runs, base []measured) string {
	ratios := make([]float64, len(runs))
	for i, r := range runs {
		ratios[i] = r.took.Seconds() / base[i].took.Seconds()
	}
	slices.Sort(ratios)
	sorted := slices.SortedFunc(slices.Values(runs), func(a, b measured) int { return int(a.took - b.took) })
	mid := sorted[len(sorted)/2]
	var kinds []string
	for _, k := range []string{"get", "head", "list", "put", "delete"} {
		if n := mid.requests[k]; n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", n, k))
		}
	}

	return fmt.Sprintf("median %6.2f s (%.2f to %.2f), ratio %5.2f; %d objects deleted; requests: %s", mid.took.Seconds(),
		sorted[0].took.Seconds(), sorted[len(sorted)-1].took.Seconds(), ratios[len(ratios)/2], mid.gone, strings.Join(kinds, ", "))
}

// throughProxies opens the table as the program does.
func (w *world) throughProxies() *table.Table {
	w.t.Helper()
	tbl, err := w.openAt(w.catalog.URL, w.s3.URL).LoadTable(context.Background(), w.ident)
	require.NoError(w.t, err)

	return tbl
}
