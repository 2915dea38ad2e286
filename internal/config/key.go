package config

import (
	"fmt"
	"strconv"
	"strings"
)

// key describes one setting. Everything that is known about settings is
// derived from the lists of keys: strictness, names in the environment,
// ranges, `config show` and the reference.
type key struct {
	// name is the dotted name in the own form.
	name string
	// doc says in one sentence what the setting does, and its unit.
	doc string
	// def is the default as an operator would write it; note says what an
	// unset value follows when that is no constant.
	def, note string
	// enum lists the words a text may be.
	enum []string
	// refused gives reasons for words that are known and refused.
	refused map[string]string
	// low and high are the range, inclusive. why is added to the message about
	// a value outside of it.
	low, high, why string
	// zero says what 0 means where it is outside of the range and allowed.
	zero string
	// standard are the names other programs use in the environment, in order;
	// they are read only where standardWhen, if given, says so.
	standard     []string
	standardWhen func(*Config) bool
	// properties are the table properties that give the value, in order; unit
	// is what a bare number there counts: "ms" or nothing.
	properties []string
	unit       string
	// form is the check of a text beyond enum.
	form textForm
	// field returns a pointer to the field; its type is the kind of the value.
	field func(*Config) any
	// policy is set for policy keys, whose field is found in any Policy.
	policy func(*Policy) any
	// optional says whether the section the key belongs to is there; nil means
	// always.
	optional func(*Config) bool
}

// textForm is a syntax check of a text.
type textForm int

const (
	anyText textForm = iota
	webAddress
	tokenAddress // a web address that may have a query
	realmName
)

// fileSuffix ends the name of the key that names a file with a secret.
const fileSuffix = "_file"

// secret says whether the value must not stand in a file of the own form.
func (k *key) secret() bool {
	_, is := k.field(&Config{}).(*Secret)
	return is
}

// hasFile says whether the value can be read from a file of its own.
func (k *key) hasFile() bool {
	_, dsn := k.field(&Config{}).(*DSN)
	return dsn || k.secret()
}

// envName is the name of a key in the environment.
func envName(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, ".", "_"))
}

// flagName is the flag of a key unless the caller says otherwise.
func flagName(name string) string {
	name = strings.TrimPrefix(name, "defaults.")
	return strings.NewReplacer(".", "-", "_", "-").Replace(name)
}

// propertyName is the table property of a policy key.
func propertyName(name string) string {
	return "compactor." + strings.ReplaceAll(name, "_", "-")
}

// assign reads text into the field that ptr points to.
func assign(ptr any, text string) error {
	var err error
	switch p := ptr.(type) {
	case *string:
		*p = text
	case *URL:
		*p = URL(text)
	case *Secret:
		*p = Secret(text)
	case *DSN:
		*p = DSN(text)
	case *bool:
		*p, err = parseBool(text)
	case **bool:
		var b bool
		b, err = parseBool(text)
		*p = &b
	case *int:
		*p, err = parseInt(text)
	case *float64:
		*p, err = parseShare(text)
	case *Size:
		*p, err = ParseSize(text)
	case *Duration:
		*p, err = ParseDuration(text)
	case *Properties:
		*p, err = parseProperties(text)
	default:
		err = fmt.Errorf("a value of type %T has no text form", ptr)
	}
	return err
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", text)
}

func parseInt(text string) (int, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n != int64(int(n)) {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	return int(n), nil
}

// parseShare reads a share of one, as 0.3 or as 30%.
func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || f != f {
		return 0, fmt.Errorf("%q is not a share: write it like 0.3 or 30%%", text)
	}
	if percent {
		f /= 100
	}
	return f, nil
}

// parseProperties reads name=value pairs separated by commas, the form in the
// environment.
func parseProperties(text string) (Properties, error) {
	out := Properties{}
	for _, pair := range strings.Split(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		if !found || name == "" {
			return nil, fmt.Errorf("properties are name=value pairs separated by commas")
		}
		out[name] = strings.TrimSpace(value)
	}
	return out, nil
}

// mustDefault assigns the default of the key, which a test proves to be valid.
func (k *key) mustDefault(ptr any) {
	if k.def != "" {
		_ = assign(ptr, k.def)
	}
}

// display writes the value ptr points to, redacted where it has to be.
func display(ptr any) string {
	switch p := ptr.(type) {
	case *string:
		return *p
	case *bool:
		return strconv.FormatBool(*p)
	case **bool:
		if *p == nil {
			return ""
		}
		return strconv.FormatBool(**p)
	case *int:
		return strconv.Itoa(*p)
	case *float64:
		return strconv.FormatFloat(*p, 'g', -1, 64)
	case fmt.Stringer:
		return p.String()
	}
	return ""
}

// kind names the kind of value for people.
func kind(ptr any) string {
	switch ptr.(type) {
	case *bool, **bool:
		return "true or false"
	case *int:
		return "number"
	case *float64:
		return "share"
	case *Size:
		return "size"
	case *Duration:
		return "duration"
	case *Secret:
		return "secret"
	case *DSN:
		return "connection string"
	case *URL:
		return "address"
	case *Properties:
		return "mapping"
	}
	return "text"
}

// number returns the value ptr points to for comparison with a range.
func number(ptr any) (float64, bool) {
	switch p := ptr.(type) {
	case *int:
		return float64(*p), true
	case *float64:
		return *p, true
	case *Size:
		return float64(*p), true
	case *Duration:
		return float64(*p), true
	}
	return 0, false
}
