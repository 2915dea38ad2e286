package claim

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// DefaultCatalogAlias is the name under which ColdFront attaches the Iceberg
// catalog and therefore the first part of every reference it locks.
const DefaultCatalogAlias = "ice"

// Key names one Iceberg table for the purpose of mutual exclusion. Two writers
// exclude each other exactly when their keys are equal as strings, so the names
// must be those the catalog returned when it loaded the table, not what somebody
// typed.
type Key struct {
	// Realm tells apart tables of equal name in different warehouses that share
	// one PostgreSQL. It is free text without a double quote.
	Realm string
	// Namespace holds the namespace levels, outermost first; at least one.
	Namespace []string
	// Table is the table's own name.
	Table string
}

// String returns the text that is locked: the realm, directly followed by each
// namespace level and the table, double-quoted and joined by dots, for example
// analytics"sales"."orders". Since the realm holds no quote and quotes inside
// names are doubled, no two different keys give the same text.
func (k Key) String() string {
	return k.Realm + k.quoted()
}

// ColdFront returns the reference ColdFront locks for this table: the catalog
// alias (DefaultCatalogAlias when empty), the namespace and the table, each
// quoted, for example "ice"."public"."events". The realm has no part in it: one
// ColdFront database serves one warehouse.
func (k Key) ColdFront(alias string) string {
	if alias == "" {
		alias = DefaultCatalogAlias
	}
	return quote(alias) + "." + k.quoted()
}

// Validate reports everything that makes the key unusable, joined.
func (k Key) Validate() error {
	var problems []error
	if strings.Contains(k.Realm, `"`) {
		problems = append(problems, fmt.Errorf("realm %q contains a double quote", k.Realm))
	}
	if len(k.Namespace) == 0 {
		problems = append(problems, errors.New("namespace is empty"))
	}
	if k.Table == "" {
		problems = append(problems, errors.New("table name is empty"))
	}
	for _, level := range k.Namespace {
		if level == "" {
			problems = append(problems, errors.New("a namespace level is empty"))
		}
	}
	if text := k.String(); strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
		problems = append(problems, fmt.Errorf("name %q is not text PostgreSQL can hold", text))
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("claim key %q: %w", k.String(), errors.Join(problems...))
}

// quoted joins the quoted namespace levels and table name with dots.
func (k Key) quoted() string {
	parts := make([]string, 0, len(k.Namespace)+1)
	for _, level := range k.Namespace {
		parts = append(parts, quote(level))
	}
	return strings.Join(append(parts, quote(k.Table)), ".")
}

// quote wraps a name in double quotes and doubles those inside it.
func quote(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}
