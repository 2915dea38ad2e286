package claim_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/pkg/claim"
)

// head is the shared state that a claim protects: a catalog reduced to its compare-and-swap.
type head struct {
	mu       sync.Mutex
	value    int
	commits  []commit
	rejected []commit
	grants   map[string]time.Time
	last     time.Time
	longest  time.Duration
}

// commit is one compare-and-swap that was sent under a claim.
type commit struct {
	ticket int64
	writer string
	parent int
	// torn says that the claim was lost while the request was on its way: then this request or another's may be rejected.
	torn bool
}

func (h *head) read() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.value
}

// swap takes the given time to arrive, like a request on its way, and asks afterwards whether the claim was lost meanwhile.
func (h *head) swap(ctx context.Context, held *claim.Claim, c commit, way time.Duration) {
	if !pause(ctx, way) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	accepted := h.value == c.parent
	_, err := held.Verify(context.WithoutCancel(ctx))
	c.torn = err != nil
	if accepted {
		h.value++
		h.commits = append(h.commits, c)
	} else {
		h.rejected = append(h.rejected, c)
	}
}

// requireSound asserts that no compare-and-swap was rejected and that commits are in ticket order, but for claims that were lost in
// flight. It returns how many rejections those explain.
func (h *head) requireSound(tb testing.TB) (torn int) {
	tb.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.rejected {
		// The commit that moved the head away from under c has the index of its parent.
		by := h.commits[c.parent]
		require.True(tb, c.torn || by.torn, "%+v was rejected under a claim, the head was moved by %+v", c, by)
		torn++
	}
	for i := 1; i < len(h.commits); i++ {
		if before, c := h.commits[i-1], h.commits[i]; !before.torn && !c.torn {
			require.Greater(tb, c.ticket, before.ticket, "commit %d: %+v after %+v", i, c, before)
		}
	}
	return torn
}

// granted records that a writer got in.
func (h *head) granted(writer string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.last.IsZero() {
		h.longest = max(h.longest, at.Sub(h.last))
	}
	h.last = at
	h.grants[writer] = at
}

// since tells whether n writers got in after that moment.
func (h *head) since(moment time.Time, n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, at := range h.grants {
		if at.After(moment) {
			n--
		}
	}
	return n <= 0
}

// longestGap is the longest time in which nobody got in.
func (h *head) longestGap() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.longest
}

// pause waits without sleeping past the end of ctx; false when that came first.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// writer commits to one head under claims until its context ends or it has done its share.
type writer struct {
	name    string
	claimer claim.Claimer
	key     claim.Key
	head    *head
	// hold and way are the longest time between reading the head and the check, and from the check to the answer.
	hold, way time.Duration
	random    *rand.Rand
	// stubborn writers go on after an error, as a scheduler that starts a job again.
	stubborn bool
	// granted, lost and failed count the claims that were held to the end, those that were not, and those that were not granted.
	granted, lost, failed int
}

// round takes one claim and commits under it.
func (w *writer) round(ctx context.Context) error {
	held, err := w.claimer.Acquire(ctx, w.key, claim.AcquireOptions{})
	if err != nil {
		return err
	}
	w.head.granted(w.name, time.Now())
	ticket, err := strconv.ParseInt(held.Ticket(), 10, 64)
	if err != nil {
		return err
	}
	c := commit{ticket: ticket, writer: w.name, parent: w.head.read()}
	pause(held.Context(), time.Duration(w.random.Int64N(int64(w.hold)+1))) //nolint:contextcheck // A claim's context is a child of ctx.
	deadline, err := held.Verify(ctx)
	if errors.Is(err, claim.ErrLost) {
		w.lost++
		return held.Release(ctx)
	}
	if err != nil {
		return errors.Join(err, held.Release(ctx))
	}
	sending, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	w.head.swap(sending, held, c, time.Duration(w.random.Int64N(int64(w.way)+1)))
	w.granted++
	return held.Release(ctx)
}

// runWriters runs all writers, each until total claims were granted or ctx ended, and returns their errors.
func runWriters(ctx context.Context, total int, writers []*writer) error {
	var wg sync.WaitGroup
	errs := make([]error, len(writers))
	for i, w := range writers {
		wg.Go(func() {
			for w.granted < total && ctx.Err() == nil {
				if err := w.round(ctx); err != nil && ctx.Err() == nil {
					w.failed++
					if !w.stubborn {
						errs[i] = fmt.Errorf("writer %s: %w", w.name, err)
						return
					}
					pause(ctx, 50*time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// newWriters opens perNode writers on every node.
func newWriters(tb testing.TB, dsns []string, perNode int, window time.Duration) ([]*writer, *head) {
	tb.Helper()
	seed := uint64(time.Now().UnixNano())
	tb.Logf("seed %d", seed)
	h := &head{grants: map[string]time.Time{}}
	var writers []*writer
	for n, dsn := range dsns {
		for i := range perNode {
			name := fmt.Sprintf("writer %d on n%d", i+1, n+1)
			c, err := claim.Open(context.Background(), claim.Config{Mode: claim.ModeBakery, DSN: dsn, Holder: name, Window: window})
			require.NoError(tb, err)
			tb.Cleanup(func() { require.NoError(tb, c.Close()) })
			writers = append(writers, &writer{name: name, claimer: c, key: claim.Key{Realm: "lake", Namespace: []string{"s"}, Table: "t"},
				head: h, hold: 2 * time.Millisecond, random: rand.New(rand.NewPCG(seed, uint64(len(writers))))})
		}
	}
	return writers, h
}

func TestBakeryLoadRejectsNothing(t *testing.T) {
	for _, major := range []int{15, 18} {
		t.Run(fmt.Sprintf("PostgreSQL %d", major), func(t *testing.T) {
			var dsns []string
			for _, db := range bakeryMesh(t, 3, major) {
				dsns = append(dsns, db.DSN)
			}
			writers, h := newWriters(t, dsns, 2, 10*time.Second)
			started := time.Now()
			require.NoError(t, runWriters(t.Context(), 334, writers))
			t.Logf("%d commits, %.0f a second", len(h.commits), float64(len(h.commits))/time.Since(started).Seconds())
			require.Zero(t, h.requireSound(t))
			require.GreaterOrEqual(t, len(h.commits), 2000)
		})
	}
}
