package config

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// Entry is one effective value, ready to be printed: secrets are redacted.
type Entry struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin Origin `json:"origin"`
}

// ShowOptions choose what Show prints.
type ShowOptions struct {
	// Table adds the policy of this table (namespace.table), with Properties.
	Table      string
	Properties map[string]string
	// JSON prints one JSON document instead of a table for people.
	JSON bool
}

// Document is the structured form of what Show prints.
type Document struct {
	Form     Form     `json:"form"`
	Path     string   `json:"path,omitempty"`
	Values   []Entry  `json:"values"`
	Table    string   `json:"table,omitempty"`
	Policy   []Entry  `json:"policy,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// Describe returns every effective value with its origin, redacted.
func (c *Config) Describe(o ShowOptions) Document {
	d := Document{Form: c.Form, Path: c.Path, Values: c.Entries(), Warnings: c.Warnings}
	if o.Table != "" {
		d.Table, d.Policy = o.Table, c.PolicyEntries(o.Table, o.Properties)
	}
	return d
}

// Values returns every effective value with its origin, redacted, without the
// policy of one table.
func (c *Config) Values() Document { return c.Describe(ShowOptions{}) }

// Show prints every effective value with its origin, redacted, as the first of
// the options says. It returns the error of the writer.
func (c *Config) Show(w io.Writer, options ...ShowOptions) error {
	var o ShowOptions
	if len(options) > 0 {
		o = options[0]
	}
	d := c.Describe(o)
	if o.JSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		if err := enc.Encode(d); err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(cells ...any) { _, _ = fmt.Fprintf(tw, "%s\t%s\t%s\n", cells...) } // Flush returns the error.
	line("KEY", "VALUE", "ORIGIN")
	for _, e := range d.Values {
		line(e.Key, shownValue(e.Value), e.Origin)
	}
	if d.Table != "" {
		line("", "", "")
		line("POLICY OF "+d.Table, "VALUE", "ORIGIN")
		for _, e := range d.Policy {
			line(e.Key, shownValue(e.Value), e.Origin)
		}
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// shownValue makes an empty value visible.
func shownValue(v string) string {
	if v == "" {
		return "-"
	}
	return v
}

// Entries returns the effective values of all keys in the order of the
// reference, and what each entry of the list of tables sets.
func (c *Config) Entries() []Entry {
	var out []Entry
	for _, k := range allKeys() {
		if k.optional != nil && !k.optional(c) {
			continue
		}
		out = append(out, Entry{Key: k.name, Value: display(k.field(c)), Origin: c.origins[k.name]})
	}
	for i := range c.Tables {
		out = append(out, c.Tables[i].entries(fmt.Sprintf("tables[%d].", i))...)
	}
	return out
}

// entries returns what one entry of the list of tables sets.
func (t *TablePolicy) entries(prefix string) []Entry {
	out := []Entry{{Key: prefix + keyMatch, Value: t.Match, Origin: t.Set[keyMatch]}}
	if o, set := t.Set[keyDisabled]; set {
		out = append(out, Entry{Key: prefix + keyDisabled, Value: display(&t.Disabled), Origin: o})
	}
	for _, k := range policyKeys() {
		if o, set := t.Set[k.name]; set {
			out = append(out, Entry{Key: prefix + k.name, Value: display(k.policy(&t.Policy)), Origin: o})
		}
	}
	return out
}

// PolicyEntries returns the policy of one table with the origin of each key,
// and first whether the table is to be left alone.
func (c *Config) PolicyEntries(table string, props map[string]string) []Entry {
	p, origins, _ := c.resolve(table, props)
	disabled, by := c.disabledBy(table, props)
	out := []Entry{{Key: keyDisabled, Value: display(&disabled), Origin: by}}
	for _, k := range policyKeys() {
		out = append(out, Entry{Key: k.name, Value: display(k.policy(&p)), Origin: origins[k.name]})
	}
	return out
}
