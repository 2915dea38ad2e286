package main

import (
	"fmt"
	"io"
	"strings"
)

// printer writes the report line by line and remembers what went wrong.
type printer struct {
	out      io.Writer
	markdown bool
	total    int
	differ   []string
	seconds  float64
}

func (p *printer) head() {
	if p.markdown {
		p.line("| configuration | property | expected | found | states | depth | s |")
		p.line("|---|---|---|---|---|---|---|")
		return
	}
	p.line("%-24s %-22s %-9s %-9s %12s %6s %8s", "configuration", "property", "expected", "found", "states", "depth", "seconds")
}

// result writes the line of one search.
func (p *printer) result(r result) {
	p.total++
	p.seconds += r.Seconds
	found := string(r.Verdict)
	if r.Problem != "" {
		found = r.Problem
	}
	note := ""
	if !r.asExpected() {
		p.differ = append(p.differ, r.Configuration.Name+" "+r.Expectation.Property)
		note = "  DIFFERS"
	}
	format := "%-24s %-22s %-9s %-9s %12.0f %6d %8.1f%s"
	if p.markdown {
		format = "| %s | %s | %s | %s | %.0f | %d | %.1f |%s"
	}
	p.line(format, r.Configuration.Name, r.Expectation.Property, string(r.Expectation.Want), found, r.States, r.Depth, r.Seconds, note)
}

// end writes the sum and returns errDiffers, naming the searches that differ.
func (p *printer) end() error {
	p.line("")
	p.line("%d searches, %.0f s of processor time, %d not as expected", p.total, p.seconds, len(p.differ))
	if len(p.differ) > 0 {
		return fmt.Errorf("%w: %s", errDiffers, strings.Join(p.differ, ", "))
	}
	return nil
}

// line ignores write errors: the exit status carries the verdict even if nobody
// reads the lines.
func (p *printer) line(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format+"\n", args...)
}
