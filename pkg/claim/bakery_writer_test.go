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

// target is what writers commit to: a head, or the way to one in another process.
type target interface {
	read(ctx context.Context) (int, error)
	granted(ctx context.Context, g granted) error
	swap(ctx context.Context, c commit, way time.Duration) (number int, err error)
	settle(ctx context.Context, number int) error
}

// pace is how long a writer takes; all times are the longest.
type pace struct {
	// Hold is from reading the head to the check, Way from the check to the answer, Rest from a release to the next claim.
	Hold, Way, Rest time.Duration
	// Slow makes Way apply to one commit in that many; all others take none. Zero applies it to all.
	Slow int
}

// writer commits to one head under claims until its context ends or it has done its share.
type writer struct {
	name    string
	node    int
	claimer claim.Claimer
	key     claim.Key
	head    target
	pace    pace
	random  *rand.Rand
	// stubborn writers go on after an error, as a scheduler that starts a job again.
	stubborn bool
	// careless writers send their commit without asking whether the claim is still theirs.
	careless bool
	// done, lost and failed count the claims that were held to the end, those that were not, and those that were not granted.
	done, lost, failed int
}

// upTo is a random time.
func (w *writer) upTo(longest time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(longest) + 1))
}

// way is how long the next commit takes.
func (w *writer) way() time.Duration {
	if w.pace.Way == 0 {
		return 0
	}
	if w.pace.Slow > 1 && w.random.IntN(w.pace.Slow) > 0 {
		return 0
	}
	return w.upTo(w.pace.Way)
}

// round takes one claim and commits under it.
func (w *writer) round(ctx context.Context) error {
	pause(ctx, w.upTo(w.pace.Rest))
	held, err := w.claimer.Acquire(ctx, w.key, claim.AcquireOptions{})
	if err != nil {
		return err
	}
	if err := w.work(ctx, held); err != nil {
		return errors.Join(err, held.Release(ctx))
	}
	return held.Release(ctx)
}

// work reads the head, takes its time, and commits.
func (w *writer) work(ctx context.Context, held *claim.Claim) error {
	if err := w.head.granted(ctx, granted{Writer: w.name, Node: w.node}); err != nil {
		return err
	}
	parent, err := w.head.read(ctx)
	if err != nil {
		return err
	}
	pause(held.Context(), w.upTo(w.pace.Hold)) //nolint:contextcheck // A claim's context is a child of ctx.
	return w.commit(ctx, held, parent)
}

// commit verifies the claim and sends the compare-and-swap.
func (w *writer) commit(ctx context.Context, held *claim.Claim, parent int) error {
	ticket, err := strconv.ParseInt(held.Ticket(), 10, 64)
	if err != nil {
		return err
	}
	deadline, err := w.verify(ctx, held)
	if errors.Is(err, claim.ErrLost) {
		w.lost++
		return nil
	}
	if err != nil {
		return err
	}
	sending, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	number, err := w.head.swap(sending, commit{Ticket: ticket, Writer: w.name, Parent: parent}, w.way())
	if err != nil || number < 0 {
		return err
	}
	answered := time.Now()
	// Who looks after the deadline only learns what has happened since, and who did not look before has no excuse.
	if _, err := held.Verify(context.WithoutCancel(ctx)); !endedFromOutside(err) || answered.After(deadline) || w.careless {
		w.done++
		return w.head.settle(context.WithoutCancel(ctx), number)
	}
	return nil
}

// verify asks whether the claim is ours, and until when a commit has to be there.
func (w *writer) verify(ctx context.Context, held *claim.Claim) (time.Time, error) {
	if w.careless {
		return time.Now().Add(time.Minute), nil
	}
	return held.Verify(ctx)
}

// runWriters runs all writers, each until total claims were granted or ctx ended, and returns their errors.
func runWriters(ctx context.Context, total int, writers []*writer) error {
	var wg sync.WaitGroup
	errs := make([]error, len(writers))
	for i, w := range writers {
		wg.Go(func() { errs[i] = w.run(ctx, total) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// run works until total claims were held to the end or ctx ended.
func (w *writer) run(ctx context.Context, total int) error {
	for w.done < total && ctx.Err() == nil {
		if err := w.round(ctx); err != nil && ctx.Err() == nil {
			w.failed++
			if !w.stubborn {
				return fmt.Errorf("writer %s: %w", w.name, err)
			}
			pause(ctx, 50*time.Millisecond)
		}
	}
	return nil
}

// newWriters opens perNode writers on every node.
func newWriters(tb testing.TB, dsns []string, perNode int, window time.Duration) ([]*writer, *head) {
	tb.Helper()
	seed := newSeed(tb)
	h := &head{}
	var writers []*writer
	for n, dsn := range dsns {
		for i := range perNode {
			name := fmt.Sprintf("writer %d on n%d", i+1, n+1)
			c, err := claim.Open(context.Background(), claim.Config{Mode: claim.ModeBakery, DSN: dsn, Holder: name, Window: window})
			require.NoError(tb, err)
			tb.Cleanup(func() { require.NoError(tb, c.Close()) })
			writers = append(writers, &writer{name: name, node: n, claimer: c, key: faultKey("t"),
				head: h, pace: pace{Hold: 2 * time.Millisecond}, random: rand.New(rand.NewPCG(seed, uint64(len(writers))))})
		}
	}
	return writers, h
}

// newSeed makes a seed and logs it.
func newSeed(tb testing.TB) uint64 {
	tb.Helper()
	seed := uint64(time.Now().UnixNano())
	tb.Logf("seed %d", seed)
	return seed
}

// faultKey is the key of one of the tables that the tests of the mesh write to.
func faultKey(table string) claim.Key {
	return claim.Key{Realm: "lake", Namespace: []string{"s"}, Table: table}
}
