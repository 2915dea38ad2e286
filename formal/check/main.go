// Command check searches every configuration of the protocol's model with Spin and
// compares what is found with what formal/configurations expects.
//
// It prints one line per property and ends with status 1 if one differs, if a
// search was cut short by depth, memory or time, or if Spin or a C compiler is
// missing. It writes only to a temporary folder, which it removes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if err := interruptible(); err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1) //nolint:forbidigo // The one place that ends this process.
	}
}

// interruptible runs the searches until they are done or a signal arrives.
func interruptible() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Args[1:], os.Stdout)
}
