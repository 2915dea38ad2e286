//go:build bench

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"compactor/internal/tabletest"
	"compactor/pkg/claim"
	"compactor/pkg/rewrite"
	"compactor/pkg/rewrite/rewritetest"
)

// holdLimit bounds one run of the program, for a table of many GiB too.
const holdLimit = time.Hour

// TestBenchHold compacts a table of many small files, a table of its own for
// each engine, while another session wants the claim all the time. It prints for
// how long the claim was held and the other had to wait, and asserts only that
// the work was done, by the engine that was asked for.
func TestBenchHold(t *testing.T) {
	mb, files := benchNumber(t, "HOLD_BENCH_MB", 1024), benchNumber(t, "HOLD_BENCH_FILES", 1000)
	require.Positive(t, files)
	rows := max(1, rewritetest.EventRows*mb/files)
	engines := []string{rewrite.EngineGeneral, rewrite.EngineSplice}
	worlds := make([]*world, len(engines))
	for i := range engines {
		worlds[i] = newWorld(t)
		tabletest.Create(worlds[i].direct.Context(context.Background()), t, worlds[i].direct.Client(), worlds[i].ident, rewritetest.EventSchema())
	}
	total := putEvents(t, worlds, files, rows)
	fmt.Printf("%d files, %.0f MiB, %d threads\n", files, float64(total)/(1<<20), runtime.GOMAXPROCS(0))
	for i, engine := range engines {
		fmt.Println(worlds[i].hold(engine, files))
	}
}

func benchNumber(t *testing.T, name string, def int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)

	return n
}

// putEvents adds the same files to the tables of all worlds and returns the
// bytes of one table.
func putEvents(t *testing.T, worlds []*world, files, rows int) int64 {
	t.Helper()
	added := make([][]iceberg.DataFile, len(worlds))
	var total int64
	var mu sync.Mutex
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0))
	tables, clients := make([]*table.Table, len(worlds)), make([]*s3.Client, len(worlds))
	for i, w := range worlds {
		tables[i], clients[i] = w.load(), w.s3client()
		added[i] = make([]iceberg.DataFile, files)
	}
	for n := range files {
		work.Go(func() error {
			raw, err := rewritetest.EventFile(tables[0].Schema(), rows, uint64(n), false)
			if err != nil {
				return err
			}
			for i, w := range worlds {
				path := fmt.Sprintf("%s/data/small-%06d.parquet", tables[i].Location(), n)
				if err := w.putFile(clients[i], path, raw); err != nil {
					return err
				}
				b, err := iceberg.NewDataFileBuilder(tables[i].Spec(), iceberg.EntryContentData, path, iceberg.ParquetFile,
					nil, nil, nil, int64(rows), int64(len(raw)))
				if err != nil {
					return err
				}
				added[i][n] = b.Build()
			}
			mu.Lock()
			defer mu.Unlock()
			total += int64(len(raw))

			return nil
		})
	}
	require.NoError(t, work.Wait())
	for i, tbl := range tables {
		tx := tbl.NewTransaction()
		require.NoError(t, tx.AddDataFiles(context.Background(), added[i], nil, table.WithoutAutoNameMapping()))
		_, err := tx.Commit(context.Background())
		require.NoError(t, err)
	}

	return total
}

func (w *world) putFile(client *s3.Client, path string, raw []byte) error {
	key := strings.TrimPrefix(path, "s3://"+w.lake.Bucket+"/")
	_, err := client.PutObject(context.Background(), &s3.PutObjectInput{Bucket: &w.lake.Bucket, Key: &key, Body: bytes.NewReader(raw)})

	return err
}

// holdDoc is what the bench wants of the report.
type holdDoc struct {
	Tables []struct {
		Steps []struct {
			Rewritten struct {
				FilesIn  int   `json:"files_in"`
				FilesOut int   `json:"files_out"`
				RowsIn   int64 `json:"rows_in"`
				RowsOut  int64 `json:"rows_out"`
			} `json:"rewritten"`
			Engines []struct {
				Engine string `json:"engine"`
				Reason string `json:"reason"`
			} `json:"engines"`
			Rounds  []struct{} `json:"rounds"`
			Took    float64    `json:"duration_seconds"`
			Held    float64    `json:"claim_hold_seconds"`
			Longest float64    `json:"claim_longest_hold_seconds"`
		} `json:"steps"`
	} `json:"tables"`
}

// hold compacts the world's table, in a process of its own that reaches the
// servers directly, and says what it took.
func (w *world) hold(engine string, files int) string {
	w.t.Helper()
	stop := w.wantClaim()
	started := time.Now()
	r := w.start(w.compactArgs("--engine", engine, "--s3-endpoint", w.lake.S3Endpoint, "--catalog-uri", w.lake.CatalogURI)...).result(holdLimit)
	total, waits := time.Since(started), stop()
	require.Equal(w.t, 0, r.code, r.stdout+r.stderr)
	var doc holdDoc
	require.NoError(w.t, json.Unmarshal([]byte(r.stdout), &doc), r.stdout)
	require.Len(w.t, doc.Tables, 1)
	require.Len(w.t, doc.Tables[0].Steps, 1)
	s := doc.Tables[0].Steps[0]
	require.Equal(w.t, files, s.Rewritten.FilesIn)
	require.Equal(w.t, s.Rewritten.RowsIn, s.Rewritten.RowsOut)
	require.Len(w.t, s.Engines, 1, "all groups went the same way: %s", r.stdout)
	require.Equal(w.t, engine, s.Engines[0].Engine, s.Engines[0].Reason)
	slices.Sort(waits)

	return fmt.Sprintf("  %-8s %6.1f s, %d files out; %2d rounds, held %6.1f s, longest %5.2f s; another's longest wait %5.2f s, of %d claims",
		engine, total.Seconds(), s.Rewritten.FilesOut, len(s.Rounds), s.Held, s.Longest, waits[len(waits)-1].Seconds(), len(waits))
}

// wantClaim takes the claim and gives it back, over and over. What it returns
// ends that, and tells how long each wait was.
func (w *world) wantClaim() (stop func() []time.Duration) {
	w.t.Helper()
	claimer := w.openClaimer()
	ctx, cancel := context.WithCancel(context.Background())
	var waits []time.Duration
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			started := time.Now()
			c, err := claimer.Acquire(ctx, w.key(), claim.AcquireOptions{})
			if err != nil {
				failed = err

				return
			}
			waits = append(waits, time.Since(started))
			if failed = c.Release(context.WithoutCancel(ctx)); failed != nil {
				return
			}
		}
	}()

	return func() []time.Duration {
		cancel()
		<-done
		if !errors.Is(failed, context.Canceled) {
			require.NoError(w.t, failed)
		}
		require.NotEmpty(w.t, waits)

		return waits
	}
}
