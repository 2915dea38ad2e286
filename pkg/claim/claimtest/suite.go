// Package claimtest holds what every claim mode is tested with: one conformance
// suite, and a stand-in for a database with the ColdFront extension.
//
// A new mode passes when Run passes with a Harness that says how to make
// independent participants and how to end a claim from outside.
package claimtest

import (
	"context"
	"errors"
	"sync"
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
	t.Run("the status names holder and waiters", h.testStatus)
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
