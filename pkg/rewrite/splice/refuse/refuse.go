// Package refuse has the error with which a part of the splice engine says that
// it does not know how to move something without decoding it. It is no failure:
// the general engine takes over.
package refuse

import "fmt"

// Rule names the reason in a few words that stay the same from file to file, so
// that reports can be counted by it.
type Rule string

// Error is a refusal.
type Error struct {
	Rule Rule
	// Detail says what it was about: a column, a file, a number.
	Detail string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Detail == "" {
		return string(e.Rule)
	}

	return fmt.Sprintf("%s: %s", e.Rule, e.Detail)
}
