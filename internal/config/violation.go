package config

import (
	"fmt"
	"sort"
	"strings"
)

// Violation is one thing that is wrong with a configuration.
type Violation struct {
	// Key is the key concerned, as the operator wrote it; it may be empty.
	Key string
	// Origin is where the value came from.
	Origin Origin
	// Message says what is wrong and what would be right.
	Message string
}

// String writes the place, the key and what is wrong with it.
func (v Violation) String() string {
	var b strings.Builder
	switch {
	case v.Origin.Kind == FromFile && v.Origin.Line > 0:
		fmt.Fprintf(&b, "%s:%d: ", v.Origin.Path, v.Origin.Line)
	case v.Origin.Kind != FromDefault:
		b.WriteString(v.Origin.String() + ": ")
	}
	if v.Key != "" {
		b.WriteString(v.Key + ": ")
	}
	b.WriteString(v.Message)
	return b.String()
}

// Violations is the error of a configuration that cannot be used: everything
// that is wrong with it, in the order of the file. A retry without a change
// gives the same answer.
type Violations []Violation

// Error writes one violation a line.
func (v Violations) Error() string {
	if len(v) == 1 {
		return "configuration: " + v[0].String()
	}
	lines := make([]string, len(v))
	for i, one := range v {
		lines[i] = "  " + one.String()
	}
	return fmt.Sprintf("configuration: %d violations\n%s", len(v), strings.Join(lines, "\n"))
}

// orNil returns v as an error, or nil when there is none.
func (v Violations) orNil() error {
	if len(v) == 0 {
		return nil
	}
	sort.SliceStable(v, func(i, j int) bool {
		a, b := v[i].Origin, v[j].Origin
		if (a.Line > 0) != (b.Line > 0) {
			return a.Line > 0
		}
		return a.Line < b.Line
	})
	return v
}

// add appends one violation.
func (v *Violations) add(key string, o Origin, format string, args ...any) {
	*v = append(*v, Violation{Key: key, Origin: o, Message: fmt.Sprintf(format, args...)})
}
