package claim

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrHeld is matched by every error that means: somebody else has the table
	// and the timeout of Acquire passed. Nothing was left behind; trying again
	// later is safe.
	ErrHeld = errors.New("claim is held by another writer")
	// ErrLost is matched by every error that means: the claim was ours and can no
	// longer be relied upon. Whatever was done under it must not be committed.
	ErrLost = errors.New("claim is lost")

	// errReleased is the cause with which a claim's context ends when its owner
	// gave it back.
	errReleased = errors.New("claim was released")
	// errNotOurs is what a check reports when PostgreSQL answers that the claim is
	// not held by our session.
	errNotOurs = errors.New("PostgreSQL says that this session does not hold the claim")
	// errOutOfContact is what a check in mode bakery reports when the peers may
	// soon skip this node: the claim is there, but must not be relied upon.
	errOutOfContact = errors.New("this node was out of contact with a majority")
	// errStoodStill is what a keeper finds when nothing was asked for a lease.
	errStoodStill = errors.New("this process gave no sign of life")
)

// HeldError says that the claim was not granted in time, and who has it.
type HeldError struct {
	Key Key
	// Holder is what the holder calls itself; empty when it could not be learnt.
	Holder string
	// HeldFor is how long the holder has had the claim, zero when unknown. For
	// writers that do not state their start it is only a lower bound.
	HeldFor time.Duration
	// Waited is how long this caller stood in the queue.
	Waited time.Duration
	// Detail says more where there is more to say, for example whose answer is missing.
	Detail string
}

// Error names the table, the holder and both durations.
func (e *HeldError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "acquire claim %s: not granted within %s", e.Key, round(e.Waited))
	switch {
	case e.Holder == "":
		b.WriteString(", holder unknown")
	case e.HeldFor > 0:
		fmt.Fprintf(&b, ", held by %s for %s", e.Holder, round(e.HeldFor))
	default:
		fmt.Fprintf(&b, ", held by %s", e.Holder)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, " (%s)", e.Detail)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// LostError says why a claim is no longer ours. It deliberately does not unwrap
// to the network or context error behind it, so that no caller mistakes a
// terminal loss for something that may be retried.
type LostError struct {
	Key    Key
	Reason string
}

// Error names the table and the reason.
func (e *LostError) Error() string {
	return fmt.Sprintf("claim %s lost: %s", e.Key, e.Reason)
}

// Is makes errors.Is(err, ErrLost) true.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// SetupError is a problem an operator has to fix before any claim can be taken.
// Trying again without a change gives the same result.
type SetupError struct {
	// What is wrong, in words.
	What string
	// Where it is: a host and database without password, a directory, a setting.
	Where string
	// Hint says what to do about it.
	Hint string
	// Err is the error that showed the problem, if there was one.
	Err error
}

// Error puts what, where, cause and hint into one line.
func (e *SetupError) Error() string {
	var b strings.Builder
	b.WriteString(e.What)
	if e.Where != "" {
		b.WriteString(" at " + e.Where)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Unwrap returns the error that showed the problem.
func (e *SetupError) Unwrap() error { return e.Err }

// round shortens a duration to what a person wants to read.
func round(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
