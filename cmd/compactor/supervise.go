package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// supervised is a command that runs for as long as a claim is held.
type supervised struct {
	cmd   *exec.Cmd
	grace time.Duration
	// ownGroup makes the command the head of a process group of its own, so that
	// signals reach all that it starts. A terminal has its own idea of groups.
	ownGroup bool
	log      zerolog.Logger
}

// ending is the end of a command, with what the wait for it returned.
type ending struct{ err error }

// forwarded lists the signals that are passed on: those that a program may be
// told something with, except the ones that this process was told to ignore.
func forwarded() []os.Signal {
	var out []os.Signal
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(s) {
			out = append(out, s)
		}
	}

	return out
}

// onTerminal says whether a person's terminal is connected.
func onTerminal(stdin io.Reader) bool {
	f, ok := stdin.(*os.File)

	return ok && term.IsTerminal(int(f.Fd()))
}

// run starts the command, passes signals on, and returns its status when it has
// ended. When held ends first, the command is ended and the error is why held
// ended. A command that could not be started gives a *commandStatus.
func (p *supervised) run(held context.Context, signals <-chan os.Signal) (status int, err error) {
	ended, err := p.start()
	if err != nil {
		return 0, &commandStatus{code: exitCannotStart, err: fmt.Errorf("start command: %w", err)}
	}
	for {
		select {
		case e := <-ended:
			return p.status(e.err)
		case s := <-signals:
			p.forward(s)
		case <-held.Done():
			p.end(ended, signals)

			return 0, fmt.Errorf("command was ended: %w", context.Cause(held))
		}
	}
}

// start starts the command from a thread that stays until the command has ended:
// the kernel takes the end of the thread for that of the parent.
func (p *supervised) start() (ended <-chan ending, err error) {
	p.cmd.SysProcAttr = bound(p.ownGroup)
	started, done := make(chan error), make(chan ending, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			done <- ending{p.cmd.Wait()}
		}
	}()

	return done, <-started
}

// forward passes a signal on. On a terminal the keys that interrupt and quit have
// reached the command already.
func (p *supervised) forward(s os.Signal) {
	sig, ok := s.(syscall.Signal)
	if !ok || !p.ownGroup && (sig == syscall.SIGINT || sig == syscall.SIGQUIT) {
		return
	}
	p.log.Debug().Str("signal", sig.String()).Msg("signal passed on to the command")
	p.kill(sig)
}

// kill sends a signal to the command, and to its group if that is its own. That
// it has ended in the meantime is no error.
func (p *supervised) kill(sig syscall.Signal) {
	pid := p.cmd.Process.Pid
	if p.ownGroup {
		pid = -pid
	}
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		p.log.Warn().Err(err).Str("signal", sig.String()).Msg("signal the command")
	}
}

// end makes the command end: it may tidy up for a while, then it is killed, and
// with it what is left of its group. Signals that arrive meanwhile change nothing.
func (p *supervised) end(ended <-chan ending, signals <-chan os.Signal) {
	p.log.Error().Dur("grace", p.grace).Msg("the claim is lost: the command is told to end")
	p.kill(syscall.SIGTERM)
	p.kill(syscall.SIGCONT)
	patience := time.NewTimer(p.grace)
	defer patience.Stop()
	for {
		select {
		case <-ended:
			// The group keeps its number as long as somebody is in it.
			if p.ownGroup {
				p.kill(syscall.SIGKILL)
			}

			return
		case <-signals:
		case <-patience.C:
			p.log.Error().Msg("the command did not end in time: it is killed")
			p.kill(syscall.SIGKILL)
			<-ended

			return
		}
	}
}

// status is what a shell would report for the end of the command.
func (p *supervised) status(err error) (int, error) {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, fmt.Errorf("wait for command: %w", err)
	}
	if w, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		const signalled = 128

		return signalled + int(w.Signal()), nil
	}

	return p.cmd.ProcessState.ExitCode(), nil
}
