package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"compactor/internal/store"
	"compactor/internal/tabletest"
)

// sampleTable is a table of six small files in an embedded catalog.
func sampleTable(t *testing.T, more ...string) (config string, tbl *table.Table) {
	t.Helper()
	store.Register()
	config, cat := embedded(t, more...)
	tabletest.Create(cat.Context(t.Context()), t, cat.Client(), table.Identifier{"watched", "events"}, tabletest.Schema())
	tbl, err := cat.LoadTable(context.Background(), table.Identifier{"watched", "events"})
	require.NoError(t, err)

	return config, tabletest.FragmentAtOnce(t, tbl, 6, 10)
}

// watching is the program in this process, on a terminal of some columns.
type watching struct {
	screen *lockedBuffer
	stop   context.CancelCauseFunc
	done   chan error
}

func watchOn(t *testing.T, columns uint16, env map[string]string, args ...string) watching {
	t.Helper()
	ours, theirs := openTerminal(t)
	require.NoError(t, unix.IoctlSetWinsize(int(theirs.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
	w := watching{screen: &lockedBuffer{}, done: make(chan error, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 4096)
		for {
			n, err := ours.Read(b)
			_, _ = w.screen.Write(b[:n]) // A buffer takes everything.
			if err != nil {
				return // The other end was closed.
			}
		}
	}()
	ctx, stop := context.WithCancelCause(context.Background())
	w.stop = stop
	go func() {
		w.done <- run(ctx, environment{
			args:   append([]string{"compactor", "inspect"}, args...),
			getenv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
			stdout: theirs, stderr: &lockedBuffer{},
		})
	}()
	t.Cleanup(func() {
		stop(context.Canceled)
		require.NoError(t, theirs.Close())
		<-read
	})

	return w
}

// end sends a signal, as the program sees it, and returns the exit code.
func (w watching) end(t *testing.T, s syscall.Signal) int {
	t.Helper()
	w.stop(&signalError{s})
	select {
	case err := <-w.done:
		require.True(t, wasReported(err), "nothing more is said: %v", err)

		return exitCode(err)
	case <-time.After(time.Minute):
		t.Fatal("no end after a signal")

		return 0
	}
}

// A terminal shows one look at a time, follows the table, and ends with the
// code of the signal.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	config, tbl := sampleTable(t)
	page := filepath.Join(t.TempDir(), "health.html")
	w := watchOn(t, 100, map[string]string{"TERM": "xterm"}, "--config", config, "--watch", "--interval", "1s", "--html", page, "watched.events")
	until(t, "the first look", func() bool { return strings.Contains(w.screen.String(), "6 files, ") })
	require.True(t, strings.HasPrefix(w.screen.String(), clearScreen))
	require.Contains(t, w.screen.String(), "\x1b[33m"+strings.Repeat("█", 40)+"\x1b[0m 6 files, ")
	tabletest.FragmentAtOnce(t, tbl, 4, 10)
	until(t, "a look at what was appended", func() bool {
		looks := strings.Split(w.screen.String(), clearScreen)

		return len(looks) > 2 && strings.Contains(looks[len(looks)-1], "10 files, ")
	})
	until(t, "a page of it", func() bool {
		text, err := os.ReadFile(page)

		return err == nil && bytes.Contains(text, []byte(`<data data-field="data.files" value="10">`))
	})
	require.Equal(t, 130, w.end(t, syscall.SIGINT))
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

// On a narrow terminal no line of the report is wider than it, but for what
// cannot be broken, and without colours there is no escape but the clearing.
func TestWatchOnANarrowTerminal(t *testing.T) {
	t.Parallel()
	config, _ := sampleTable(t)
	w := watchOn(t, 36, map[string]string{"NO_COLOR": "1", "TERM": "xterm"}, "--config", config, "--watch", "watched.events")
	until(t, "a look", func() bool { return strings.Contains(w.screen.String(), "orphans ") })
	text := strings.ReplaceAll(strings.ReplaceAll(w.screen.String(), clearScreen, ""), "\r", "")
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "█")
	require.Regexp(t, `(?m)^    < 1\.0 MiB   #{12,} 6$`, text, "a bar that leaves room for the figure")
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 36 {
			require.Regexp(t, `file://|every 10s`, line)
		}
	}
	require.Equal(t, 143, w.end(t, syscall.SIGTERM))
}

// Without a terminal the looks follow each other, a table that goes away is
// named, and the process ends with 130 after SIGINT.
func TestWatchWithoutATerminal(t *testing.T) {
	t.Parallel()
	config, _ := sampleTable(t, "watched.other")
	w := &world{t: t, env: map[string]string{}}
	p := w.start("inspect", "--config", config, "--watch", "--interval=1s", "watched.*", "watched.missing")
	until(t, "two looks", func() bool { return strings.Count(p.stdout.String(), ", every 1s\n") >= 2 })
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGINT))
	r := p.result(time.Minute)
	require.Equal(t, 130, r.code, r.stderr)
	require.False(t, escapes.MatchString(r.stdout), r.stdout)
	require.Regexp(t, `(?m)^TABLE +FILES +SMALL +SMALL BYTES`, r.stdout)
	require.Regexp(t, `(?m)^watched\.missing: `, r.stdout)
	require.NotContains(t, r.stderr, "interrupt")

	p = w.start("inspect", "--config", config, "--watch", "--interval=1s", "-o", "json", "watched.events")
	until(t, "two documents", func() bool { return strings.Count(p.stdout.String(), "\n}\n") >= 2 })
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	r = p.result(time.Minute)
	require.Equal(t, 143, r.code, r.stderr)
	dec := json.NewDecoder(strings.NewReader(r.stdout))
	for n := 0; dec.More(); n++ {
		var doc inspection
		require.NoError(t, dec.Decode(&doc))
		require.Equal(t, int64(6), doc.Tables[0].Data.Files)
	}
}

