package claim_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/pkg/claim"
)

// head is the shared state that a claim protects: a catalog reduced to its compare-and-swap. It also remembers who got in and when.
type head struct {
	mu       sync.Mutex
	value    int
	commits  []*commit
	rejected []*commit
	sent     []*commit
	grants   []granted
}

// commit is one compare-and-swap that was sent under a claim.
type commit struct {
	Ticket int64
	Writer string
	Parent int
	// landed is when the request arrived.
	landed time.Time
	// torn says that the claim's session was ended from outside while the request was on its way: then this request or another's may be
	// rejected. It stays true until the writer has seen that the claim survived.
	torn bool
}

// granted is one claim that a writer of a node (counted from 0) got.
type granted struct {
	Writer string
	Node   int
	at     time.Time
}

// read returns the head.
func (h *head) read(context.Context) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.value, nil
}

// swap takes the given time to arrive, like a request on its way, and arrives no later than the deadline of ctx. The number is for
// settle; it is negative when nothing arrived.
func (h *head) swap(ctx context.Context, c commit, way time.Duration) (number int, err error) {
	if !pause(ctx, way) {
		return -1, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c.landed, c.torn = time.Now(), true
	if deadline, ok := ctx.Deadline(); ok && !c.landed.Before(deadline) {
		return -1, nil
	}
	if h.sent = append(h.sent, &c); h.value == c.Parent {
		h.value++
		h.commits = append(h.commits, &c)
	} else {
		h.rejected = append(h.rejected, &c)
	}
	return len(h.sent) - 1, nil
}

// settle says that the claim of a commit was still there after it had landed.
func (h *head) settle(_ context.Context, number int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent[number].torn = false
	return nil
}

// granted records that a writer got in.
func (h *head) granted(_ context.Context, g granted) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	g.at = time.Now()
	h.grants = append(h.grants, g)
	return nil
}

// endedFromOutside tells whether a claim is lost in a way that may cost a commit that was under way. A lease that ran out is no excuse,
// because the commit's deadline came before anybody else could get in.
func endedFromOutside(err error) bool {
	return errors.Is(err, claim.ErrLost) && !slices.ContainsFunc([]string{"out of contact", "no sign of life", "no answer within"},
		func(reason string) bool { return strings.Contains(err.Error(), reason) })
}

// requireSound asserts that no compare-and-swap was rejected and that commits are in ticket order, but for claims that were ended in
// flight. It returns how many rejections those explain.
func (h *head) requireSound(tb testing.TB) (torn int) {
	tb.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.rejected {
		// The commit that moved the head away from under c has the index of its parent.
		by := h.commits[c.Parent]
		require.True(tb, c.torn || by.torn, "%+v was rejected under a claim, the head was moved by %+v", c, by)
		torn++
	}
	for i := 1; i < len(h.commits); i++ {
		if before, c := h.commits[i-1], h.commits[i]; !before.torn && !c.torn {
			require.Greater(tb, c.Ticket, before.Ticket, "commit %d: %+v after %+v", i, c, before)
		}
	}
	return torn
}

// since lists the writers who got in after that moment, by name.
func (h *head) since(moment time.Time) map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	in := map[string]bool{}
	for _, g := range h.grants {
		if g.at.After(moment) {
			in[g.Writer] = true
		}
	}
	return in
}

// longestWait is the longest time between from and to in which no writer of the given nodes got in.
func (h *head) longestWait(nodes []int, from, to time.Time) (longest time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := from
	for _, g := range h.grants {
		if slices.Contains(nodes, g.Node) && g.at.After(from) && g.at.Before(to) {
			longest, last = max(longest, g.at.Sub(last)), g.at
		}
	}
	return max(longest, to.Sub(last))
}

// count returns how many compare-and-swaps were accepted.
func (h *head) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.commits)
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
