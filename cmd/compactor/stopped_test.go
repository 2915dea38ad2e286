package main

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/internal/testenv"
)

// Wherever a signal meets the program, document, metrics and status say the same.
func TestAStoppedRunSaysSoEverywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 2, 1)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	load := w.catalog.Handle
	read := w.s3.Handle
	namespaces := "/namespaces/" + w.ident[0] + "/tables"
	for name, c := range map[string]struct {
		handle func(testenv.Rule)
		match  func(*http.Request) bool
		args   []string
	}{
		"postgresql":               {nil, nil, []string{"run", w.name()}},
		"catalog, at its opening":  {load, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/config") }, []string{"run", w.name()}},
		"catalog, at a table":      {load, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, namespaces+"/events") }, []string{"run", w.name()}},
		"catalog, at a namespace":  {load, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, namespaces) }, []string{"run", w.ident[0] + ".*"}},
		"store, at a plan":         {read, func(r *http.Request) bool { return r.Method == http.MethodGet }, []string{"run", w.name()}},
		"store, at a look":         {read, func(r *http.Request) bool { return r.Method == http.MethodGet }, []string{"inspect", w.name()}},
		"catalog, at two looks":    {load, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, namespaces+"/events") }, []string{"inspect", w.name(), w.ident[0] + ".other"}},
		"catalog, at a namespace,": {load, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, namespaces) }, []string{"inspect", w.ident[0] + ".*"}},
	} {
		w.catalog.ClearRules()
		w.s3.ClearRules()
		reached, answer := make(chan struct{}, 100), make(chan struct{})
		w.env["COMPACTOR_CLAIM_POSTGRES"] = w.db.DSN
		if c.handle != nil {
			c.handle(testenv.Rule{Match: c.match, Before: func(*http.Request) { reached <- struct{}{} }, Action: testenv.BlockUntil(answer)})
		} else { // It accepts, and says nothing.
			w.env["COMPACTOR_CLAIM_POSTGRES"] = "postgres://u@" + silent.Addr().String() + "/db?sslmode=disable"
			go func() {
				if conn, err := silent.Accept(); err == nil {
					reached <- struct{}{}
					<-answer
					_ = conn.Close() // The other side has gone.
				}
			}()
		}
		prom := filepath.Join(t.TempDir(), "c.prom")
		w.env["COMPACTOR_METRICS_TEXTFILE"] = prom
		p := w.start(append([]string{"--config", w.config, "-o", "json"}, c.args...)...)
		select {
		case <-reached:
		case <-p.done:
		}
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM), name)
		r := p.result(2 * time.Minute)
		close(answer)
		require.Equal(t, 143, r.code, "%s: %s", name, r.stderr)
		var doc struct {
			ExitCode int `json:"exit_code"`
		}
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &doc), "%s: one document: %s", name, r.stdout)
		require.Equal(t, 143, doc.ExitCode, "%s: %s", name, r.stdout)
		if c.args[0] == "run" {
			text, err := os.ReadFile(prom)
			require.NoError(t, err, name)
			require.Contains(t, string(text), "\ncompactor_run_exit_code 143\n", name)
		}
	}
}
