package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/iceberg-go/table"
)

// lateAnswer is the cause of a context that within has ended.
type lateAnswer struct{ limit time.Duration }

func (l *lateAnswer) Error() string {
	return fmt.Sprintf("no answer within %s, the wait for a token included", l.limit)
}

// Is makes it a context.DeadlineExceeded.
func (l *lateAnswer) Is(target error) bool { return target == context.DeadlineExceeded }

// within bounds one call to a REST catalog. The transport bounds each request by
// itself, but a call may need two: one for a token goes first, and only one
// call at a time asks for it, so that the others wait for each other.
func (c *Catalog) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.settings.Type != TypeREST {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, c.settings.Timeout, &lateAnswer{c.settings.Timeout})
}

// promptly runs f and returns its result, or the cause of ctx as soon as ctx
// ends. The REST client asks for a token without the context of the call that
// needs it, so a token endpoint that hangs would hold the call for a
// minute. A result that comes after that is handed to late, when there is one.
func promptly[T any](ctx context.Context, f func() (T, error), late func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	got := make(chan result)
	gone := make(chan struct{})
	go func() {
		value, err := f()
		select {
		case got <- result{value, err}:
		case <-gone:
			if err == nil && late != nil {
				late(value)
			}
		}
	}()
	select {
	case r := <-got:
		if cause := context.Cause(ctx); r.err != nil && cause != nil && !errors.Is(r.err, cause) {
			r.err = fmt.Errorf("%w (%w)", cause, r.err) // It failed because it was ended.
		}
		return r.value, r.err
	case <-ctx.Done():
		close(gone)
		var none T
		return none, context.Cause(ctx)
	}
}

// explain gives an error its hint. An error of a call whose context has ended
// wraps the cause of that, and needs no hint when somebody ended it.
func (c *Catalog) explain(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil {
		return c.hint(err)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = c.hint(err)
	}
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w (%w)", cause, err)
}

// loadInner loads a table, in bounded time, and returns promptly when ctx ends.
func (c *Catalog) loadInner(ctx context.Context, ident table.Identifier) (*table.Table, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	return promptly(ctx, func() (*table.Table, error) { return c.inner.LoadTable(c.Context(ctx), ident) }, nil)
}

// commitInner sends a commit, in bounded time. When ctx ends before the request was begun, as
// while a token is asked for, the request is stopped for good and the
// result is certain; once it was begun, it is itself bounded by ctx and waited for.
func (c *Catalog) commitInner(
	ctx context.Context, a *attempt, ident table.Identifier, reqs []table.Requirement, updates []table.Update,
) (table.Metadata, string, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	type result struct {
		meta     table.Metadata
		location string
		err      error
	}
	got := make(chan result, 1)
	go func() {
		meta, location, err := c.inner.CommitTable(c.Context(withAttempt(ctx, a)), ident, reqs, updates)
		got <- result{meta, location, err}
	}()
	var r result
	select {
	case r = <-got:
	case <-ctx.Done():
		if c.settings.Type == TypeREST && !a.begun.Swap(true) {
			return nil, "", context.Cause(ctx)
		}
		r = <-got
	}
	return r.meta, r.location, r.err
}
