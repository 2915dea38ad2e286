package config

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Size is a number of bytes. It is written as a plain number of bytes or with
// a unit: kB, MB, GB, TB are powers of 1000, KiB, MiB, GiB, TiB powers of 1024.
type Size int64

// sizeUnit is one unit a Size can be written in.
type sizeUnit struct {
	name  string
	bytes int64
}

// sizeUnits lists the units, powers of 1024 before powers of 1000.
func sizeUnits() []sizeUnit {
	return []sizeUnit{
		{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
		{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
	}
}

// maxNumberLength bounds the digits of a number an operator may write.
const maxNumberLength = 32

// ParseSize reads a size. Units are matched without regard to case; a unit
// without its B (128M) is refused, because it may mean either power.
func ParseSize(text string) (Size, error) {
	s := strings.TrimSpace(text)
	end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	number, unit := s, ""
	if end >= 0 {
		number, unit = s[:end], strings.TrimSpace(s[end:])
	}
	if number == "" || len(number) > maxNumberLength {
		return 0, fmt.Errorf("%q is not a size: write bytes or a unit, such as 128MiB", text)
	}
	factor, err := unitBytes(text, unit)
	if err != nil {
		return 0, err
	}
	value, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, fmt.Errorf("%q is not a size: %q is not a number", text, number)
	}
	value.Mul(value, new(big.Rat).SetInt64(factor))
	if !value.IsInt() {
		return 0, fmt.Errorf("%q is not a whole number of bytes", text)
	}
	if !value.Num().IsInt64() {
		return 0, fmt.Errorf("%q is too large: the most is %d bytes", text, int64(math.MaxInt64))
	}
	return Size(value.Num().Int64()), nil
}

// unitBytes returns how many bytes the unit stands for.
func unitBytes(text, unit string) (int64, error) {
	if unit == "" {
		return 1, nil
	}
	for _, u := range sizeUnits() {
		if strings.EqualFold(u.name, unit) {
			return u.bytes, nil
		}
	}
	for _, u := range sizeUnits() {
		if strings.EqualFold(u.name[:1], unit) && u.name != "B" {
			upper := strings.ToUpper(unit)
			return 0, fmt.Errorf("%q has no clear unit: write %sB (powers of 1000) or %siB (powers of 1024)", text, upper, upper)
		}
	}
	return 0, fmt.Errorf("%q has the unknown unit %q: use kB, MB, GB, TB, KiB, MiB, GiB or TiB", text, unit)
}

// String writes the size so that ParseSize reads the same size back: in the
// unit that divides it without a rest and leaves the smallest number.
func (s Size) String() string {
	number, name := int64(s), ""
	if s == 0 {
		return "0"
	}
	for _, u := range sizeUnits() {
		if n := int64(s) / u.bytes; n*u.bytes == int64(s) && u.bytes > 1 && abs(n) < abs(number) {
			number, name = n, u.name
		}
	}
	return strconv.FormatInt(number, 10) + name
}

func abs(n int64) int64 { return max(n, -n) }

// Bytes returns the size as a number of bytes.
func (s Size) Bytes() int64 { return int64(s) }

// UnmarshalText reads a size as ParseSize does.
func (s *Size) UnmarshalText(text []byte) error {
	v, err := ParseSize(string(text))
	if err == nil {
		*s = v
	}
	return err
}

// MarshalText writes a size as String does.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalYAML reads a size from a scalar.
func (s *Size) UnmarshalYAML(node *yaml.Node) error { return s.UnmarshalText([]byte(node.Value)) }

// Set makes Size usable as the value of a flag.
func (s *Size) Set(text string) error { return s.UnmarshalText([]byte(text)) }
