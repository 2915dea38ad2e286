package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/pkg/maintenance"
)

// With --output json stdout is one document, whatever goes wrong.
func TestEveryFailureIsOneJSONDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env["COMPACTOR_CLAIM_POSTGRES"] = "postgres://nobody@127.0.0.1:1/none"
	for _, args := range [][]string{
		{"-o", "json", "run"}, {"--output=json", "bogus"}, {"run", "a.b", "-o", "json"},
		{"-o", "json", "config", "validate", "--config", "/does/not/exist"},
		{"-o", "json", "run", "--config", w.config, w.name()},
		{"compact", "-o", "json", "--config", w.config, "--dry-run", w.ident[0] + ".missing"},
	} {
		r := w.compactor(args...)
		require.NotZero(t, r.code, "%v", args)
		dec := json.NewDecoder(bytes.NewBufferString(r.stdout))
		var doc struct {
			ExitCode int `json:"exit_code"`
			Tables   []struct {
				Steps []any `json:"steps"`
			} `json:"tables"`
		}
		require.NoError(t, dec.Decode(&doc), "%v: %q", args, r.stdout)
		require.False(t, dec.More(), "%v: one document", args)
		require.Equal(t, r.code, doc.ExitCode, "%v", args)
		require.NotNil(t, doc.Tables, "%v", args)
		validReport(t, r.stdout)
		for _, tbl := range doc.Tables {
			require.NotNil(t, tbl.Steps, "%v", args)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A report that cannot be written does not hide what happened to the tables.
func TestExitCodeSurvivesAFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(props("coldfront.sort-key", "no_such_column")), 6, 2)
	invoke := func(args []string) error {
		return run(context.Background(), environment{
			args: append([]string{"compactor"}, args...), stdout: fullDisk{}, stderr: &bytes.Buffer{},
			getenv: func(k string) (string, bool) { v, ok := w.env[k]; return v, ok },
		})
	}
	err := invoke(w.compactArgs())
	require.Equal(t, 3, exitCode(err), "refused: %v", err)
	require.ErrorIs(t, err, syscall.ENOSPC)
}

// A signal while something is being opened is a stop, not a failure.
func TestSignalWhileOpening(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(&signalError{syscall.SIGTERM})
	var stdout bytes.Buffer
	err := run(ctx, environment{
		args: append([]string{"compactor"}, w.compactArgs()...), stdout: &stdout, stderr: &bytes.Buffer{},
		getenv: func(k string) (string, bool) { v, ok := w.env[k]; return v, ok },
	})
	require.Equal(t, 143, exitCode(err), "%v", err)
}

// A folder whose name a URL escapes is refused before anything is made.
func TestDemoMakesNoSecondFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, odd := range []string{"my demo", "a#b", "a?b", "ä"} {
		r := (&world{t: t, env: map[string]string{}}).compactor("demo", "--dir", filepath.Join(dir, odd))
		require.Equal(t, 2, r.code, "%s: %s", odd, r.stderr)
		require.Contains(t, r.stderr, "--dir")
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// The demo works in its folder, whatever the shell says.
func TestDemoIgnoresTheShell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	elsewhere := filepath.Join(dir, "production.db")
	var out bytes.Buffer
	err := run(context.Background(), environment{
		args: []string{"compactor", "demo", "--dir", filepath.Join(dir, "demo&co")}, stdout: &out, stderr: &out,
		getenv: func(k string) (string, bool) {
			v, ok := map[string]string{
				"COMPACTOR_CATALOG_URI": "sqlite:" + elsewhere, "COMPACTOR_CATALOG_WAREHOUSE": "file://" + dir, "COMPACTOR_CLAIM_MODE": "none",
			}[k]

			return v, ok
		},
	})
	require.NoError(t, err, out.String())
	_, err = os.Stat(elsewhere)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Contains(t, out.String(), "--config '"+filepath.Join(dir, "demo&co", "compactor.yaml")+"'", "commands can be pasted")
}

func TestWorstOutcomeDecides(t *testing.T) {
	t.Parallel()
	partial, halt, held := maintenance.ErrPartial, maintenance.ErrHalt, maintenance.ErrClaimHeld
	plain := errors.New("unreachable")
	require.NoError(t, worst([]error{nil, nil}))
	require.Equal(t, 1, exitCode(worst([]error{partial, plain, nil})))
	require.Equal(t, 10, exitCode(worst([]error{partial, held, plain})))
	require.Equal(t, 12, exitCode(worst([]error{held, halt, maintenance.ErrAmbiguous})))
}
