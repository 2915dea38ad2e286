package main

import (
	"fmt"
	"io"
	"strings"

	"compactor/internal/tablename"
)

// writeText prints the checks by part, for people.
func (r checkupReport) writeText(w io.Writer) error {
	var b strings.Builder
	part := ""
	for _, c := range r.Checks {
		if c.Part != part {
			part = c.Part
			fmt.Fprintf(&b, "%s\n", part)
		}
		const margin = "           "
		fmt.Fprintf(&b, "  %-8s %s: %s\n", c.Verdict, c.Name, strings.ReplaceAll(tablename.Printable(c.Text), "\n", "\n"+margin))
		if c.Remedy != "" {
			fmt.Fprintf(&b, "%s%s\n", margin, c.Remedy)
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write result: %w", err)
	}

	return nil
}

// withoutHint is a text without the hint that stands in it.
func withoutHint(text, hint string) string {
	return strings.Replace(text, "; "+hint, "", 1)
}
