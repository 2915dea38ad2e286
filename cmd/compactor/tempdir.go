package main

import (
	"os"

	"github.com/urfave/cli/v2"
)

// tempDir is the value of --temp-dir, else of TMPDIR; empty for the system's own
// folder. A folder that was asked for by the flag has to be there.
func tempDir(c *cli.Context, env environment) (string, error) {
	dir, given := lookup(c, "temp-dir")
	if !given {
		dir, _ = env.getenv("TMPDIR")

		return dir, nil
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", usagef("--temp-dir %q: %w", dir, err)
	case !info.IsDir():
		return "", usagef("--temp-dir %q: it is no folder", dir)
	}

	return dir, nil
}
