package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestConfigurationsAreWellFormed reads the project's own file and checks that it
// names only models, properties and probes that exist.
func TestConfigurationsAreWellFormed(t *testing.T) {
	all := readAll(t)
	declared := map[string]string{}
	for _, model := range []string{"claims", "partition"} {
		for _, part := range []string{"", "_network", "_properties"} {
			text, err := os.ReadFile("../" + model + part + ".pml")
			if err != nil {
				t.Fatal(err)
			}
			declared[model] += string(text)
		}
	}
	for _, c := range all {
		text, ok := declared[c.Model]
		if !ok {
			t.Errorf("%s: no model %s", c.Name, c.Model)
		}
		for _, e := range c.Expectations {
			if !strings.Contains(text, "ltl "+e.Property+" ") && !strings.Contains(text, "(END_"+e.Property+")") &&
				!strings.Contains(text, "END_"+e.Property+"\n") {
				t.Errorf("%s: model %s does not declare %s", c.Name, c.Model, e.Property)
			}
		}
		for _, s := range c.Switches {
			name, _, _ := strings.Cut(strings.TrimPrefix(s, "-D"), "=")
			if !regexp.MustCompile(`\b` + name + `\b`).MatchString(text) {
				t.Errorf("%s: model %s knows no switch %s", c.Name, c.Model, s)
			}
		}
	}
}

// TestDocumentationNamesEveryConfiguration keeps docs/formal.md complete.
func TestDocumentationNamesEveryConfiguration(t *testing.T) {
	doc, err := os.ReadFile("../../docs/formal.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range readAll(t) {
		for _, e := range c.Expectations {
			row := "| " + c.Name + " | " + e.Property + " | " + string(e.Want) + " |"
			if !strings.Contains(string(doc), row) {
				t.Errorf("docs/formal.md has no row %q", row)
			}
		}
	}
}

func readAll(t *testing.T) []configuration {
	t.Helper()
	text, err := os.ReadFile("../configurations")
	if err != nil {
		t.Fatal(err)
	}
	all, err := parseConfigurations(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestParseRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for text, want := range map[string]string{
		"a: m\n  holds P\na: m\n  holds P":    "line 3: configuration a appears twice",
		"a: m\n  holds P\n  violated P":       "line 3: property P appears twice in a",
		"a: m\n  proves P":                    `line 2: "proves P" is no expectation`,
		"a: m\n  holds":                       `line 2: "holds" is no expectation`,
		"a: m\n  holds ProbeX":                "line 2: holds ProbeX: a probe is reached, a property holds or is violated",
		"a: m\n  reaches P":                   "line 2: reaches P: a probe is reached, a property holds or is violated",
		"  holds P":                           `line 1: "holds P" stands before any configuration`,
		"a m":                                 `line 1: "a m" is not of the form name [tag]: model switches`,
		"a: ":                                 `line 1: "a: " is not of the form name [tag]: model switches`,
		"a [slow]: m":                         "line 1: unknown tag [slow]",
		"a: m X=1":                            "line 1: switch X=1 does not begin with -D",
		"a: m\n":                              "configuration a expects nothing",
		"# only\na: m\n\nb: m\n  holds P\n":   "configuration a expects nothing",
		"a [long]: m -DX\n  holds P\n  bogus": `line 3: "bogus" is no expectation`,
	} {
		if _, err := parseConfigurations(text); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

const counts = "State-vector 144 byte, depth reached 107, errors: %\n    26082 states, stored\n"

func TestOutputIsJudged(t *testing.T) {
	clean := strings.Replace(counts, "%", "0", 1)
	broken := strings.Replace(counts, "%", "1", 1)
	states := methodFor("claims", "NoCatalogConflict")
	fair := methodFor("claims", "EventualProgress")
	for name, c := range map[string]struct {
		out     string
		method  method
		probe   bool
		want    verdict
		problem string
	}{
		"clean":             {out: clean, method: states, want: holds},
		"violated":          {out: "pan:1: assertion violated  !( !(x)) (at depth 9)\n" + broken, method: states, want: violated},
		"probe":             {out: "pan:1: assertion violated  !( !(x)) (at depth 9)\n" + broken, method: states, probe: true, want: reached},
		"unfair":            {out: "pan:1: acceptance cycle (at depth 94)\n" + broken, method: fair, want: violated},
		"another assertion": {out: "pan:1: assertion violated (rows[n]<3) (at depth 9)\n" + broken, method: states, problem: "unexpected: assertion violated (rows[n]<3) (at depth 9)"},
		"index":             {out: "pan:1: indexing ticket[9] (at depth 9)\n" + broken, method: states, problem: "unexpected: indexing ticket[9] (at depth 9)"},
		"too deep":          {out: "error: max search depth too small\n" + clean, method: states, problem: "not exhaustive: max search depth too small"},
		"out of memory":     {out: "pan: reached -DMEMLIM bound\n" + clean, method: states, problem: "not exhaustive: MEMLIM"},
		"cut short":         {out: "Warning: Search not completed\n" + clean, method: states, problem: "not exhaustive: search not completed"},
		"silent":            {out: "killed\n", method: states, problem: "no result: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := readOutput(c.out, c.method, c.probe)
			if f.Verdict != c.want || f.Problem != c.problem {
				t.Errorf("got %q %q, want %q %q", f.Verdict, f.Problem, c.want, c.problem)
			}
			if c.want != "" && (f.States != 26082 || f.Depth != 107) {
				t.Errorf("got %v states, depth %d", f.States, f.Depth)
			}
		})
	}
}

// TestRunFailsWhenASearchDiffers turns the expectation of a small configuration
// around: the run must then end with an error that names it.
func TestRunFailsWhenASearchDiffers(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"claims.pml", "claims_network.pml", "claims_properties.pml"} {
		model, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir+"/"+name, string(model))
	}
	const header = "async-race: claims -DPARENT=BEFORE_CLAIM\n"

	write(t, dir+"/configurations", header+"  violated NoCatalogConflict\n")
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-dir", dir}, &out); err != nil {
		t.Errorf("as expected: %v\n%s", err, out.String())
	}
	write(t, dir+"/configurations", header+"  holds NoCatalogConflict\n")
	out.Reset()
	err := run(t.Context(), []string{"-dir", dir}, &out)
	if err == nil || !strings.Contains(err.Error(), "async-race NoCatalogConflict") || !strings.Contains(out.String(), "DIFFERS") {
		t.Errorf("turned around: %v\n%s", err, out.String())
	}
	write(t, dir+"/configurations", header+"  violated RollbackNoSnapshot\n")
	out.Reset()
	if err = run(t.Context(), []string{"-dir", dir}, &out); err == nil {
		t.Errorf("a property that holds passed as violated\n%s", out.String())
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
