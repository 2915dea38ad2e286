package claim

import (
	"context"
	"time"
)

// Claimer takes claims in one mode. It is safe for concurrent use; claims on
// different tables may be held at the same time, each on a connection of its own.
type Claimer interface {
	// Mode returns the mode in use, never ModeAuto.
	Mode() Mode
	// Acquire waits for the table's claim and returns it. It returns a *HeldError
	// when o.Timeout passed, a *SetupError when the server's settings make the
	// claim unsafe, context.Cause(ctx) wrapped when ctx ended, and any other error
	// when PostgreSQL failed. After an error nothing is held, nothing is queued and
	// trying again is safe.
	Acquire(ctx context.Context, key Key, o AcquireOptions) (*Claim, error)
	// Close releases every claim that is still held. It may be called twice.
	Close() error
}

// AcquireOptions bounds and observes one wait.
type AcquireOptions struct {
	// Timeout is how long to wait for the claim; zero waits until ctx ends.
	Timeout time.Duration
	// OnWait is told about once a second who is in the way. It is called from
	// another goroutine, one call at a time, and never after Acquire returned. It
	// must not block.
	OnWait func(Waiting)
}

// Waiting describes a wait in progress.
type Waiting struct {
	// For is how long we have waited.
	For time.Duration
	// Holder is who has the table, empty when unknown.
	Holder string
	// HeldFor is how long, zero when unknown.
	HeldFor time.Duration
	// Detail says more in words: how many others wait, which peer has not answered.
	Detail string
}

// Claim is the right to commit to one table until Release. Its methods are safe
// for concurrent use.
type Claim struct {
	key        Key
	mode       Mode
	reference  string
	ticket     string
	waited     time.Duration
	acquiredAt time.Time
	ctx        context.Context
	cancel     context.CancelCauseFunc
	keeper     *keeper
	forget     func(*Claim)
}

// Context returns a child of the context given to Acquire that also ends the
// moment the claim is lost, with a *LostError as its cause, and when the claim is
// released. All work under the claim belongs under it. When the parent ends the
// claim is still held and fed, so that cleaning up happens under it; only Release
// gives it back.
func (c *Claim) Context() context.Context { return c.ctx }

// Verify asks the authority, now, whether the claim is still ours. On success it
// returns the time by which a commit sent under this claim must have been
// answered or abandoned: the end of the lease counted from when the question was
// sent. The error is a *LostError when the claim cannot be relied upon any
// longer, in which case the claim's context has ended too, or context.Cause(ctx)
// wrapped when ctx ended before there was an answer; then the claim goes on and
// Verify may be called again.
func (c *Claim) Verify(ctx context.Context) (time.Time, error) {
	return c.keeper.verify(ctx)
}

// Release gives the claim back and ends its context. It runs to its end even if
// ctx is cancelled, within Timing.Release. It returns nil when the claim is gone,
// also when it had been lost or released before, so calling it twice, after a
// panic or after a loss is right. An error means that PostgreSQL did not confirm;
// the connection is closed then and the server frees the table by itself, at the
// latest when the lease ends.
func (c *Claim) Release(ctx context.Context) error {
	err := c.keeper.release(ctx)
	c.cancel(errReleased)
	c.forget(c)
	return err
}

// Key returns the table's key.
func (c *Claim) Key() Key { return c.key }

// Mode returns the mode the claim was taken in.
func (c *Claim) Mode() Mode { return c.mode }

// Reference returns the exact text that is locked: Key.String, or in mode
// coldfront ColdFront's reference.
func (c *Claim) Reference() string { return c.reference }

// Ticket identifies this grant: ColdFront's ticket on a mesh, otherwise the
// server process that holds the lock; empty in modes file and none.
func (c *Claim) Ticket() string { return c.ticket }

// Waited returns how long Acquire took.
func (c *Claim) Waited() time.Duration { return c.waited }

// AcquiredAt returns when the claim was granted, by this machine's clock.
func (c *Claim) AcquiredAt() time.Time { return c.acquiredAt }
