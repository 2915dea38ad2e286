package claim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/claim"
)

// BenchmarkBakeryUncontended measures acquire and release of a free table, on one node and on three.
func BenchmarkBakeryUncontended(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		for _, major := range []int{15, 18} {
			b.Run(fmt.Sprintf("nodes=%d/PostgreSQL=%d", nodes, major), func(b *testing.B) {
				acquireAndRelease(b, bakeryMesh(b, nodes, major)[0])
			})
		}
	}
}

// BenchmarkBakeryBesideInserts measures the same on three nodes while a session inserts into a table of the node's own
// database, 300,000 rows a statement: logical decoding reads those too, though no publication has them.
func BenchmarkBakeryBesideInserts(b *testing.B) {
	for _, major := range []int{15, 18} {
		b.Run(fmt.Sprintf("nodes=3/PostgreSQL=%d", major), func(b *testing.B) {
			db := bakeryMesh(b, 3, major)[0]
			stop := insertRows(b, db)
			acquireAndRelease(b, db)
			b.ReportMetric(float64(stop())/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkBakeryContended measures claims per second of six writers on three nodes who all want one table and hold it for 2 ms.
func BenchmarkBakeryContended(b *testing.B) {
	for _, major := range []int{15, 18} {
		b.Run(fmt.Sprintf("PostgreSQL=%d", major), func(b *testing.B) {
			var dsns []string
			for _, db := range bakeryMesh(b, 3, major) {
				dsns = append(dsns, db.DSN)
			}
			writers, h := newWriters(b, dsns, 2, 20*time.Second)
			b.ResetTimer()
			require.NoError(b, runWriters(b.Context(), max(1, b.N/len(writers)), writers))
			b.ReportMetric(float64(len(h.commits))/b.Elapsed().Seconds(), "claims/s")
			require.Zero(b, h.requireSound(b))
		})
	}
}

// acquireAndRelease claims a free table through one node and reports the median and the 99th percentile in milliseconds.
func acquireAndRelease(b *testing.B, db *testenv.Database) {
	b.Helper()
	c, err := claim.Open(b.Context(), claim.Config{Mode: claim.ModeBakery, DSN: db.DSN})
	require.NoError(b, err)
	defer c.Close() //nolint:errcheck // The servers end with the benchmark.
	key := claim.Key{Realm: "lake", Namespace: []string{"s"}, Table: "t"}
	var took []time.Duration
	for b.Loop() {
		started := time.Now()
		held, err := c.Acquire(b.Context(), key, claim.AcquireOptions{})
		require.NoError(b, err)
		require.NoError(b, held.Release(b.Context()))
		took = append(took, time.Since(started))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// insertRows keeps one session of the database busy with inserts until stop, which returns the rows of the statements that ended.
func insertRows(b *testing.B, db *testenv.Database) (stop func() int64) {
	b.Helper()
	db.Exec(b, "CREATE TABLE bulk (id bigint, payload text)")
	conn, err := pgx.Connect(b.Context(), db.DSN)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	rows, ended := int64(0), make(chan error, 1)
	go func() {
		for {
			tag, err := conn.Exec(ctx, "INSERT INTO bulk SELECT i, md5(i::text) FROM generate_series(1, 300000) AS i")
			if err != nil {
				ended <- err
				return
			}
			rows += tag.RowsAffected()
		}
	}()
	return func() int64 {
		b.StopTimer()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			require.NoError(b, err)
		}
		require.NoError(b, conn.Close(context.WithoutCancel(ctx)))
		return rows
	}
}
