package main

import (
	"bytes"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process is the program as a process of its own.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr *lockedBuffer
	done           chan struct{}
	code           int
}

func (w *world) start(args ...string) *process {
	w.t.Helper()

	return w.startFile(os.Args[0], args...)
}

// startFile starts a given build of the program.
func (w *world) startFile(file string, args ...string) *process {
	w.t.Helper()

	return w.startIn(nil, file, args...)
}

// startIn is startFile with attributes of the process, such as another root. Its
// working directory is that root then.
func (w *world) startIn(attr *syscall.SysProcAttr, file string, args ...string) *process {
	w.t.Helper()
	cmd := exec.Command(file, args...)
	if attr != nil {
		cmd.SysProcAttr, cmd.Dir = attr, "/"
	}
	cmd.Env = append(os.Environ(), asProgram+"=1")
	for k, v := range w.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	p := &process{t: w.t, cmd: cmd, stdout: &lockedBuffer{}, stderr: &lockedBuffer{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.stdout, p.stderr
	p.start()

	return p
}

// start starts the process, which ends with the test at the latest.
func (p *process) start() {
	p.t.Helper()
	p.cmd.WaitDelay = 10 * time.Second // Whatever is left of a command must not hold the test up.
	require.NoError(p.t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // The code is what counts.
		p.code = p.cmd.ProcessState.ExitCode()
		close(p.done)
	}()
	p.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // It has ended long ago unless the test failed.
		<-p.done
	})
}

// wait returns the exit code.
func (p *process) wait(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.code
	case <-time.After(limit):
		p.t.Fatalf("the program still runs after %s; stderr: %s", limit, p.stderr)

		return 0
	}
}

func (p *process) result(limit time.Duration) result {
	code := p.wait(limit)

	return result{code: code, stdout: p.stdout.String(), stderr: p.stderr.String()}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.b.String()
}
