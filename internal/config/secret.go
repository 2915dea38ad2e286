package config

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"sort"
	"strings"
)

// redacted stands for a secret wherever a value is printed.
const redacted = "(redacted)"

// Secret is a text that never prints: not with fmt, not as JSON, not as YAML.
type Secret string

// Reveal returns the text itself, for the one place that sends it.
func (s Secret) Reveal() string { return string(s) }

// String returns a stand-in, or nothing when there is no secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format prints the stand-in whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText writes the stand-in.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML writes the stand-in.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// DSN is a PostgreSQL connection string, as a URL or as keywords. It prints
// with its passwords redacted.
type DSN string

// Reveal returns the connection string with its password.
func (d DSN) Reveal() string { return string(d) }

// String returns the connection string with its passwords redacted.
func (d DSN) String() string { return RedactDSN(string(d)) }

// Format prints the redacted string whatever the verb.
func (d DSN) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, d.String()) }

// MarshalText writes the redacted string.
func (d DSN) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// MarshalYAML writes the redacted string.
func (d DSN) MarshalYAML() (any, error) { return d.String(), nil }

// URL is an address. It prints without user and password and without the
// values of its query.
type URL string

// String returns the address with all that may be a secret redacted.
func (u URL) String() string { return redactAddress(string(u)) }

// Format prints the redacted address whatever the verb.
func (u URL) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, u.String()) }

// MarshalText writes the redacted address.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// MarshalYAML writes the redacted address.
func (u URL) MarshalYAML() (any, error) { return u.String(), nil }

// Properties are further settings, passed on as they are. Values whose names
// look like those of secrets print redacted.
type Properties map[string]string

// Reveal returns the properties with their secrets, for the catalog.
func (p Properties) Reveal() map[string]string { return maps.Clone(map[string]string(p)) }

// Redacted returns a copy that may be printed.
func (p Properties) Redacted() map[string]string {
	out := make(map[string]string, len(p))
	for name, value := range p {
		if secretProperty(name) {
			value = Secret(value).String()
		}
		if strings.Contains(value, "://") {
			value = redactAddress(value)
		}
		out[name] = value
	}
	return out
}

// String writes the properties as name=value, sorted, secrets redacted.
func (p Properties) String() string {
	parts := make([]string, 0, len(p))
	for name, value := range p.Redacted() {
		parts = append(parts, name+"="+value)
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}

// Format prints the redacted properties whatever the verb.
func (p Properties) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, p.String()) }

// MarshalJSON writes the redacted properties.
func (p Properties) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(p.Redacted())
	if err != nil {
		return nil, fmt.Errorf("write properties: %w", err)
	}
	return b, nil
}

// MarshalYAML writes the redacted properties.
func (p Properties) MarshalYAML() (any, error) { return p.Redacted(), nil }
