package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// signalError is the cause of a context that a signal cancelled.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return fmt.Sprintf("received %s", e.signal) }

// untilSignal returns a context that the first SIGINT or SIGTERM cancels with a
// *signalError. A second signal ends the process at once, as by default. A reader
// of stdout or stderr that goes away does not end the work: writing fails instead.
// Commands that are started have SIGPIPE as by default.
func untilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			if sig, ok := s.(syscall.Signal); ok {
				cancel(&signalError{sig})
			}
		case <-ctx.Done():
		}
	}()

	return ctx, func() {
		signal.Stop(signals)
		cancel(context.Canceled)
	}
}