// What is wrong on the command line is said before anything is looked at.
func TestInspectRefusesItsFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, _ := sampleTable(t)
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	require.NoError(t, os.Symlink(filepath.Join(dir, "pipe"), filepath.Join(dir, "link")))
	w := &world{t: t, env: map[string]string{}}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--interval", "5s"}, "--interval is for --watch"},
		{[]string{"--watch", "--interval", "5"}, `"5" needs a unit`},
		{[]string{"--watch", "--interval", "10ms"}, "at least 1s"},
		{[]string{"--watch", "--interval", "-5s"}, "--interval"},
		{[]string{"--html", ""}, "--html has an empty value"},
		{[]string{"--html", dir}, "no regular file"},
		{[]string{"--html", filepath.Join(dir, "pipe")}, "no regular file"},
		{[]string{"--html", filepath.Join(dir, "link")}, "no regular file"},
		{[]string{"--html", filepath.Join(dir, "missing", "x.html")}, "no such file or directory"},
		{[]string{"--html", filepath.Join(config, "x.html")}, "not a directory"},
		{[]string{"--watch", "watched.nothing*"}, "matches no table"},
	} {
		r := w.compactor(append(append([]string{"inspect", "--config", config}, c.args...), "watched.events")...)
		require.Equal(t, 2, r.code, "%v: %s", c.args, r.stderr)
		require.Contains(t, r.stderr, c.says)
		require.Empty(t, r.stdout)
	}
	info, err := os.Stat(filepath.Join(dir, "pipe"))
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeNamedPipe, "what a link leads to is not replaced")

	target, link := filepath.Join(dir, "target.html"), filepath.Join(dir, "page.html")
	require.NoError(t, os.WriteFile(target, nil, 0o600))
	require.NoError(t, os.Symlink(target, link))
	require.Equal(t, 0, w.compactor("inspect", "--config", config, "--html", link, "watched.events").code)
	text, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Contains(t, string(text), "watched.events")
}

// A page that cannot be written is a failure, the result is there all the same,
// and JSON is one document.
func TestAPageThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	config, _ := sampleTable(t)
	dir := t.TempDir()
	w := &world{t: t, env: map[string]string{}}
	args := []string{"inspect", "--config", config, "--html", filepath.Join("/proc", "page.html"), "watched.events"}
	r := w.compactor(args...)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.stdout, "6 files, ")
	require.Contains(t, r.stderr, "write /proc/page.html: ")
	r = w.compactor(append(args, "-o", "json")...)
	require.Equal(t, 1, r.code)
	dec := json.NewDecoder(strings.NewReader(r.stdout))
	var doc inspection
	require.NoError(t, dec.Decode(&doc))
	require.False(t, dec.More(), "one document")
	require.Equal(t, []any{1, int64(6)}, []any{doc.ExitCode, doc.Tables[0].Data.Files})
	require.Contains(t, doc.Error, "write /proc/page.html: ")

	path := filepath.Join(dir, "page.html")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	require.ErrorIs(t, replaceFile(path, func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Repeat("half a page", 1000))

		return errors.Join(err, errors.New("disk full"), os.ErrInvalid)
	}), os.ErrInvalid)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(text))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "what was begun is removed")
}
