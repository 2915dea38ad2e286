package store

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

// limiter spreads requests over time. A nil one lets everything pass.
type limiter struct{ bucket *rate.Limiter }

func newLimiter(perSecond int) *limiter {
	if perSecond <= 0 {
		return nil
	}

	return &limiter{bucket: rate.NewLimiter(rate.Limit(perSecond), perSecond)}
}

// wait returns when a request may be sent, or with the cause when ctx has
// ended. Requests go in the order in which they came.
func (l *limiter) wait(ctx context.Context) error {
	if l == nil {
		return nil
	}
	turn := l.bucket.Reserve()
	delay := turn.Delay()
	if delay == 0 {
		return nil
	}
	if !elapsed(delay, ctx.Done()) {
		turn.Cancel()

		return fmt.Errorf("wait for a turn to send a request: %w", context.Cause(ctx))
	}

	return nil
}

// elapsed waits for a delay, and reports false when the end came first.
func elapsed(delay time.Duration, end <-chan struct{}) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-end:
		return false
	}
}
