package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// finding is what one search found.
type finding struct {
	Verdict verdict // Empty if the search proves nothing; Problem says why.
	Problem string
	States  float64
	Depth   int
}

var (
	errorsLine = regexp.MustCompile(`depth reached (\d+), errors: (\d+)`)
	statesLine = regexp.MustCompile(`(?m)^\s*([0-9.e+]+) states, stored`)
	firstError = regexp.MustCompile(`(?m)^pan:1: (.*)$`)
	incomplete = regexp.MustCompile(`max search depth too small|out of memory|memory bound|MEMLIM|resizing hashtable failed|hash.compact|bit statespace search\s+\+`)
)

// readOutput judges the output of a verifier. A violation counts only if it is
// worded as the method words it: an assertion inside the model or an index out of
// bounds is a fault of the model, not of the property. A search that was cut short
// proves nothing, unless it found a violation.
func readOutput(out string, m method, probe bool) finding {
	var f finding
	counts := errorsLine.FindStringSubmatch(out)
	states := statesLine.FindStringSubmatch(out)
	if counts == nil || states == nil {
		f.Problem = "no result: " + lastLine(out)
		return f
	}
	f.Depth, _ = strconv.Atoi(counts[1])
	f.States, _ = strconv.ParseFloat(states[1], 64)
	if counts[2] != "0" {
		message := "unknown error"
		if first := firstError.FindStringSubmatch(out); first != nil {
			message = first[1]
		}
		if !strings.HasPrefix(message, m.Violation) {
			f.Problem = "unexpected: " + shorten(message)
			return f
		}
		f.Verdict = violated
		if probe {
			f.Verdict = reached
		}
		return f
	}
	if cut := incomplete.FindString(out); cut != "" {
		f.Problem = "not exhaustive: " + cut
		return f
	}
	if strings.Contains(out, "Search not completed") {
		f.Problem = "not exhaustive: search not completed"
		return f
	}
	f.Verdict = holds
	return f
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return shorten(s[strings.LastIndexByte(s, '\n')+1:])
}

func shorten(s string) string {
	const most = 100
	if len(s) > most {
		return fmt.Sprintf("%s… (%d bytes)", s[:most], len(s))
	}
	return s
}
