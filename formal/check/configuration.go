package main

import (
	"fmt"
	"slices"
	"strings"
)

// verdict is what a search is expected to find, or found.
type verdict string

const (
	holds    verdict = "holds"
	violated verdict = "violated"
	reached  verdict = "reached"
)

// expectation is one property and what its search must find.
type expectation struct {
	Property string
	Want     verdict
}

// configuration is one paragraph of the file of configurations.
type configuration struct {
	Name         string
	Tag          string   // "", "beyond" or "long".
	Model        string   // Name of the model's file, without extension.
	Switches     []string // -D switches.
	Expectations []expectation
}

// parseConfigurations reads the file of configurations. Its format is explained at
// the head of that file. Errors name the line.
func parseConfigurations(text string) ([]configuration, error) {
	var all []configuration
	names := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		var err error
		if strings.HasPrefix(line, " ") {
			err = addExpectations(all, fields)
		} else {
			var c configuration
			c, err = parseHeader(line)
			if err == nil && names[c.Name] {
				err = fmt.Errorf("configuration %s appears twice", c.Name)
			}
			names[c.Name] = true
			all = append(all, c)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	for _, c := range all {
		if len(c.Expectations) == 0 {
			return nil, fmt.Errorf("configuration %s expects nothing", c.Name)
		}
	}
	return all, nil
}

func parseHeader(line string) (configuration, error) {
	title, rest, found := strings.Cut(line, ":")
	words, settings := strings.Fields(title), strings.Fields(rest)
	if !found || len(words) == 0 || len(words) > 2 || len(settings) == 0 {
		return configuration{}, fmt.Errorf("%q is not of the form name [tag]: model switches", line)
	}
	c := configuration{Name: words[0], Model: settings[0], Switches: settings[1:]}
	if len(words) == 2 {
		c.Tag = strings.Trim(words[1], "[]")
		if c.Tag != "beyond" && c.Tag != "long" {
			return configuration{}, fmt.Errorf("unknown tag %s", words[1])
		}
	}
	for _, s := range c.Switches {
		if !strings.HasPrefix(s, "-D") {
			return configuration{}, fmt.Errorf("switch %s does not begin with -D", s)
		}
	}
	return c, nil
}

func addExpectations(all []configuration, fields []string) error {
	if len(all) == 0 {
		return fmt.Errorf("%q stands before any configuration", strings.Join(fields, " "))
	}
	want := map[string]verdict{"holds": holds, "violated": violated, "reaches": reached}[fields[0]]
	if want == "" || len(fields) < 2 {
		return fmt.Errorf("%q is no expectation", strings.Join(fields, " "))
	}
	c := &all[len(all)-1]
	for _, p := range fields[1:] {
		if slices.ContainsFunc(c.Expectations, func(e expectation) bool { return e.Property == p }) {
			return fmt.Errorf("property %s appears twice in %s", p, c.Name)
		}
		if strings.HasPrefix(p, "Probe") != (want == reached) {
			return fmt.Errorf("%s %s: a probe is reached, a property holds or is violated", fields[0], p)
		}
		c.Expectations = append(c.Expectations, expectation{Property: p, Want: want})
	}
	return nil
}
