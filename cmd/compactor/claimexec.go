package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"compactor/internal/tablename"
	"compactor/pkg/claim"
	"compactor/pkg/maintenance"
)

// The statuses with which `claim exec` reports its own failures, as env(1) does.
const (
	exitOwnFailure  = 125
	exitCannotStart = 126
	exitNotFound    = 127
)

const claimExecDescription = `Waits for the claim of TABLE, runs COMMAND while it is held, and exits with the
status of COMMAND (128 + N when signal N ended it), like flock(1). COMMAND must do
all its work on the table before it ends, and leave none behind in the background.
SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1 and SIGUSR2 are passed on to it and to
what it started; on a terminal to it alone, which sends Ctrl-C to all of them itself.

When the claim is lost, COMMAND gets SIGTERM, and SIGKILL after --grace; whatever
its own status, the status is then 125. When this program is killed, COMMAND is
killed with it (Linux).

Own failures: 125, among them a wrong command line, no connection, a lost claim;
126 and 127 when COMMAND cannot be started or found, which is known before the
claim is taken; --conflict-exit-code when the claim was not granted within
--claim-timeout. A signal while waiting ends the wait with 129, 130 or 143.
--max-hold and --max-rounds have no effect: one claim is held to the end.`

func claimExecCommand(env environment) *cli.Command {
	const category = "Command:"

	return &cli.Command{
		Name:        "exec",
		Usage:       "run a command while the claim of a table is held, like flock(1)",
		UsageText:   "compactor claim exec [flags] TABLE -- COMMAND [argument...]",
		Description: claimExecDescription,
		Flags: append([]cli.Flag{
			&cli.IntFlag{Name: "conflict-exit-code", Value: 1, Category: category, Usage: "exit with `STATUS` when the claim was not granted in time"},
			&cli.DurationFlag{Name: "grace", Value: 5 * time.Second, Category: category, Usage: "after the claim was lost, let `DURATION` pass between SIGTERM and SIGKILL"},
		}, claimFlagSet()...),
		OnUsageError: func(c *cli.Context, err error, sub bool) error { return ownFailure(onUsageError(c, err, sub)) },
		Action: func(c *cli.Context) error {
			err := claimExec(c.Context, c, env)
			if errors.Is(err, claim.ErrHeld) {
				return &commandStatus{code: c.Int("conflict-exit-code"), err: err}
			}

			return ownFailure(err)
		},
	}
}

// commandStatus is the end of a command under a claim, or of the attempt to run it.
type commandStatus struct {
	code int
	err  error // nil when it is the command's own status
}

func (s *commandStatus) Error() string {
	if s.err == nil {
		return "command ended with status " + strconv.Itoa(s.code)
	}

	return s.err.Error()
}

func (s *commandStatus) Unwrap() error { return s.err }

// ownFailure gives an error the status of a failure that is not the command's. A
// signal that ended the wait keeps its own.
func ownFailure(err error) error {
	var status *commandStatus
	var signalled *signalError
	if err == nil || errors.As(err, &status) || errors.As(err, &signalled) {
		return err
	}

	return &commandStatus{code: exitOwnFailure, err: err}
}

// execRequest is a checked command line of `claim exec`.
type execRequest struct {
	table   []string
	command []string
	path    string // of the program
	grace   time.Duration
}

func parseExec(c *cli.Context) (execRequest, error) {
	args := c.Args().Slice()
	if len(args) < 3 || args[1] != "--" {
		return execRequest{}, usagef("write: compactor claim exec TABLE -- COMMAND [argument...]")
	}
	ident, err := parseOne(args[0])
	if err != nil {
		return execRequest{}, err
	}
	if code := c.Int("conflict-exit-code"); code < 0 || code > 255 {
		return execRequest{}, usagef("--conflict-exit-code %d: use 0 to 255", code)
	}
	r := execRequest{table: ident, command: args[2:], grace: c.Duration("grace")}
	if r.grace < 0 {
		return r, usagef("--grace %s: use 0s or more", r.grace)
	}
	r.path, err = exec.LookPath(r.command[0])
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return r, &commandStatus{code: exitNotFound, err: fmt.Errorf("find command: %w", err)}
	case err != nil:
		return r, &commandStatus{code: exitCannotStart, err: fmt.Errorf("find command: %w", err)}
	}

	return r, nil
}

// claimExec runs a command under a claim. Effects, in order: the command is
// found, the authority reached, the claim taken, the command run, the claim
// verified once more and given back. Killed at any point, the session ends and
// with it the claim; the command does not outlive this process.
func claimExec(ctx context.Context, c *cli.Context, env environment) error {
	r, err := parseExec(c)
	if err != nil {
		return err
	}
	s, err := openClaimSession(c, env, true)
	if err != nil {
		return err
	}
	defer s.close()
	ident, _, err := s.spelling(ctx, r.table)
	if err != nil {
		return err
	}
	// A signal ends the wait; once the claim is held signals are the command's.
	waiting, detach := detachable(ctx)
	held, err := claimAdapter{session: s}.Acquire(waiting, ident)
	if err != nil {
		return fmt.Errorf("%s: %w", tablename.String(ident), err)
	}
	defer s.giveBack(context.WithoutCancel(ctx), held)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded()...)
	defer signal.Stop(signals)
	if err := detach(); err != nil {
		return err
	}
	status, err := s.supervise(r, env).run(held.Context(), signals) //nolint:contextcheck // The claim's own context: it ends when the claim is lost.
	if err != nil {
		return err
	}
	verifying, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if _, err := held.Verify(verifying); err != nil {
		return fmt.Errorf("command ended with status %d, but the claim did not last until then: %w", status, err)
	}
	if status != 0 {
		return &reportedError{&commandStatus{code: status}}
	}

	return nil
}

// supervise prepares the command of a request.
func (s *session) supervise(r execRequest, env environment) *supervised {
	cmd := exec.Command(r.path, r.command[1:]...) //nolint:noctx // It is ended by signals, in steps, and not with a context.
	cmd.Args[0] = r.command[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = env.stdin, env.stdout, env.stderr

	return &supervised{cmd: cmd, grace: r.grace, ownGroup: !onTerminal(env.stdin), log: s.log}
}

// giveBack releases the claim. When PostgreSQL does not confirm, the end of the
// session does the same, so that it is no failure of the command.
func (s *session) giveBack(ctx context.Context, held maintenance.Claim) {
	if err := held.Release(ctx); err != nil {
		s.log.Warn().Err(err).Msg("release claim")
	}
}

// detachable returns a child of ctx, and a function that cuts it off from ctx, or
// returns why ctx has ended before.
func detachable(ctx context.Context) (context.Context, func() error) {
	child, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })

	return child, func() error {
		if !stop() {
			return context.Cause(ctx)
		}

		return nil
	}
}
