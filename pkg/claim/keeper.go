package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
)

// lease is what a mode provides for a claim that is held. The keeper's loop is
// the only caller and makes one call at a time.
type lease interface {
	// check asks the authority whether the claim is ours; nil means yes. After an
	// error the lease is over. errOutOfContact says that the claim is still there
	// and keeps others out, although it must not be relied upon any longer; only
	// release may follow then.
	check(ctx context.Context) error
	// idle blocks until ctx ends and returns nil, or returns an error as soon as it
	// is plain that the claim is gone.
	idle(ctx context.Context) error
	// release gives the claim back and frees what it used, also when it fails.
	release(ctx context.Context) error
	// abandon frees what a lost claim used, without asking anybody.
	abandon()
}

// keeperConfig is what a keeper needs besides the lease.
type keeperConfig struct {
	key    Key
	timing Timing
	now    func() time.Time
	log    zerolog.Logger
	// term is the lease term: what a successful check is worth.
	term time.Duration
	// expires says that the authority ends the claim of a client that stood still
	// for a term.
	expires bool
	// lost is called once, when the claim is lost.
	lost func(error)
}

// keeper owns a held claim: one goroutine that probes, verifies and releases in
// turn, so that the connection never sees two users.
type keeper struct {
	keeperConfig
	lease    lease
	requests chan request
	finished chan struct{}
	// stop ends whatever the loop is doing.
	stop context.CancelFunc

	// proof is when the last successful check was sent. The loop owns it, and
	// promised, the last deadline that verify gave to anybody.
	proof, promised time.Time
	// failure is why the claim was lost; it may be read once finished is closed.
	failure error
}

// request asks the loop to verify, or to release.
type request struct {
	release bool
	reply   chan reply
}

type reply struct {
	deadline time.Time
	err      error
}

// startKeeper checks the fresh lease once and starts the loop. When the check
// fails the lease is abandoned and the error returned.
func startKeeper(ctx context.Context, cfg keeperConfig, l lease) (*keeper, error) {
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	k := &keeper{
		keeperConfig: cfg, lease: l, stop: stop,
		requests: make(chan request), finished: make(chan struct{}),
		proof: cfg.now(),
	}
	if _, err := k.prove(base, k.timing.Verify); err != nil {
		stop()
		l.abandon()
		return nil, fmt.Errorf("confirm claim %s: %w", cfg.key, err)
	}
	go k.loop(base)
	return k, nil
}

// loop serves requests and probes until the claim is released or lost.
func (k *keeper) loop(base context.Context) {
	defer close(k.finished)
	defer k.stop()
	for {
		req, err := k.idle(base)
		if err != nil {
			k.lose(base, nil, err)
			return
		}
		if req != nil && req.release {
			req.reply <- reply{err: k.giveBack(base)}
			return
		}
		limit := k.term
		if req != nil {
			limit = k.timing.Verify
		}
		deadline, err := k.prove(base, limit)
		if err != nil {
			k.lose(base, req, err)
			return
		}
		if req != nil {
			k.promised = deadline
			req.reply <- reply{deadline: deadline}
		}
	}
}

// idle waits for a request (returned), for the next probe to be due (nil) or for
// a sign that the claim is gone (error).
func (k *keeper) idle(base context.Context) (*request, error) {
	ctx, stop := context.WithTimeout(base, k.timing.Probe)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- k.lease.idle(ctx) }()
	select {
	case req := <-k.requests:
		stop()
		// The lease is the loop's again only when idle has returned. A loss seen
		// here reaches the requester through failure.
		if err := <-ended; err != nil && !req.release {
			return nil, err
		}
		return &req, nil
	case err := <-ended:
		return nil, err
	}
}

// prove asks the authority and returns the end of the term that its yes is worth.
// The term is counted from before the question was sent: whatever the way took,
// the authority's own timer started later than ours.
func (k *keeper) prove(base context.Context, limit time.Duration) (time.Time, error) {
	sent := k.now()
	if k.expires {
		gap := sent.Sub(k.proof)
		if gap >= k.term {
			return time.Time{}, fmt.Errorf("%w for %s, longer than the lease of %s", errStoodStill, round(gap), k.term)
		}
		limit = min(limit, k.term-gap)
	}
	ctx, cancel := context.WithTimeout(base, limit)
	defer cancel()
	if err := k.lease.check(ctx); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return time.Time{}, fmt.Errorf("no answer within %s", round(limit))
		}
		return time.Time{}, err
	}
	k.proof = sent
	return sent.Add(k.term), nil
}

// lose records the loss, ends the claim's context and frees the lease. req is
// the request to verify, if any, whose answer this is.
func (k *keeper) lose(base context.Context, req *request, err error) {
	k.failure = &LostError{Key: k.key, Reason: err.Error()}
	k.log.Warn().Str("table", k.key.String()).Err(k.failure).Msg("claim lost")
	k.lost(k.failure)
	if req != nil {
		req.reply <- reply{err: k.failure}
	}
	if errors.Is(err, errOutOfContact) {
		k.honour(base)
		return
	}
	k.lease.abandon()
}

// honour keeps a claim that is lost but still there for as long as a commit may
// be under way that verify has allowed: a writer that got the table before would
// read a head that this commit is about to move. The owner's release ends the
// wait, because it comes after the commit's answer.
func (k *keeper) honour(base context.Context) {
	due := time.NewTimer(k.promised.Sub(k.now()))
	defer due.Stop()
	for {
		select {
		case req := <-k.requests:
			if !req.release {
				req.reply <- reply{err: k.failure}
				continue
			}
			req.reply <- reply{err: k.giveBack(base)}
		case <-due.C:
			if err := k.giveBack(base); err != nil {
				k.log.Warn().Str("table", k.key.String()).Err(err).Msg("lost claim not given back")
			}
		case <-base.Done():
			k.lease.abandon()
		}
		return
	}
}

// giveBack releases the lease within the time allowed for it.
func (k *keeper) giveBack(base context.Context) error {
	ctx, cancel := context.WithTimeout(base, k.timing.Release)
	defer cancel()
	return k.lease.release(ctx)
}

// verify passes a check through the loop.
func (k *keeper) verify(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, fmt.Errorf("verify claim %s: %w", k.key, context.Cause(ctx))
	}
	req := request{reply: make(chan reply, 1)}
	requests := k.requests
	for {
		select {
		case requests <- req:
			requests = nil
		case r := <-req.reply:
			return r.deadline, r.err
		case <-k.finished:
			return k.verdict(req)
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("verify claim %s: %w", k.key, context.Cause(ctx))
		}
	}
}

// verdict is the answer to a check after the loop has ended.
func (k *keeper) verdict(req request) (time.Time, error) {
	select {
	case r := <-req.reply:
		return r.deadline, r.err
	default:
	}
	if k.failure != nil {
		return time.Time{}, k.failure
	}
	return time.Time{}, &LostError{Key: k.key, Reason: "it was released"}
}

// release passes the release through the loop. If the loop is stuck in a check
// for longer than allowed the connection is closed under it.
func (k *keeper) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.timing.Release)
	defer cancel()
	req := request{release: true, reply: make(chan reply, 1)}
	requests := k.requests
	for {
		select {
		case requests <- req:
			requests = nil
		case r := <-req.reply:
			<-k.finished
			return r.err
		case <-k.finished:
			select {
			case r := <-req.reply:
				return r.err
			default:
				return nil
			}
		case <-ctx.Done():
			k.stop()
			<-k.finished
			return fmt.Errorf("release claim %s: no answer within %s, connection closed: %w", k.key, k.timing.Release, ctx.Err())
		}
	}
}
