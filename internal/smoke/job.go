package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/iceberg-go/table"
	"github.com/rs/zerolog"

	"compactor/internal/catalog"
	"compactor/internal/store"
)

// job is one try.
type job struct {
	program string
	out     io.Writer
	dir     string // of the configuration file
	env     []string
	cat     *catalog.Catalog
	ident   table.Identifier
}

// newJob opens the catalog and writes the program's configuration file. What it
// leaves in the file system is removed by close.
func newJob(ctx context.Context, s settings, program string, out io.Writer) (_ *job, err error) {
	suffix := make([]byte, 4)
	_, _ = rand.Read(suffix) // Never returns an error.
	j := &job{program: program, out: out, ident: table.Identifier{"smoke_" + hex.EncodeToString(suffix), "events"}}
	if j.dir, err = os.MkdirTemp("", "compactor-smoke-"); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	defer func() {
		if err != nil {
			j.close()
		}
	}()
	claims := filepath.Join(j.dir, "claims")
	config, err := s.file(claims)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Mkdir(claims, 0o700), os.WriteFile(j.config(), config, 0o600)); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	j.env = slices.Concat(os.Environ(), s.secrets(), []string{"COMPACTOR_CONFIG=" + j.config()})
	store.Register()
	j.cat, err = catalog.Open(ctx, catalog.Options{
		Catalog: catalog.Settings{Type: "rest", Name: "smoke", URI: s.CatalogURI, Warehouse: s.Warehouse, Credential: s.Credential},
		Storage: s.store(),
		Logger:  zerolog.Nop(),
	})
	if err != nil {
		return nil, fmt.Errorf("open catalog: %w", err)
	}

	return j, nil
}

func (s settings) store() store.Options {
	if s.AccessKey == "" {
		return store.Options{Logger: zerolog.Nop()}
	}
	o := store.Options{Logger: zerolog.Nop(), S3: store.S3Options{
		Endpoint: s.S3Endpoint, Region: s.S3Region, AccessKeyID: s.AccessKey, SecretAccessKey: s.SecretKey,
	}}
	if s.S3Endpoint != "" {
		o.S3.URLStyle = store.StylePath
	}

	return o
}

func (j *job) config() string { return filepath.Join(j.dir, "compactor.yaml") }

func (j *job) name() string { return strings.Join(j.ident, ".") }

func (j *job) close() {
	if j.cat != nil {
		_ = j.cat.Close() // Nothing was written through it that is not committed.
	}
	_ = os.RemoveAll(j.dir) // A temporary folder.
}

func (j *job) say(format string, args ...any) {
	fmt.Fprintf(j.out, format+"\n", args...) //nolint:errcheck // Whoever reads it may go away.
}

// result is what the program answered.
type result struct {
	code   int
	stdout []byte
}

// call runs the program on the table and fails when it does not end with the
// status that is wanted.
func (j *job) call(ctx context.Context, want int, args ...string) (result, error) {
	j.say("  compactor %s", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, j.program, args...) //nolint:gosec // The program that is tried.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = j.env, &stdout, &stderr
	err := cmd.Run()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		return result{}, fmt.Errorf("run %s: %w", j.program, err)
	}
	r := result{code: cmd.ProcessState.ExitCode(), stdout: stdout.Bytes()}
	if r.code != want {
		return r, fmt.Errorf("compactor %s: exit code %d instead of %d\n%s%s", strings.Join(args, " "), r.code, want, &stdout, &stderr)
	}

	return r, nil
}
