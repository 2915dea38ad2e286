package main

import "strings"

// method is a way to search: how the model is translated and compiled, and how the
// verifier is run. Properties with the same method share one verifier.
type method struct {
	Name      string
	Translate []string // Further switches for the model.
	Compile   []string // Switches of the generated verifier.
	Run       []string // Its arguments; the property's name is appended if Select.
	Select    bool     // The model holds several formulas, the run names one.
	Violation string   // How the verifier words a violation of this kind.
}

// depth bounds a search. The deepest one known is below 1000 steps; a search that
// reaches the bound is reported as incomplete.
const depth = "100000"

// methodFor chooses the method of a property of a model.
//
// A formula that says what never happens is a search over all states. Progress
// of the claims model is a formula of temporal logic, searched for fair cycles.
// The partition model is too large for that: there, progress is what the states
// without a further step show, and RunsEnd, the absence of any cycle, shows that
// every run comes to such a state.
func methodFor(model, property string) method {
	switch {
	case property == "RunsEnd":
		return method{
			Name: "cycles", Translate: []string{"-DEND_RunsEnd"}, Compile: []string{"-DNP", "-DNOFAIR"},
			Run: []string{"-E", "-l"}, Violation: "non-progress cycle",
		}
	case strings.HasSuffix(property, "Progress") && model == "partition":
		return method{
			Name: "end " + property, Translate: []string{"-DEND_" + property}, Compile: []string{"-DSAFETY", "-DNOFAIR"},
			Run: []string{"-E"}, Violation: "assertion violated (((",
		}
	case strings.HasSuffix(property, "Progress"):
		// NFAIR makes room for the processes that fairness counts.
		return method{
			Name: "fair", Compile: []string{"-DNFAIR=4"}, Run: []string{"-a", "-f", "-N"}, Select: true,
			Violation: "acceptance cycle",
		}
	default:
		return method{
			Name: "states", Compile: []string{"-DSAFETY", "-DNOFAIR"}, Run: []string{"-N"}, Select: true,
			Violation: "assertion violated  !( !(",
		}
	}
}
