package main

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
)

// brokenPipe is the writing end of a pipe that nobody reads any more.
func brokenPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	t.Cleanup(func() { require.NoError(t, w.Close()) })

	return w
}

// Whoever reads the log or the report may go away; the work goes on to its end.
func TestAReaderThatGoesAwayEndsNoWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.FragmentAtOnce(t, w.create(), 6, 2)
	before := tabletest.Rows(t, tbl)
	start := func(args ...string) *exec.Cmd {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		for k, v := range w.env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}

		return cmd
	}
	var stdout, stderr bytes.Buffer
	cmd := start(w.compactArgs("--log-level", "debug")...)
	cmd.Stdout, cmd.Stderr = &stdout, brokenPipe(t)
	require.NoError(t, cmd.Run(), "no log: %s", stdout.String())
	require.Equal(t, before, tabletest.Rows(t, w.load()))

	cmd = start(w.compactArgs("--rewrite-all")...)
	cmd.Stdout, cmd.Stderr = brokenPipe(t), &stderr
	require.Error(t, cmd.Run())
	require.Equal(t, 1, cmd.ProcessState.ExitCode(), "it ended by itself: %s", stderr.String())
	require.Contains(t, stderr.String(), "broken pipe")
	require.Equal(t, before, tabletest.Rows(t, w.load()))

	// A command under the claim has the signal as everywhere else.
	require.Equal(t, 128+13, w.compactor(w.execArgs(nil, "sh", "-c", "kill -PIPE $$")...).code)
}
