package config

import (
	"sort"
	"strings"
)

// schema is what a file of one form may hold: keys by their dotted name, and
// the sections those names imply.
type schema struct {
	keys     map[string]*key
	sections map[string]bool
	// fileOf maps the name of a key that names a secret's file to the secret.
	fileOf map[string]string
}

// newSchema indexes the keys.
func newSchema(keys []*key) *schema {
	s := &schema{keys: map[string]*key{}, sections: map[string]bool{}, fileOf: map[string]string{}}
	for _, k := range keys {
		s.keys[k.name] = k
		if k.hasFile() {
			s.fileOf[k.name+fileSuffix] = k.name
		}
		for i, r := range k.name {
			if r == '.' {
				s.sections[k.name[:i]] = true
			}
		}
	}
	return s
}

// entrySchema is what one entry of the list of tables may hold.
func entrySchema() *schema {
	keys := []*key{
		{name: keyMatch, field: func(*Config) any { return new(string) }},
		{name: keyDisabled, field: func(*Config) any { return new(bool) }},
	}
	for _, k := range policyKeys() {
		inPolicy := k.policy
		k.field = func(*Config) any { return inPolicy(new(Policy)) }
		keys = append(keys, k)
	}
	return newSchema(keys)
}

// names returns the last parts of everything known directly within a section.
func (s *schema) names(section string) []string {
	seen := map[string]bool{}
	prefix := ""
	if section != "" {
		prefix = section + "."
	}
	add := func(name string) {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" {
			head, _, _ := strings.Cut(rest, ".")
			seen[head] = true
		}
	}
	for name := range s.keys {
		add(name)
	}
	for name := range s.fileOf {
		add(name)
	}
	out := make([]string, 0, len(seen))
	for name := range seen {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// suggest returns a remark on what an unknown name may have been meant to be:
// the same name in another section, or a near name in the same one.
func (s *schema) suggest(section, name string) string {
	var elsewhere []string
	for full := range s.keys {
		if full == name || strings.HasSuffix(full, "."+name) {
			elsewhere = append(elsewhere, full)
		}
	}
	if len(elsewhere) > 0 {
		sort.Strings(elsewhere)
		return "; there is " + strings.Join(elsewhere, " and ")
	}
	candidates := s.names(section)
	if section == "" && s.sections["defaults"] {
		candidates = append(candidates, "tables")
	}
	if near := nearest(name, candidates); near != "" {
		return "; did you mean " + join(section, near) + "?"
	}
	return "; known here: " + strings.Join(candidates, ", ")
}

// nearestKey returns the known key closest to a full dotted name.
func (s *schema) nearestKey(name string) string {
	candidates := make([]string, 0, len(s.keys))
	for full := range s.keys {
		candidates = append(candidates, full)
	}
	for full := range s.fileOf {
		candidates = append(candidates, full)
	}
	return nearest(name, candidates)
}

// join puts a name into a section.
func join(section, name string) string {
	if section == "" {
		return name
	}
	return section + "." + name
}
