// Package claimtest holds what every claim mode is tested with: one conformance
// suite, and a stand-in for a database with the ColdFront extension.
//
// A new mode passes when Run passes with a Harness that says how to make
// independent participants and how to end a claim from outside.
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

// Harness connects the suite with one mode.
type Harness struct {
	// Config returns the configuration of one participant. Participants share
	// nothing but the authority: each stands for a process of its own.
	Config func(tb testing.TB, holder string) claim.Config
	// Sever ends a claim from outside, as a crash of its server side would. Nil for
	// modes whose claims cannot be lost.
	Sever func(tb testing.TB, c *claim.Claim)
	// Queued returns how many participants hold or wait for the key, as the
	// authority sees it; nil where the authority does not know.
	Queued func(tb testing.TB, key claim.Key) int
	// Term is how far in the future the deadline of a fresh Verify lies.
	Term time.Duration
	// HeadOnly says that only the first waiter's place is kept and those behind it
	// come in any order.
	HeadOnly bool
	// NoExclusion says that the mode excludes nobody.
	NoExclusion bool
}

// Run runs the conformance suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	t.Run("a claim has a context, a key and a deadline", h.testBasics)
	t.Run("release may be repeated and ends the context", h.testRelease)
	t.Run("close releases what was forgotten", h.testClose)
	t.Run("invalid keys are refused", h.testInvalidKeys)
	if h.Sever != nil {
		t.Run("a lost claim ends its context with the cause", h.testLost)
	}
	if h.NoExclusion {
		return
	}
	t.Run("at most one participant holds a key", h.testExclusion)
	t.Run("different keys are independent", h.testIndependent)
	t.Run("equal keys exclude and unequal ones do not", h.testSpellings)
	t.Run("waiters are served in order", h.testOrder)
	t.Run("a timeout names the holder", h.testTimeout)
	t.Run("a cancelled wait leaves nothing", h.testCancelledWait)
	t.Run("a cancelled parent keeps the claim until release", h.testCancelledParent)
	if h.Sever != nil {
		t.Run("a lost claim frees the table", h.testLostFrees)
	}
}

// Key returns a key for the suite's tables.
func Key(table string) claim.Key {
	return claim.Key{Realm: "analytics", Namespace: []string{"sales"}, Table: table}
}

// open makes a participant that is closed with the test.
func (h Harness) open(tb testing.TB, holder string) claim.Claimer {
	tb.Helper()
	c, err := claim.Open(context.Background(), h.Config(tb, holder))
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, c.Close()) })
	return c
}

// acquire takes a claim that must be granted.
func acquire(tb testing.TB, c claim.Claimer, key claim.Key) *claim.Claim {
	tb.Helper()
	got, err := c.Acquire(context.Background(), key, claim.AcquireOptions{Timeout: patience})
	require.NoError(tb, err)
	return got
}

// granted is the outcome of an Acquire that runs beside the test.
type granted struct {
	claim *claim.Claim
	err   error
}

// enqueue starts an Acquire and returns once it is known to wait.
func enqueue(ctx context.Context, tb testing.TB, c claim.Claimer, key claim.Key) <-chan granted {
	tb.Helper()
	waits := make(chan struct{})
	var once sync.Once
	out := make(chan granted, 1)
	go func() {
		got, err := c.Acquire(ctx, key, claim.AcquireOptions{OnWait: func(claim.Waiting) { once.Do(func() { close(waits) }) }})
		out <- granted{got, err}
	}()
	select {
	case <-waits:
	case g := <-out:
		tb.Fatalf("did not wait: %+v", g)
	case <-time.After(patience):
		tb.Fatal("nobody was told that we wait")
	}
	return out
}

// result waits for a started Acquire.
func result(tb testing.TB, out <-chan granted) granted {
	tb.Helper()
	select {
	case g := <-out:
		return g
	case <-time.After(patience):
		tb.Fatal("acquire did not return")
		return granted{}
	}
}

// ended waits for a claim's context to end and returns its cause.
func ended(tb testing.TB, c *claim.Claim) error {
	tb.Helper()
	select {
	case <-c.Context().Done():
		return context.Cause(c.Context())
	case <-time.After(patience):
		tb.Fatal("the claim's context did not end")
		return nil
	}
}

