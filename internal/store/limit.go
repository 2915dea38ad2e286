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
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		turn.Cancel()

		return fmt.Errorf("wait for a turn to send a request: %w", context.Cause(ctx))
	}
}
