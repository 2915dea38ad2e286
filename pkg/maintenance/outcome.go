package maintenance

import (
	"context"
	"errors"
	"strings"
)

// outcome is an error together with its class and, where it is known, with what
// brought it about: a signal, or the end of the claim. errors.Is and errors.As
// find all three. The message is one line, because it stands in reports and logs.
type outcome struct{ class, cause, err error }

// classed gives err a class. cause may be nil; err is nil when only the cause is known.
func classed(class, cause, err error) error { return outcome{class: class, cause: cause, err: err} }

func (o outcome) Error() string {
	text := oneLine(o.class)
	if o.cause != nil {
		text += ": " + oneLine(o.cause)
	}
	// What failed because the work was cancelled says nothing that the cause does not say.
	if o.err != nil && (o.cause == nil || !errors.Is(o.err, o.cause) && !errors.Is(o.err, context.Canceled)) {
		text += ": " + oneLine(o.err)
	}

	return text
}

func (o outcome) Unwrap() []error {
	all := make([]error, 0, 3)
	for _, err := range []error{o.class, o.cause, o.err} {
		if err != nil {
			all = append(all, err)
		}
	}

	return all
}

// oneLine puts the lines of a joined error behind each other.
func oneLine(err error) string {
	return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
}
