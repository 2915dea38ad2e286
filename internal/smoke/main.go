// Command smoke tries a built program on servers that it does not know: it makes a
// fragmented table in a namespace of its own, runs every step on it from outside,
// and looks at rows, files and exit codes. scripts/smoke.sh builds the program
// and calls it:
//
//	smoke PROGRAM
//
// The environment says where the servers are (see settings). The namespace is
// dropped when everything was right, and stays to be looked at when it was not.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "smoke:", err)
		os.Exit(1) //nolint:forbidigo // The end of a program of its own.
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	if len(args) != 1 {
		return errors.New("usage: smoke PROGRAM")
	}
	s, err := readSettings(getenv)
	if err != nil {
		return err
	}
	j, err := newJob(ctx, s, args[0], out)
	if err != nil {
		return err
	}
	defer j.close()
	if err := j.all(ctx); err != nil {
		return fmt.Errorf("table %s: %w", j.name(), err)
	}

	return nil
}
