package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
)

// A run leaves its metrics in the file, also when PostgreSQL could not be
// reached; a dry run leaves none.
func TestEveryRunLeavesItsMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 6, 1)
	path := filepath.Join(t.TempDir(), "compactor.prom")
	w.env["COMPACTOR_METRICS_TEXTFILE"] = path
	value := func(name string) float64 {
		t.Helper()
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(raw)
		require.NotNil(t, m, "%s in %s", name, raw)
		v, err := strconv.ParseFloat(string(m[1]), 64)
		require.NoError(t, err)

		return v
	}
	require.Equal(t, 0, w.compact("--dry-run").code)
	_, err := os.Stat(path)
	require.ErrorIs(t, err, os.ErrNotExist)

	require.Equal(t, 0, w.compact().code)
	require.InDelta(t, 0, value("compactor_run_exit_code"), 0)
	require.InDelta(t, 6, value(`compactor_files{direction="in"}`), 0)
	require.InDelta(t, 1, value(`compactor_files{direction="out"}`), 0)
	require.InDelta(t, 1, value(`compactor_tables{status="done"}`), 0)
	require.InDelta(t, 1, value("compactor_claim_hold_seconds_count"), 0)
	success := value("compactor_last_success_timestamp_seconds")

	w.env["COMPACTOR_CLAIM_POSTGRES"] = "postgres://nobody@127.0.0.1:1/none"
	require.Equal(t, 1, w.compact().code)
	require.InDelta(t, 1, value("compactor_run_exit_code"), 0)
	require.InDelta(t, success, value("compactor_last_success_timestamp_seconds"), 0.001)

	w.env["COMPACTOR_CLAIM_POSTGRES"] = w.db.DSN
	w.env["COMPACTOR_METRICS_TEXTFILE"] = filepath.Join(path, "not a folder")
	r := w.compact()
	require.Equal(t, 0, r.code, "metrics do not decide")
	require.Contains(t, r.stderr, "publish metrics")
}
