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

// untilSignal returns a context that the first SIGINT, SIGTERM or SIGHUP cancels with a
// *signalError. A second signal ends the process at once, as by default. SIGHUP is
// what a terminal sends when it goes away; where it is ignored (nohup) it stays so. SIGQUIT
// keeps its meaning, a dump of what the process does: its connections end with it,
// and so does a claim. A reader
// of stdout or stderr that goes away does not end the work: writing fails instead.
// Commands that are started have SIGPIPE as by default.
func untilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
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
