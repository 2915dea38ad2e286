package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// day is 24 hours; clocks that change do not matter to an age.
const day = 24 * time.Hour

// Duration is a length of time that is never negative. It is written like a
// Go duration, with days in front: 7d, 168h, 1d12h, 1m30s.
type Duration time.Duration

// ParseDuration reads a duration. Days are whole; a plain number other than 0
// is refused, because its unit would be a guess.
func ParseDuration(text string) (Duration, error) {
	s := strings.TrimSpace(text)
	if s == "0" {
		return 0, nil
	}
	if s != "" && strings.Trim(s, "0123456789.") == "" {
		return 0, fmt.Errorf("%q needs a unit: d, h, m, s or ms", text)
	}
	var total time.Duration
	if head, rest, found := strings.Cut(s, "d"); found {
		days, err := strconv.ParseUint(head, 10, 32)
		if err != nil {
			return 0, notADuration(text)
		}
		if days > uint64(math.MaxInt64/int64(day)) {
			return 0, fmt.Errorf("%q is too long", text)
		}
		total, s = time.Duration(days)*day, rest
		if s == "" {
			return Duration(total), nil
		}
	}
	if s == "" || s[0] == '-' || s[0] == '+' {
		return 0, notADuration(text)
	}
	rest, err := time.ParseDuration(s)
	if err != nil {
		return 0, notADuration(text)
	}
	if total > math.MaxInt64-rest {
		return 0, fmt.Errorf("%q is too long", text)
	}
	return Duration(total + rest), nil
}

func notADuration(text string) error {
	return fmt.Errorf("%q is not a duration: write it like 7d, 168h, 1d12h or 30s", text)
}

// String writes the duration so that ParseDuration reads the same one back.
func (d Duration) String() string {
	t := time.Duration(d)
	if t == 0 {
		return "0s"
	}
	var b strings.Builder
	if days := t / day; days > 0 {
		fmt.Fprintf(&b, "%dd", days)
		t %= day
	}
	if hours := t / time.Hour; hours > 0 {
		fmt.Fprintf(&b, "%dh", hours)
		t %= time.Hour
	}
	if minutes := t / time.Minute; minutes > 0 {
		fmt.Fprintf(&b, "%dm", minutes)
		t %= time.Minute
	}
	if t != 0 {
		b.WriteString(t.String())
	}
	return b.String()
}

// Std returns the duration as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// UnmarshalText reads a duration as ParseDuration does.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := ParseDuration(string(text))
	if err == nil {
		*d = v
	}
	return err
}

// MarshalText writes a duration as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalYAML reads a duration from a scalar.
func (d *Duration) UnmarshalYAML(node *yaml.Node) error {
	return d.UnmarshalText([]byte(node.Value))
}

// Set makes Duration usable as the value of a flag.
func (d *Duration) Set(text string) error { return d.UnmarshalText([]byte(text)) }
