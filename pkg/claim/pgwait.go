package claim

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// waitOptions carries what Acquire was given to where the wait is made.
type waitOptions struct {
	AcquireOptions
	started time.Time
}

// pgWait is one wait for a claim: a single statement blocks in PostgreSQL, whose
// queue decides the order, while a second connection looks at who is in the way.
type pgWait struct {
	server *pgServer
	key    Key
	conn   *pgx.Conn
	o      AcquireOptions
	// started is when Acquire was called.
	started time.Time
	// block runs the blocking statement.
	block func(ctx context.Context) error
	// look reads who is in the way.
	look func(ctx context.Context, conn *pgx.Conn) (view, error)
	// leave ends the blocked statement without leaving anything behind. end waits
	// for the statement's own end and returns its error, and cuts the connection
	// when that takes too long. leftAlone, if not empty, says why the statement was
	// left running instead: ending it would have done damage. It is tried again.
	leave func(ctx context.Context, end func() error) (leftAlone string)
}

// view is what a look found.
type view struct {
	holder  string
	heldFor time.Duration
	detail  string
	// queued says that our own session is seen waiting; before that a look says
	// nothing about us.
	queued bool
}

// run blocks until the claim is granted. After an error the session may still
// hold something (a grant that crossed with the giving up); the caller ends it.
func (w *pgWait) run(ctx context.Context) error {
	blockCtx, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	done := make(chan error, 1)
	go func() { done <- w.block(blockCtx) }()
	watch := startWatch(ctx, w)
	defer watch.stop()
	if gaveUp, err := w.await(ctx, done); !gaveUp {
		return err
	}
	var found view
	if ctx.Err() == nil {
		found = watch.last(ctx)
	}
	return w.giveUp(ctx, watch, done, abort, found)
}

// await waits for the statement, the timeout or the end of ctx. gaveUp is true
// for the latter two.
func (w *pgWait) await(ctx context.Context, done <-chan error) (gaveUp bool, err error) {
	var timeout <-chan time.Time
	if w.o.Timeout > 0 {
		timer := time.NewTimer(w.o.Timeout - w.server.cfg.Now().Sub(w.started))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case err := <-done:
		return false, w.failed(err)
	case <-ctx.Done():
		return true, nil
	case <-timeout:
		return true, nil
	}
}

// giveUp ends the wait, or goes on waiting for as long as it cannot be ended.
func (w *pgWait) giveUp(ctx context.Context, watch *watch, done <-chan error, abort func(), found view) error {
	again := time.NewTicker(w.server.cfg.Timing.Look)
	defer again.Stop()
	said := ""
	for {
		leftAlone := w.leave(ctx, func() error { return w.end(done, abort) })
		if leftAlone == "" {
			return w.refusal(ctx, found)
		}
		if leftAlone != said {
			said = leftAlone
			watch.note(leftAlone)
			w.server.cfg.Logger.Warn().Str("table", w.key.String()).Str("reason", leftAlone).Msg("wait for the claim goes on although it should end")
		}
		select {
		case err := <-done:
			// A claim that came after all is only for a caller that still wants it.
			if err == nil && ctx.Err() != nil {
				return w.refusal(ctx, found)
			}
			return w.failed(err)
		case <-again.C:
		}
	}
}

// failed puts the table's name before an error of the blocking statement.
func (w *pgWait) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("acquire claim %s: %w", w.key, err)
}

// end waits for the statement, and cuts the connection under it when it does not
// end in time.
func (w *pgWait) end(done <-chan error, abort func()) error {
	timer := time.NewTimer(w.server.cfg.Timing.Release)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		abort()
		return <-done
	}
}

// refusal is the error of a wait that was given up.
func (w *pgWait) refusal(ctx context.Context, v view) error {
	if ctx.Err() != nil {
		return fmt.Errorf("acquire claim %s: %w", w.key, context.Cause(ctx))
	}
	return &HeldError{
		Key: w.key, Holder: v.holder, HeldFor: v.heldFor, Detail: v.detail,
		Waited: w.server.cfg.Now().Sub(w.started),
	}
}

// cancel is the leave function for locks that vanish with the statement: a
// cancelled wait for an advisory lock leaves nothing.
func (w *pgWait) cancel(ctx context.Context, end func() error) (leftAlone string) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), w.server.cfg.Timing.Connect)
	defer stop()
	// If the request does not arrive the connection is cut when the bound passes.
	if err := w.conn.PgConn().CancelRequest(ctx); err != nil {
		w.server.cfg.Logger.Debug().Err(err).Msg("cancel request did not arrive")
	}
	if err := end(); err != nil {
		w.server.cfg.Logger.Debug().Err(err).Str("table", w.key.String()).Msg("wait for the claim ended")
	}
	return ""
}
