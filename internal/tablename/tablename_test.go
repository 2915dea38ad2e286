package tablename

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesAreQuotedWhereTheyHaveTo(t *testing.T) {
	for want, parts := range map[string][]string{
		"sales.orders":     {"sales", "orders"},
		"a.b.c":            {"a", "b", "c"},
		`odd."a.b"`:        {"odd", "a.b"},
		`odd."say ""hi"""`: {"odd", `say "hi"`},
		`odd."a*"`:         {"odd", "a*"},
		`odd."a[b"`:        {"odd", "a[b"},
		`odd."a\b"`:        {"odd", `a\b`},
		"odd.Ü ber":        {"odd", "Ü ber"},
		`odd."two\nlines"`: {"odd", "two\nlines"},
		`odd."\x1b[2J"`:    {"odd", "\x1b[2J"},
		`odd."\u202eback"`: {"odd", "\u202eback"},
		`odd.""`:           {"odd", ""},
	} {
		require.Equal(t, want, String(parts))
		require.NotContains(t, String(parts), "\n")
	}
}

func TestTextsDoNothingToATerminal(t *testing.T) {
	require.Equal(t, "a\\x1b[31m\nb\\t\\u202e ü█", Printable("a\x1b[31m\nb\t\u202e ü█"))
	require.Equal(t, "a; b\\r", OneLine("a\nb\r"))
	require.Empty(t, Printable(""))
}

func TestParseRefuses(t *testing.T) {
	for arg, want := range map[string]string{
		"a..b":    "empty name",
		".b":      "empty name",
		`a."b`:    "not closed",
		"a.b\nc":  "control character",
		"a.b\x7f": "control character",
		"":        "empty name",
	} {
		_, err := Parse(arg)
		require.ErrorContains(t, err, want, "%q", arg)
	}
}

func FuzzRoundTrip(f *testing.F) {
	f.Add("sales", "orders")
	f.Add("odd", `a."b`)
	f.Add("o*d", "a\\b")
	f.Fuzz(func(t *testing.T, a, b string) {
		text := String([]string{a, b})
		if strings.IndexFunc(text, hidden) >= 0 {
			t.Fatalf("%q is not safe to print", text)
		}
		if a == "" || b == "" || visible(a) != a || visible(b) != b {
			return // It cannot be typed.
		}
		parts, err := Parse(text)
		require.NoError(t, err, "%q", text)
		require.Equal(t, []string{a, b}, parts)
	})
}
