package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"compactor/internal/tabletest"
)

// terminal is a pseudo terminal of so many columns, with what was written to it.
type terminal struct {
	tty  *os.File
	seen *lockedBuffer
}

func newTerminal(t *testing.T, columns uint16) *terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	master := os.NewFile(uintptr(fd), "/dev/ptmx")
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
	term := &terminal{tty: tty, seen: &lockedBuffer{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			_, _ = term.seen.Write(buf[:n]) // It never fails.
			if err != nil {
				return // The other side is closed.
			}
		}
	}()
	t.Cleanup(func() {
		_ = tty.Close() // It may be closed.
		<-read
		_ = master.Close() // Only read.
	})

	return term
}

// on runs the program with its stderr on the terminal.
func (w *world) on(term *terminal, env []string, args ...string) *process {
	w.t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), asProgram+"=1", "TERM=xterm"), env...)
	for k, v := range w.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	p := &process{t: w.t, cmd: cmd, stdout: &lockedBuffer{}, stderr: term.seen, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.stdout, term.tty
	p.start()

	return p
}

// A terminal shows what a step does, in lines that fit, redrawn in place; a dumb one, a file and --quiet do not.
func TestATerminalShowsWhatIsDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 6, 1)
	held, err := w.openClaimer().Acquire(t.Context(), w.key(), acquireNow())
	require.NoError(t, err)
	const columns = 60
	drawn, dumb, quiet := newTerminal(t, columns), newTerminal(t, columns), newTerminal(t, columns)
	args := []string{"compact", "--config", w.config, "--log-level", "warn", w.name()}
	a := w.on(drawn, []string{"NO_COLOR=1"}, args...)
	b := w.on(dumb, []string{"TERM=dumb"}, args...)
	c := w.on(quiet, nil, append(args, "--quiet")...)
	wanted := cutName(w.name(), columns)
	require.Eventually(t, func() bool {
		return strings.Contains(drawn.seen.String(), "waiting for the claim, held by writer@test")
	}, time.Minute, 10*time.Millisecond, "drawn: %q", drawn.seen)
	require.NoError(t, held.Release(t.Context()))
	for _, p := range []*process{a, b, c} {
		require.Equal(t, 0, p.wait(time.Minute), p.stderr.String())
	}
	text := drawn.seen.String()
	require.Contains(t, text, wanted)
	require.Contains(t, text, "\x1b[1A\r\x1b[J", "redrawn in place")
	require.NotContains(t, text, "\x1b[3", "no colours")
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\x1b[J", "\r"), "\n") {
		line = strings.TrimRight(line, "\r")
		line = line[strings.LastIndexByte(line, '\r')+1:]
		require.Less(t, len([]rune(line)), columns, "%q", line)
	}
	require.True(t, strings.HasSuffix(text, "\x1b[J"), "nothing is left: %q", text)
	for _, silent := range []*terminal{dumb, quiet} {
		require.NotContains(t, silent.seen.String(), "\x1b[1A")
		require.NotContains(t, silent.seen.String(), "waiting for the claim")
	}
}

// cutName is the beginning of a name that is shown on a narrow terminal.
func cutName(name string, columns int) string { return name[:min(len(name), columns/8)] }
