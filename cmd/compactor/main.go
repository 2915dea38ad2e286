// Command compactor keeps Apache Iceberg tables healthy: it rewrites small
// data files under the table's claim and proves that no row is lost.
package main

import (
	"context"
	"fmt"
	"os"

	"compactor/internal/tablename"
)

func main() {
	ctx, stop := untilSignal(context.Background())
	err := run(ctx, environment{
		args:   os.Args,
		getenv: os.LookupEnv, environ: os.Environ(),
		stdin:  os.Stdin,
		stdout: os.Stdout,
		stderr: os.Stderr,
	})
	stop()
	if err != nil && !wasReported(err) {
		fmt.Fprintln(os.Stderr, "compactor:", tablename.Printable(err.Error()))
	}
	os.Exit(exitCode(err))
}
