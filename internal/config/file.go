package config

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// setting is a value as it was written, and where.
type setting struct {
	text   string
	props  Properties
	origin Origin
}

// file is the content of a configuration file, before any value is read.
type file struct {
	form Form
	// settings are the values by key.
	settings map[string]setting
	// sections are the sections that are there and not empty of meaning: an
	// empty mapping counts, a section without a value does not.
	sections map[string]bool
	// tables are the entries of the list of tables.
	tables []tableEntry
	// implied are values the form stands for, below those written in the file.
	implied map[string]setting
	// defaults replace the defaults of keys for this form.
	defaults map[string]string
	warnings []string
}

// tableEntry is one entry of the list of tables.
type tableEntry struct {
	settings map[string]setting
	origin   Origin
}

// reader walks the nodes of one file and collects what is wrong with it.
type reader struct {
	path       string
	violations Violations
}

// parseFile reads the YAML text of one file. What is wrong with it is in the
// violations; the file is what could be read nevertheless.
func parseFile(path string, text []byte) (*file, Violations) {
	r := &reader{path: path}
	root := r.document(text)
	f := &file{form: FormOwn, settings: map[string]setting{}, sections: map[string]bool{}}
	if root == nil {
		return f, r.violations
	}
	if looksLikeColdFront(root) {
		r.coldFront(root, f)
		return f, r.violations
	}
	r.own(root, f)
	return f, r.violations
}

// document returns the mapping at the top of the only document.
func (r *reader) document(text []byte) *yaml.Node {
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	var doc yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		r.violations.add("", Origin{Kind: FromFile, Name: r.path, Path: r.path, Line: yamlLine(err)}, "not YAML: %s",
			strings.TrimPrefix(err.Error(), "yaml: "))
		return nil
	}
	var second yaml.Node
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		r.violations.add("", r.at(&second, ""), "there is more than one document in the file")
	}
	root := resolve(doc.Content[0])
	if isNull(root) {
		return nil
	}
	if root.Kind != yaml.MappingNode {
		r.violations.add("", r.at(root, ""), "the file must be a mapping of sections such as catalog: and claim:")
		return nil
	}
	return root
}

// yamlLine finds the line in the message of a YAML error, or returns 1.
func yamlLine(err error) int {
	_, after, found := strings.Cut(err.Error(), "line ")
	var line int
	if _, scanErr := fmt.Sscanf(after, "%d", &line); !found || scanErr != nil {
		return 1
	}
	return line
}

// own reads a file of the own form.
func (r *reader) own(root *yaml.Node, f *file) {
	known := newSchema(allKeys())
	r.pairs(root, "", func(name string, k, v *yaml.Node) {
		if name == "tables" {
			f.tables = r.tables(v)
			return
		}
		r.entry(walk{schema: known, into: f.settings, sections: f.sections}, name, k, v)
	})
	for name, s := range f.settings {
		r.noInlineSecret(known, name, s)
	}
}

// noInlineSecret reports a secret that stands in the file.
func (r *reader) noInlineSecret(known *schema, name string, s setting) {
	k := known.keys[name]
	if k == nil || s.text == "" {
		return
	}
	_, dsn := k.field(&Config{}).(*DSN)
	switch {
	case dsn && DSNHasPassword(s.text):
		r.violations.add(name, s.origin, "a password does not belong in this file: set PGPASSWORD, use a password file, give the whole string in %s, or name a file that holds it in %s",
			envName(name), name+fileSuffix)
	case k.secret():
		r.violations.add(name, s.origin, "a secret does not belong in this file: set %s, or name a file that holds it in %s",
			envName(name), name+fileSuffix)
	}
}

// tables reads the list of tables.
func (r *reader) tables(list *yaml.Node) []tableEntry {
	list = resolve(list)
	if isNull(list) {
		return nil
	}
	if list.Kind != yaml.SequenceNode {
		r.violations.add("tables", r.at(list, "tables"), "must be a list of entries such as - match: \"sales.*\"")
		return nil
	}
	known := entrySchema()
	var out []tableEntry
	for i, item := range list.Content {
		item = resolve(item)
		name := fmt.Sprintf("tables[%d]", i)
		if item.Kind != yaml.MappingNode {
			r.violations.add(name, r.at(item, name), "must be a mapping with match: and what differs for those tables")
			continue
		}
		entry := tableEntry{settings: map[string]setting{}, origin: r.at(item, name)}
		r.pairs(item, name, func(key string, k, v *yaml.Node) {
			r.entry(walk{schema: known, into: entry.settings, shown: name}, key, k, v)
		})
		out = append(out, entry)
	}
	return out
}

// sortedKeys returns the keys of a map in order, so that messages do not
// change from run to run.
func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
