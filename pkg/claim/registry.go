package claim

import (
	"context"
	"errors"
	"sync"
	"time"
)

// registry remembers the claims of one Claimer, so that Close can give back what
// its users forgot.
type registry struct {
	mu     sync.Mutex
	claims map[*Claim]struct{}
}

// Close releases every claim that is still held.
func (r *registry) Close() error {
	r.mu.Lock()
	open := make([]*Claim, 0, len(r.claims))
	for c := range r.claims {
		open = append(open, c)
	}
	r.mu.Unlock()
	var errs []error
	for _, c := range open {
		errs = append(errs, c.Release(context.Background()))
	}
	return errors.Join(errs...)
}

func (r *registry) forget(c *Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.claims, c)
}

// grant describes a claim that a mode has just been given.
type grant struct {
	key       Key
	mode      Mode
	reference string
	ticket    string
	started   time.Time
	lease     lease
	expires   bool
	term      time.Duration
}

// adopt confirms a granted lease, starts its keeper and returns the claim. When
// the confirmation fails nothing is held.
func (r *registry) adopt(ctx context.Context, cfg Config, g grant) (*Claim, error) {
	now := cfg.Now()
	workCtx, cancel := context.WithCancelCause(ctx)
	c := &Claim{
		key: g.key, mode: g.mode, reference: g.reference, ticket: g.ticket,
		waited: now.Sub(g.started), acquiredAt: now,
		ctx: workCtx, cancel: cancel, forget: r.forget,
	}
	k, err := startKeeper(ctx, keeperConfig{
		key: g.key, timing: cfg.Timing, now: cfg.Now, log: cfg.Logger,
		term: g.term, expires: g.expires, lost: cancel,
	}, g.lease)
	if err != nil {
		cancel(err)
		return nil, err
	}
	c.keeper = k
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.claims == nil {
		r.claims = make(map[*Claim]struct{})
	}
	r.claims[c] = struct{}{}
	return c, nil
}
