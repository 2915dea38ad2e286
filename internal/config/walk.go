package config

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// walk is where a part of a file belongs.
type walk struct {
	schema   *schema
	into     map[string]setting
	sections map[string]bool
	shown    string // What stands in front of names in messages.
}

// entry reads one key, or the section it names.
func (r *reader) entry(w walk, full string, k, v *yaml.Node) {
	v = resolve(v)
	shown := join(w.shown, full)
	_, isKey := w.schema.keys[full]
	_, isFile := w.schema.fileOf[full]
	switch {
	case isKey || isFile:
		if s, ok := r.value(w.schema.keys[full], shown, v); ok {
			w.into[full] = s
		}
	case w.schema.sections[full]:
		r.section(w, full, v)
	default:
		section, name := "", full
		if i := strings.LastIndexByte(full, '.'); i >= 0 {
			section, name = full[:i], full[i+1:]
		}
		r.violations.add(shown, r.at(k, shown), "unknown key%s", w.schema.suggest(section, name))
	}
}

// section reads the keys of a section.
func (r *reader) section(w walk, full string, v *yaml.Node) {
	shown := join(w.shown, full)
	if isNull(v) {
		return
	}
	if v.Kind != yaml.MappingNode {
		r.violations.add(shown, r.at(v, shown), "must be a section with keys of its own: %s", strings.Join(w.schema.names(full), ", "))
		return
	}
	if w.sections != nil {
		w.sections[full] = true
	}
	r.pairs(v, shown, func(name string, k, v *yaml.Node) { r.entry(w, join(full, name), k, v) })
}

// value reads a scalar, or a mapping where the key takes one. It reports
// false when there is no value.
func (r *reader) value(k *key, shown string, v *yaml.Node) (setting, bool) {
	s := setting{origin: r.at(v, shown)}
	if isNull(v) {
		return s, false
	}
	takesMapping := false
	if k != nil {
		_, takesMapping = k.field(&Config{}).(*Properties)
	}
	switch {
	case takesMapping && v.Kind == yaml.MappingNode:
		s.props = Properties{}
		r.pairs(v, shown, func(name string, _, v *yaml.Node) {
			if v = resolve(v); v.Kind != yaml.ScalarNode {
				r.violations.add(shown+"."+name, r.at(v, shown), "must be a text")
				return
			}
			s.props[name] = v.Value
		})
		return s, true
	case takesMapping:
		r.violations.add(shown, s.origin, "must be a mapping of names to texts")
		return s, false
	case v.Kind != yaml.ScalarNode:
		r.violations.add(shown, s.origin, "must be a single value")
		return s, false
	}
	s.text = v.Value
	return s, strings.TrimSpace(s.text) != ""
}

// pairs calls f for each key of a mapping; a key that is there twice, and a
// merge, are reported.
func (r *reader) pairs(node *yaml.Node, shown string, f func(name string, k, v *yaml.Node)) {
	lines := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		k, v := resolve(node.Content[i]), node.Content[i+1]
		name := k.Value
		switch {
		case k.Kind != yaml.ScalarNode || name == "":
			r.violations.add(shown, r.at(k, shown), "a key must be a word")
		case k.Tag == "!!merge":
			r.violations.add(shown, r.at(k, shown), "merge keys (<<) are not read; write the keys out")
		case lines[name] > 0:
			r.violations.add(join(shown, name), r.at(k, shown), "is already given in line %d", lines[name])
		default:
			lines[name] = k.Line
			f(name, k, v)
		}
	}
}

// at is the place of a node.
func (r *reader) at(n *yaml.Node, name string) Origin {
	return Origin{Kind: FromFile, Name: name, Path: r.path, Line: max(n.Line, 1)}
}

// resolve follows an alias to what it stands for.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }
