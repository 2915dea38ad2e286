package config

import "fmt"

// OriginKind is the kind of place a value came from, in rising precedence.
type OriginKind int

// The places a value can come from.
const (
	FromDefault OriginKind = iota
	FromTableProperty
	FromFile
	FromEnvironment
	FromFlag
)

// Origin says where a value came from.
type Origin struct {
	Kind OriginKind
	// Name is the flag, the environment name, the table property, or the key as
	// the file spells it. For a default it may say what the default follows.
	Name string
	// Path and Line are the place in the file. Line 0 means that the form of
	// the file implies the value.
	Path string
	Line int
}

// String writes the origin for people: "flag --claim-mode",
// "environment COMPACTOR_CLAIM_MODE", "file compactor.yaml:12",
// "table property gc.enabled" or "default".
func (o Origin) String() string {
	switch o.Kind {
	case FromFlag:
		return "flag --" + o.Name
	case FromEnvironment:
		return "environment " + o.Name
	case FromFile:
		if o.Line == 0 {
			return fmt.Sprintf("implied by the form of %s", o.Path)
		}
		return fmt.Sprintf("file %s:%d", o.Path, o.Line)
	case FromTableProperty:
		return "table property " + o.Name
	default:
		if o.Name != "" {
			return "default, " + o.Name
		}
		return "default"
	}
}

// MarshalText writes the origin as String does.
func (o Origin) MarshalText() ([]byte, error) { return []byte(o.String()), nil }
