package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// check says what is wrong with the value ptr points to.
func (k *key) check(ptr any) error {
	if n, ok := number(ptr); ok {
		return k.checkRange(n, display(ptr))
	}
	text := ""
	switch p := ptr.(type) {
	case *string:
		text = *p
	case *URL:
		text = string(*p)
	case *Secret:
		text = p.Reveal()
	case *DSN:
		return checkDSN(p.Reveal())
	default:
		return nil
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return errors.New("holds a control character, such as a line break")
	}
	if text == "" {
		return nil
	}
	if reason := k.refused[text]; reason != "" {
		return fmt.Errorf("%s is refused: %s", text, reason)
	}
	if len(k.enum) > 0 && !slices.Contains(k.enum, text) {
		near := ""
		if n := nearest(text, slices.Clone(k.enum)); n != "" {
			near = "; did you mean " + n + "?"
		}
		return fmt.Errorf("%q is none of %s%s", text, strings.Join(k.enum, ", "), near)
	}
	return k.form.check(text)
}

// checkRange says whether a number is in range.
func (k *key) checkRange(n float64, shown string) error {
	low, hasLow := k.bound(k.low)
	high, hasHigh := k.bound(k.high)
	if n == 0 && k.zero != "" {
		return nil
	}
	if (!hasLow || n >= low) && (!hasHigh || n <= high) {
		return nil
	}
	msg := fmt.Sprintf("%s is out of range: %s to %s", shown, k.low, k.high)
	if k.zero != "" {
		msg += ", or 0 for " + k.zero
	}
	if k.why != "" && n < low {
		msg += "; " + k.why
	}
	return errors.New(msg)
}

// bound reads one end of the range in the unit of the key.
func (k *key) bound(text string) (float64, bool) {
	var ptr any
	switch k.field(&Config{}).(type) {
	case *int:
		ptr = new(int)
	case *float64:
		ptr = new(float64)
	case *Size:
		ptr = new(Size)
	case *Duration:
		ptr = new(Duration)
	}
	if text == "" || ptr == nil || assign(ptr, text) != nil {
		return 0, false
	}
	return number(ptr)
}

// check says what is wrong with the syntax of a text.
func (f textForm) check(text string) error {
	switch f {
	case webAddress:
		return checkAddress(text)
	case tokenAddress:
		before, _, _ := strings.Cut(text, "?")
		return checkAddress(before)
	case realmName:
		if strings.Contains(text, `"`) {
			return errors.New(`must not hold a double quote, which begins the namespace in the key of a table`)
		}
	}
	return nil
}

// checkDSN wants a connection string that can be taken apart.
func checkDSN(dsn string) error {
	if isPostgresURL(dsn) {
		if _, ok := parseURL(dsn); !ok {
			return errors.New("is not a URL: characters such as @ / # % in a password must be escaped, @ as %40")
		}
		return nil
	}
	if _, ok := parseKeywords(dsn); !ok {
		return errors.New("is neither a postgres:// URL nor keywords such as host=db dbname=lake user=compactor")
	}
	return nil
}

// checkAddress wants http or https, a host, and nothing that may be a secret.
func checkAddress(text string) error {
	u, err := url.Parse(text)
	shown := redactAddress(text)
	if strings.Contains(text, "@") {
		shown = redacted
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s is not an address such as https://host:8181/path", shown)
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%s must start with http:// or https://", shown)
	case u.Hostname() == "":
		return fmt.Errorf("%s names no host", shown)
	case u.User != nil:
		return errors.New("must not hold a user or a password")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("must not hold anything behind a ? or #")
	}
	return nil
}