// Eventually polls cond until it is true.
func Eventually(tb testing.TB, what string, cond func() bool) {
	tb.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			tb.Fatalf("never happened: %s", what)
		}
	}
}

func (h Harness) testBasics(t *testing.T) {
	c := h.open(t, "basics")
	key := Key("basics")
	got := acquire(t, c, key)
	defer func() { require.NoError(t, got.Release(context.Background())) }()
	require.Equal(t, key, got.Key())
	require.Equal(t, c.Mode(), got.Mode())
	require.NotEmpty(t, got.Reference())
	require.NoError(t, got.Context().Err())
	require.WithinDuration(t, time.Now(), got.AcquiredAt(), patience)
	before := time.Now()
	deadline, err := got.Verify(context.Background())
	require.NoError(t, err)
	require.False(t, deadline.Before(before.Add(h.Term)), "deadline %s is earlier than %s after the question", deadline, h.Term)
	require.False(t, deadline.After(time.Now().Add(h.Term)), "deadline %s is later than the term allows", deadline)

	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = got.Verify(cancelled)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, claim.ErrLost, "a caller that does not wait for the answer loses nothing")
	_, err = got.Verify(context.Background())
	require.NoError(t, err)
}

func (h Harness) testRelease(t *testing.T) {
	got := acquire(t, h.open(t, "release"), Key("release"))
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() { errs[i] = got.Release(cancelled) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...), "release runs to its end whatever becomes of its context")
	require.NoError(t, got.Release(context.Background()))
	require.Error(t, ended(t, got))
	require.NotErrorIs(t, context.Cause(got.Context()), claim.ErrLost)
	_, err := got.Verify(context.Background())
	require.ErrorIs(t, err, claim.ErrLost, "a released claim permits no commit")
}

func (h Harness) testClose(t *testing.T) {
	first := h.open(t, "first")
	forgotten := acquire(t, first, Key("forgotten"))
	require.NoError(t, first.Close())
	require.Error(t, ended(t, forgotten))
	next := acquire(t, h.open(t, "next"), Key("forgotten"))
	require.NoError(t, next.Release(context.Background()))
	require.NoError(t, first.Close())
}

func (h Harness) testInvalidKeys(t *testing.T) {
	c := h.open(t, "keys")
	for _, key := range []claim.Key{
		{Realm: `an"alytics`, Namespace: []string{"sales"}, Table: "orders"},
		{Namespace: nil, Table: "orders"},
		{Namespace: []string{""}, Table: "orders"},
		{Namespace: []string{"sales"}},
		{Namespace: []string{"sales"}, Table: "a\x00b"},
		{Namespace: []string{"sales"}, Table: "\xff"},
	} {
		_, err := c.Acquire(context.Background(), key, claim.AcquireOptions{Timeout: patience})
		require.Error(t, err, "key %q", key)
		require.NotErrorIs(t, err, claim.ErrHeld)
	}
}

func (h Harness) testLost(t *testing.T) {
	got := acquire(t, h.open(t, "victim"), Key("lost"))
	h.Sever(t, got)
	cause := ended(t, got)
	require.ErrorIs(t, cause, claim.ErrLost)
	require.NotErrorIs(t, cause, context.DeadlineExceeded, "a loss must not look like something to try again")
	_, err := got.Verify(context.Background())
	require.ErrorIs(t, err, claim.ErrLost)
	var lost *claim.LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, Key("lost"), lost.Key)
	require.NotEmpty(t, lost.Reason)
	require.NoError(t, got.Release(context.Background()), "what is lost needs no release")
}

func (h Harness) testLostFrees(t *testing.T) {
	got := acquire(t, h.open(t, "victim"), Key("frees"))
	out := enqueue(context.Background(), t, h.open(t, "heir"), Key("frees"))
	h.Sever(t, got)
	require.ErrorIs(t, ended(t, got), claim.ErrLost)
	heir := result(t, out)
	require.NoError(t, heir.err)
	require.NoError(t, heir.claim.Release(context.Background()))
}

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
