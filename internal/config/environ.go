package config

import (
	"slices"
	"strings"
)

const envPrefix = "COMPACTOR_"

// otherNames are names with the prefix that are no keys: of the program's
// command line and of the project's scripts and tests.
func otherNames() []string {
	return []string{envPrefix + "CONFIG", envPrefix + "COMPLETION_TIME", envPrefix + "TESTENV", envPrefix + "CACHE", envPrefix + "DEV_STATE"}
}

// foreignPrefixes begin names that others set: Kubernetes gives a pod such
// names for a service called compactor.
func foreignPrefixes() []string {
	return []string{envPrefix + "SERVICE_", envPrefix + "PORT", envPrefix + "TEST_"}
}

// unknownNames returns a remark for each name in the environment that looks
// like a setting and is none, so that a misspelled one is not passed over in
// silence.
func (m *merger) unknownNames() []string {
	var known []string
	for name := range m.known.keys {
		known = append(known, envName(name))
	}
	for name := range m.known.fileOf {
		known = append(known, envName(name))
	}
	known = append(known, otherNames()...)
	var out []string
	for _, name := range slices.Sorted(slices.Values(m.src.Environ)) {
		name, _, _ = strings.Cut(name, "=")
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(known, name) || slices.ContainsFunc(foreignPrefixes(),
			func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		if _, set := m.env(name); !set {
			continue
		}
		text := "is no setting and has no effect"
		if near := nearest(name, known); near != "" {
			text += "; did you mean " + near + "?"
		}
		out = append(out, Violation{Origin: Origin{Kind: FromEnvironment, Name: name}, Message: text}.String())
	}
	return out
}
