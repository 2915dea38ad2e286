package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"compactor/pkg/claim"
	"compactor/pkg/claim/bakery"
	"compactor/pkg/maintenance"
	"compactor/pkg/rewrite"
)

// exitRule maps a class of errors to an exit code. Rules are tried from the
// top: the first that matches decides, so that a run over several tables ends
// with its worst outcome.
type exitRule struct {
	code    int
	meaning string
	matches func(error) bool
}

func is(targets ...error) func(error) bool {
	return func(err error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}

		return false
	}
}

// exitRules is the one table of exit codes: the program, its help, and
// docs/reference/commands.md are made from it.
func exitRules() []exitRule {
	return []exitRule{
		{12, "halt: an integrity check failed; nothing was committed; do not retry, look", is(maintenance.ErrHalt, rewrite.ErrIntegrity)},
		{5, "ambiguous: it could not be learnt whether the commit happened; no file was deleted", is(maintenance.ErrAmbiguous)},
		{4, "conflict: the catalog rejected the commit under a held claim: some writer does not take the claim; the foreign snapshot is named", is(maintenance.ErrConflict)},
		{11, "lost: the claim was lost, nothing was committed in that round", is(maintenance.ErrClaimLost, claim.ErrLost)},
		{130, "SIGINT: stopped cleanly", stoppedBy(syscall.SIGINT)},
		{143, "SIGTERM: stopped cleanly", stoppedBy(syscall.SIGTERM)},
		{129, "SIGHUP: stopped cleanly, as by SIGTERM", stoppedBy(syscall.SIGHUP)},
		{10, "held: the claim was not granted within the timeout; the holder and its age are named", is(maintenance.ErrClaimHeld, claim.ErrHeld)},
		{2, "usage or configuration (also: PostgreSQL is a standby, TLS, pooler, missing grants)", isUsage},
		{3, "partial: some steps, groups or tables were refused or failed, the rest is done", isPartial},
		{1, "failed (also: PostgreSQL, catalog or store unreachable); nothing committed for the failing step", func(err error) bool { return err != nil }},
		{0, "done, or nothing to do", func(err error) bool { return err == nil }},
	}
}

// exitFailed is the code of errors that no other rule matches.
const exitFailed = 1

// exitCode is the only way from an error to the status of the process.
func exitCode(err error) int {
	var s *commandStatus
	if errors.As(err, &s) {
		return s.code
	}
	for _, r := range exitRules() {
		if r.matches(err) {
			return r.code
		}
	}

	return exitFailed
}

// stopped is what a failure is once a signal has ended ctx: whatever it was that
// failed because of it, its exit code is that of the signal.
func stopped(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || exitCode(err) != exitFailed {
		return err
	}

	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}

// severity orders codes over several tables, worst first.
var severity = [...]int{12, 5, 4, 11, 143, 129, 130, 10, 2, 1, 3, 0}

// worst returns the error that decides the exit code of a run.
func worst(errs []error) error {
	for _, code := range severity {
		for _, err := range errs {
			if err != nil && exitCode(err) == code {
				return err
			}
		}
	}

	return nil
}

func stoppedBy(signal syscall.Signal) func(error) bool {
	return func(err error) bool {
		var s *signalError

		return errors.As(err, &s) && s.signal == signal
	}
}

// usageError is a wrong command line or configuration.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

func isUsage(err error) bool {
	var u *usageError
	var s *claim.SetupError
	var check *bakery.CheckError
	var found *findingsError

	return errors.As(err, &u) || errors.As(err, &s) || errors.As(err, &check) || errors.As(err, &found) && found.errors > 0 ||
		is(bakery.ErrPlan, bakery.ErrMember, bakery.ErrNewerSchema)(err)
}

func isPartial(err error) bool {
	var found *findingsError // Warnings: it works, and something is to be looked at.

	return is(maintenance.ErrPartial, maintenance.ErrRefused)(err) || errors.As(err, &found)
}

// reportedError was already shown to the user as part of the report.
type reportedError struct{ err error }

func (e *reportedError) Error() string { return e.err.Error() }
func (e *reportedError) Unwrap() error { return e.err }

func wasReported(err error) bool {
	var r *reportedError

	return errors.As(err, &r)
}

// writeExitCodes prints the table in ascending order.
func writeExitCodes(w io.Writer) error {
	var b strings.Builder
	for _, code := range [...]int{0, 1, 2, 3, 4, 5, 10, 11, 12, 129, 130, 143} {
		for _, r := range exitRules() {
			if r.code == code {
				fmt.Fprintf(&b, "%4d  %s\n", r.code, r.meaning)
			}
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write exit codes: %w", err)
	}

	return nil
}
