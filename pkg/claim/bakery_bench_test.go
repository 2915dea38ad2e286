package claim_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/pkg/claim"
)

// BenchmarkBakeryUncontended measures acquire and release of a free table, on one node and on three.
func BenchmarkBakeryUncontended(b *testing.B) {
	for _, nodes := range []int{1, 3} {
		for _, major := range []int{15, 18} {
			b.Run(fmt.Sprintf("nodes=%d/PostgreSQL=%d", nodes, major), func(b *testing.B) {
				c, err := claim.Open(b.Context(), claim.Config{Mode: claim.ModeBakery, DSN: bakeryMesh(b, nodes, major)[0].DSN})
				require.NoError(b, err)
				defer c.Close() //nolint:errcheck // The servers end with the benchmark.
				var took []time.Duration
				for b.Loop() {
					started := time.Now()
					held, err := c.Acquire(b.Context(), claim.Key{Realm: "lake", Namespace: []string{"s"}, Table: "t"}, claim.AcquireOptions{})
					require.NoError(b, err)
					require.NoError(b, held.Release(b.Context()))
					took = append(took, time.Since(started))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			})
		}
	}
}

// BenchmarkBakeryContended measures claims per second of six writers on three nodes who all want one table.
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
