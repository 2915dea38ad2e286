package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/catalog"
	"compactor/internal/tabletest"
	"compactor/internal/testenv"
	"compactor/pkg/claim"
)

// Two compactors and four writers on three nodes who all commit to one table.
func TestTwoCompactorsAndFourWritersShareATable(t *testing.T) {
	t.Parallel()
	newTraffic(t).run(t, 20*time.Second)
}

// traffic is one table with everybody who commits to it. All of them reach the catalog through the proxy, which counts the conflicts.
type traffic struct {
	*world
	mesh     joined
	claimers [4]claim.Claimer
	catalogs [4]*catalog.Catalog

	mu   sync.Mutex
	rows []string
	// compactions counts the commits of each compactor.
	compactions [2]int
}

func newTraffic(t *testing.T) *traffic {
	t.Helper()
	m := newMesh(t)
	w := m.inMesh(t)
	w.create(props("write.metadata.previous-versions-max", "10", "write.metadata.delete-after-commit.enabled", "true"))
	f := &traffic{world: w, mesh: m}
	for i := range f.claimers {
		f.claimers[i], f.catalogs[i] = w.openClaimerOn(m[i%3]), w.open(w.catalog.URL)
	}

	return f
}

// run lets everybody work for a while, and until each compactor has committed something, and looks at what came of it.
func (f *traffic) run(t *testing.T, lasts time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), lasts)
	defer stop()
	writing, stopWriting := context.WithCancel(t.Context())
	defer stopWriting()
	var writers, compactors sync.WaitGroup
	errs := make(chan error, 6)
	for i := range 4 {
		writers.Go(func() { errs <- f.write(writing, i) })
	}
	for i := range 2 {
		compactors.Go(func() { errs <- f.keepCompacting(ctx, i) })
	}
	compactors.Wait() // The writers give them work to the end.
	stopWriting()
	writers.Wait()
	for range 6 {
		require.NoError(t, <-errs)
	}
	conflicts := f.catalog.Count(func(r testenv.Request) bool { return r.ServerStatus == 409 || r.Status == 409 })
	t.Logf("%d rows, %v compactions, %d commits", len(f.rows), f.compactions, f.commits())
	require.Zero(t, conflicts, "409")
	slices.Sort(f.rows)
	require.Equal(t, f.rows, tabletest.Rows(t, f.load()))
	require.GreaterOrEqual(t, f.commits(), len(f.rows)/rowsPerAppend+f.compactions[0]+f.compactions[1])
}

// rowsPerAppend is how many rows a writer appends at once.
const rowsPerAppend = 5

// write appends rows under claims of a node until ctx ends.
func (f *traffic) write(ctx context.Context, writer int) error {
	for i := 0; ctx.Err() == nil; i++ {
		first := writer*1_000_000 + i*rowsPerAppend
		held, err := f.claimers[writer].Acquire(ctx, f.key(), claim.AcquireOptions{})
		if ctx.Err() != nil {
			break // A claim that was just granted is given back by Close.
		}
		if err != nil {
			return fmt.Errorf("writer %d: %w", writer, err)
		}
		// Whoever was granted a claim finishes its append.
		if err := f.append(context.WithoutCancel(ctx), held, f.catalogs[writer], first); err != nil {
			return fmt.Errorf("writer %d: %w", writer, err)
		}
		rest(ctx, 200*time.Millisecond)
	}

	return nil
}

// append loads the table under the claim and commits rows to it.
func (f *traffic) append(ctx context.Context, held *claim.Claim, cat *catalog.Catalog, first int) error {
	defer held.Release(ctx) //nolint:errcheck // Whatever it says, the claim is gone.
	tbl, err := cat.LoadTable(ctx, f.ident)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	deadline, err := held.Verify(ctx)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if _, err := tabletest.AppendErr(ctx, tbl, tabletest.IDs(first, rowsPerAppend)); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := first; id < first+rowsPerAppend; id++ {
		f.rows = append(f.rows, fmt.Sprintf("id=%d;s=row %d;", id, id))
	}

	return nil
}

// keepCompacting runs the program again and again until ctx ends, and until both compactors have committed.
func (f *traffic) keepCompacting(ctx context.Context, compactor int) error {
	w := *f.world
	w.env = map[string]string{}
	for k, v := range f.env {
		w.env[k] = v
	}
	w.onNode(f.mesh[compactor])
	patience := time.Now().Add(5 * time.Minute)
	for ctx.Err() == nil || !f.bothCompacted() {
		r := w.compact("--min-input-files", "2") //nolint:contextcheck // A run is not cut short.
		if r.code != 0 {
			return fmt.Errorf("compactor %d: exit %d: %s", compactor, r.code, r.stderr)
		}
		f.mu.Lock()
		for _, round := range r.step(f.t).Rounds {
			if round.Snapshot != nil {
				f.compactions[compactor]++
			}
		}
		f.mu.Unlock()
		if time.Now().After(patience) && !f.bothCompacted() {
			return fmt.Errorf("compactor %d: no compaction by both after %s", compactor, 5*time.Minute)
		}
		rest(ctx, time.Second)
	}

	return nil
}

func (f *traffic) bothCompacted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.compactions[0] > 0 && f.compactions[1] > 0
}

// rest waits for a while, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
