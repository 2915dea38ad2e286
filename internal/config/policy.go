package config

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

// MatchTable says whether a glob matches namespace.table. * and ? match dots
// and slashes as well; [a-z] and \ are read as path.Match does. A glob that is
// malformed matches nothing.
func MatchTable(glob, table string) bool {
	noSlash := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
	ok, err := path.Match(noSlash(glob), noSlash(table))
	return ok && err == nil
}

// Disabled says whether the table (namespace.table) with these properties is
// to be left alone: by the last matching entry that says so, else by its
// property compactor.disabled.
func (c *Config) Disabled(table string, props map[string]string) bool {
	disabled, _ := c.disabledBy(table, props)
	return disabled
}

// disabledBy is Disabled with where it is said.
func (c *Config) disabledBy(table string, props map[string]string) (disabled bool, by Origin) {
	if text, set := props[propertyName(keyDisabled)]; set {
		disabled, by = strings.EqualFold(text, "true"), Origin{Kind: FromTableProperty, Name: propertyName(keyDisabled)}
	}
	for _, t := range c.Tables {
		if o, set := t.Set[keyDisabled]; set && MatchTable(t.Match, table) {
			disabled, by = t.Disabled, o
		}
	}
	return disabled, by
}

// TableDisabled says the same before the table is loaded and its properties
// are known: by the entries of the file alone.
func (c *Config) TableDisabled(table string) bool { return c.Disabled(table, nil) }

// PolicyFor returns the policy of one table (namespace.table): flags and
// environment, then the matching entries of the file from last to first, then
// the defaults section of the file, then the table's own properties, then
// defaults. A property that cannot be read is left out; CheckTable reports it.
func (c *Config) PolicyFor(table string, props map[string]string) Policy {
	p, _, _ := c.resolve(table, props)
	return p
}

// CheckTable says what is wrong with the properties of a table as far as the
// policy reads them, and with the policy that results. A step that deletes
// should not run on a table this returns an error for: a property that holds
// more back may be the one that cannot be read. The error is a Violations.
func (c *Config) CheckTable(table string, props map[string]string) error {
	p, origins, v := c.resolve(table, props)
	known := map[string]bool{propertyName(keyDisabled): true}
	for _, k := range policyKeys() {
		known[propertyName(k.name)] = true
	}
	for _, name := range sortedKeys(props) {
		if strings.HasPrefix(name, "compactor.") && !known[name] {
			hint := ""
			if near := nearest(name, sortedKeys(known)); near != "" {
				hint = "; did you mean " + near + "?"
			}
			v.add("", Origin{Kind: FromTableProperty, Name: name}, "unknown property%s", hint)
		}
	}
	if len(v) == 0 {
		checkPolicy(&v, "", p, origins)
	}
	return v.orNil()
}

// resolve puts the policy of a table together, with the origin of each key
// and what is wrong with the properties.
func (c *Config) resolve(table string, props map[string]string) (Policy, map[string]Origin, Violations) {
	p := c.Defaults
	origins := map[string]Origin{}
	var v Violations
	for _, k := range policyKeys() {
		o := c.origins["defaults."+k.name]
		origins[k.name] = o
		if o.Kind >= FromFile {
			continue
		}
		name, text, ok := k.property(props)
		if !ok {
			continue
		}
		from := Origin{Kind: FromTableProperty, Name: name}
		if err := k.assignProperty(&p, name, text); err != nil {
			v.add(k.name, from, "%v", err)
			continue
		}
		origins[k.name] = from
	}
	for _, t := range c.Tables {
		if MatchTable(t.Match, table) {
			overlay(&p, origins, t)
		}
	}
	return p, origins, v
}

// overlay puts the keys an entry sets over a policy, except those that a flag
// or the environment gave.
func overlay(p *Policy, origins map[string]Origin, t TablePolicy) {
	for _, k := range policyKeys() {
		o, set := t.Set[k.name]
		if !set || origins[k.name].Kind > FromFile {
			continue
		}
		copyValue(k.policy(p), k.policy(&t.Policy))
		origins[k.name] = o
	}
}

// copyValue copies between the same field of two policies.
func copyValue(to, from any) {
	switch p := to.(type) {
	case *bool:
		*p = *from.(*bool)
	case *int:
		*p = *from.(*int)
	case *float64:
		*p = *from.(*float64)
	case *string:
		*p = *from.(*string)
	case *Size:
		*p = *from.(*Size)
	case *Duration:
		*p = *from.(*Duration)
	}
}

// property returns the table property that gives the key: ours first, then
// Iceberg's, in order.
func (k *key) property(props map[string]string) (name, text string, ok bool) {
	for _, name := range append([]string{propertyName(k.name)}, k.properties...) {
		if text, ok := props[name]; ok {
			return name, text, true
		}
	}
	return "", "", false
}

// assignProperty reads a property into the policy when it is in range.
func (k *key) assignProperty(p *Policy, name, text string) error {
	if k.unit == "ms" && name != propertyName(k.name) {
		var err error
		if text, err = millis(text); err != nil {
			return err
		}
	}
	inPolicy := k.policy
	k.field = func(*Config) any { return inPolicy(new(Policy)) }
	var candidate Policy
	if err := assign(inPolicy(&candidate), text); err != nil {
		return err
	}
	if err := k.check(inPolicy(&candidate)); err != nil {
		return err
	}
	return assign(inPolicy(p), text)
}

// millis turns a number of milliseconds into a duration's text. A number that
// means "never", such as the largest there is, becomes the longest duration.
func millis(text string) (string, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 {
		return "", fmt.Errorf("%q is not a number of milliseconds", text)
	}
	longest := int64(36500 * day / time.Millisecond)
	return Duration(time.Duration(min(n, longest)) * time.Millisecond).String(), nil
}

// tables makes the entries of the list of tables.
func (m *merger) tables() {
	known := policyKeys()
	for _, e := range m.file.tables {
		t := TablePolicy{Match: e.settings[keyMatch].text, Origin: e.origin, Set: map[string]Origin{}}
		if s, ok := e.settings[keyMatch]; ok {
			t.Set[keyMatch] = s.origin
		}
		if s, ok := e.settings[keyDisabled]; ok {
			m.entryValue(&t, keyDisabled, &t.Disabled, s)
		}
		for _, k := range known {
			if s, ok := e.settings[k.name]; ok {
				m.entryValue(&t, k.name, k.policy(&t.Policy), s)
			}
		}
		m.cfg.Tables = append(m.cfg.Tables, t)
	}
}

// entryValue reads one value of an entry.
func (m *merger) entryValue(t *TablePolicy, name string, ptr any, s setting) {
	if err := assign(ptr, s.text); err != nil {
		m.violations.add(s.origin.Name, s.origin, "%v", err)
		return
	}
	t.Set[name] = s.origin
}
