package claimtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/pkg/claim"
)

func (h Harness) testExclusion(t *testing.T) {
	const participants, rounds = 4, 12
	var inside, total atomic.Int32
	var wg sync.WaitGroup
	errs := make(chan error, participants*rounds)
	for p := range participants {
		c := h.open(t, fmt.Sprintf("p%d", p))
		wg.Go(func() {
			for range rounds {
				got, err := c.Acquire(context.Background(), Key("exclusion"), claim.AcquireOptions{Timeout: patience})
				if err != nil {
					errs <- err
					return
				}
				if n := inside.Add(1); n != 1 {
					errs <- fmt.Errorf("%d participants inside", n)
				}
				if _, err := got.Verify(context.Background()); err != nil {
					errs <- err
				}
				total.Add(1)
				inside.Add(-1)
				if err := got.Release(context.Background()); err != nil {
					errs <- err
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	require.EqualValues(t, participants*rounds, total.Load())
}

func (h Harness) testIndependent(t *testing.T) {
	c := h.open(t, "both")
	one, two := acquire(t, c, Key("one")), acquire(t, c, Key("two"))
	for _, got := range []*claim.Claim{one, two} {
		_, err := got.Verify(context.Background())
		require.NoError(t, err)
	}
	require.NoError(t, one.Release(context.Background()))
	_, err := two.Verify(context.Background())
	require.NoError(t, err, "releasing one claim leaves the other alone")
	require.NoError(t, two.Release(context.Background()))
}

func (h Harness) testSpellings(t *testing.T) {
	a, b := h.open(t, "a"), h.open(t, "b")
	held := acquire(t, a, claim.Key{Realm: "analytics", Namespace: []string{"sales"}, Table: `or"ders`})
	defer func() { require.NoError(t, held.Release(context.Background())) }()
	_, err := b.Acquire(context.Background(), claim.Key{Realm: "analytics", Namespace: []string{"sales"}, Table: `or"ders`},
		claim.AcquireOptions{Timeout: 50 * time.Millisecond})
	require.ErrorIs(t, err, claim.ErrHeld, "the same table under another participant's key")
	for _, other := range []claim.Key{
		{Realm: "analytics", Namespace: []string{"sales"}, Table: `Or"ders`},
		{Realm: "analytics", Namespace: []string{"sales"}, Table: `or""ders`},
		{Realm: "analytics", Namespace: []string{`sales"."or`}, Table: `ders`},
		{Realm: "analytics", Namespace: []string{"Sales"}, Table: `or"ders`},
	} {
		got := acquire(t, b, other)
		require.NotEqual(t, held.Reference(), got.Reference())
		require.NoError(t, got.Release(context.Background()))
	}
}

func (h Harness) testOrder(t *testing.T) {
	key := Key("order")
	first, second, third := h.open(t, "first"), h.open(t, "second"), h.open(t, "third")
	held := acquire(t, first, key)
	order := []<-chan granted{
		enqueue(context.Background(), t, second, key),
		enqueue(context.Background(), t, third, key),
		// The holder's next round queues behind both.
		enqueue(context.Background(), t, first, key),
	}
	require.NoError(t, held.Release(context.Background()))
	for len(order) > 0 {
		g := result(t, order[0])
		require.NoError(t, g.err)
		require.Positive(t, g.claim.Waited())
		order = order[1:]
		for i, later := range order {
			select {
			case <-later:
				t.Fatalf("waiter %d was served although another was before it", i)
			default:
			}
		}
		require.NoError(t, g.claim.Release(context.Background()))
		if h.HeadOnly {
			break
		}
	}
	var rest []*claim.Claim
	for range order {
		select {
		case g := <-order[0]:
			rest, order = append(rest, g.claim), order[1:]
		case g := <-order[len(order)-1]:
			rest, order = append(rest, g.claim), order[:len(order)-1]
		case <-time.After(patience):
			t.Fatal("a waiter was never served")
		}
		require.NotNil(t, rest[len(rest)-1])
		require.NoError(t, rest[len(rest)-1].Release(context.Background()))
	}
}

func (h Harness) testTimeout(t *testing.T) {
	key := Key("timeout")
	held := acquire(t, h.open(t, "compactor@here 1 run-a"), key)
	other := h.open(t, "impatient")
	_, err := other.Acquire(context.Background(), key, claim.AcquireOptions{Timeout: 300 * time.Millisecond})
	require.ErrorIs(t, err, claim.ErrHeld)
	var refused *claim.HeldError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, key, refused.Key)
	require.Contains(t, refused.Holder, "compactor@here 1 run-a")
	require.GreaterOrEqual(t, refused.Waited, 300*time.Millisecond)
	require.Contains(t, err.Error(), "run-a")
	h.requireQueued(t, key, 1)
	_, err = held.Verify(context.Background())
	require.NoError(t, err, "the holder is not disturbed")
	require.NoError(t, held.Release(context.Background()))
	got := acquire(t, other, key)
	require.NoError(t, got.Release(context.Background()))
}

func (h Harness) testCancelledWait(t *testing.T) {
	key := Key("cancelled")
	held := acquire(t, h.open(t, "holder"), key)
	reason := errors.New("operator said stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	out := enqueue(ctx, t, h.open(t, "waiter"), key)
	behind := enqueue(context.Background(), t, h.open(t, "behind"), key)
	cancel(reason)
	g := result(t, out)
	require.ErrorIs(t, g.err, reason)
	require.Nil(t, g.claim)
	h.requireQueued(t, key, 2)
	require.NoError(t, held.Release(context.Background()))
	next := result(t, behind)
	require.NoError(t, next.err)
	require.NoError(t, next.claim.Release(context.Background()))
	h.requireQueued(t, key, 0)
}

// requireQueued waits for the authority to know of n participants.
func (h Harness) requireQueued(t *testing.T, key claim.Key, n int) {
	t.Helper()
	if h.Queued == nil {
		return
	}
	Eventually(t, fmt.Sprintf("%d participants at %s", n, key), func() bool { return h.Queued(t, key) == n })
}

func (h Harness) testCancelledParent(t *testing.T) {
	key := Key("parent")
	ctx, cancel := context.WithCancel(context.Background())
	got, err := h.open(t, "holder").Acquire(ctx, key, claim.AcquireOptions{Timeout: patience})
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, ended(t, got), context.Canceled)
	other := h.open(t, "other")
	_, err = other.Acquire(context.Background(), key, claim.AcquireOptions{Timeout: 100 * time.Millisecond})
	require.ErrorIs(t, err, claim.ErrHeld, "cleaning up happens under the claim")
	_, err = got.Verify(context.Background())
	require.NoError(t, err)
	require.NoError(t, got.Release(ctx))
	next := acquire(t, other, key)
	require.NoError(t, next.Release(context.Background()))
}
