package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"compactor/internal/tablename"
)

// clearScreen empties a terminal and its scroll-back, and goes to the top.
const clearScreen = "\x1b[2J\x1b[3J\x1b[H"

// watch looks again and again until ctx ends, and then returns the cause, which
// needs no report. A look that fails is shown and does not end it, but for the
// first: then nothing was seen yet. On a terminal each look takes the place of
// the one before; elsewhere they follow each other. It also ends when nobody
// reads any more.
func (i inspector) watch(ctx context.Context) error {
	seen := false
	for {
		doc, outcome, err := i.once(ctx)
		switch {
		case ctx.Err() != nil:
			return &reportedError{context.Cause(ctx)}
		case err != nil && !seen:
			return err
		}
		seen = true
		if err := i.show(doc, err); err != nil {
			return err
		}
		if outcome != nil {
			i.log.Debug().Err(outcome).Msg("look again after a failure")
		}
		timer := time.NewTimer(i.options.interval)
		select {
		case <-ctx.Done():
			timer.Stop()

			return &reportedError{context.Cause(ctx)}
		case <-timer.C:
		}
	}
}

// show writes one look in one piece, so that a terminal does not flicker.
func (i inspector) show(doc inspection, failed error) error {
	var b bytes.Buffer
	if i.options.format != outputJSON {
		i.heading(&b)
	}
	switch {
	case failed == nil:
		if err := i.write(&b, doc); err != nil {
			return err
		}
	case i.options.format == outputJSON:
		if err := writeFailure(&b, failed); err != nil {
			return err
		}
	default:
		fmt.Fprintf(&b, "%s\n", tablename.Printable(failed.Error()))
	}
	if _, err := i.env.stdout.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	if failed != nil {
		return nil // The page keeps what was seen last, with its time.
	}

	return i.writePage(doc)
}

// heading clears a terminal, and says when this look was.
func (i inspector) heading(w io.Writer) {
	before := "\n"
	if kind, _ := i.env.getenv("TERM"); isTerminal(i.env.stdout) && kind != "dumb" {
		before = clearScreen
	}
	fmt.Fprintf(w, "%s%s, every %s\n\n", before, i.now().UTC().Format(time.RFC3339), i.options.interval) //nolint:errcheck // It is a buffer.
}
