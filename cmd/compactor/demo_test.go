package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The demo shows the real job on a real table; its commands to look further
// work; and it never replaces a folder that is not its own.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "demo")
	invoke := func(args ...string) (int, string) {
		var stdout, stderr bytes.Buffer
		err := run(context.Background(), environment{
			args: append([]string{"compactor"}, args...), stdout: &stdout, stderr: &stderr,
			getenv: func(string) (string, bool) { return "", false },
		})

		return exitCode(err), fmt.Sprint(&stdout, &stderr, err)
	}
	for range 2 { // the second run replaces the folder of the first
		code, out := invoke("demo", "--dir", dir)
		require.Equal(t, 0, code, out)
		require.Contains(t, out, "rows identical: 197938 rows")
		require.Regexp(t, `data files\s+500\s+3\b`, out)
		require.Regexp(t, `delete files\s+3\s+0\b`, out)
		require.Regexp(t, `rows\s+197,938\s+197,938\b`, out)
		for line := range strings.Lines(out[strings.Index(out, "look further:"):]) {
			if args, ok := strings.CutPrefix(strings.TrimSpace(line), "compactor "); ok {
				code, shown := invoke(strings.Fields(args)...)
				require.Equal(t, 0, code, "%s: %s", args, shown)
			}
		}
	}
	require.NoError(t, os.Remove(filepath.Join(dir, demoMarker)))
	code, out := invoke("demo", "--dir", dir)
	require.Equal(t, 2, code, out)
	require.Contains(t, out, "was not made by a demo")
}

// A demo does not touch the folder of one that is running.
func TestTwoDemosInOneFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "demo")
	_, free, err := freshFolder(dir)
	require.NoError(t, err)
	file := filepath.Join(dir, "warehouse", "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	var stdout, stderr bytes.Buffer
	err = run(context.Background(), environment{
		args: []string{"compactor", "demo", "--dir", dir}, stdout: &stdout, stderr: &stderr,
		getenv: func(string) (string, bool) { return "", false },
	})
	require.Equal(t, 2, exitCode(err))
	require.ErrorContains(t, err, "another demo is running in folder "+dir)
	require.FileExists(t, file)
	free()
	_, free, err = freshFolder(dir)
	require.NoError(t, err)
	free()
	require.NoFileExists(t, file, "an earlier demo is replaced")
}
