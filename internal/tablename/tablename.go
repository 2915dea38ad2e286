// Package tablename writes the names of tables and namespaces as the command
// line reads them, and reads them back. Names come from a catalog, which may
// allow nearly every character in them.
package tablename

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// special are the signs that stand for themselves only within double quotes: the
// dot parts a name, the quote begins a quotation, the others make a glob.
const special = `."*?[\`

// String joins the parts of a name with dots. A part that would be read as
// something else stands in double quotes, so that Parse(String(parts)) is parts
// again. Control characters, which no argument may hold, are shown by their
// escapes: such a name stays on one line, and does not parse to itself.
func String(parts []string) string {
	out := make([]string, len(parts))
	for i, p := range parts {
		out[i] = quoted(p)
	}

	return strings.Join(out, ".")
}

func quoted(part string) string {
	plain := visible(part)
	if part != "" && plain == part && !strings.ContainsAny(part, special) {
		return part
	}

	return `"` + strings.ReplaceAll(plain, `"`, `""`) + `"`
}

// Visible is a text with what would not be seen, or would move the cursor of a
// terminal, replaced by escapes.
func Visible(text string) string { return visible(text) }

// Printable is Visible for texts of several lines, such as errors that name what a
// catalog said: their line breaks stay.
func Printable(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = visible(line)
	}

	return strings.Join(lines, "\n")
}

// OneLine is Printable with the lines put behind each other.
func OneLine(text string) string { return strings.ReplaceAll(Printable(text), "\n", "; ") }

// visible replaces what would not be seen, or would move the cursor of a
// terminal, by an escape.
func visible(part string) string {
	if utf8.ValidString(part) && strings.IndexFunc(part, hidden) < 0 {
		return part
	}
	var b strings.Builder
	for _, r := range part {
		if hidden(r) || r == utf8.RuneError {
			quoted := fmt.Sprintf("%+q", r)
			b.WriteString(quoted[1 : len(quoted)-1])

			continue
		}
		b.WriteRune(r)
	}

	return b.String()
}

func hidden(r rune) bool { return unicode.IsControl(r) || !unicode.IsPrint(r) && r != utf8.RuneError }

// The ways in which a name can be wrong.
var (
	errControl = errors.New("holds a control character")
	errOpen    = errors.New("a double quote is not closed")
	errEmpty   = errors.New("an empty name is not allowed; write namespace.table")
)

// Parse splits a name at its dots. A part that holds a dot is written in double
// quotes, with "" for a quote inside it.
func Parse(arg string) ([]string, error) {
	var parts []string
	var part strings.Builder
	inside, opened := false, false
	for i := 0; i < len(arg); i++ {
		switch ch := arg[i]; {
		case inside && ch == '"' && i+1 < len(arg) && arg[i+1] == '"':
			part.WriteByte('"')
			i++
		case ch == '"' && (inside || part.Len() == 0 && !opened):
			inside, opened = !inside, true
		case ch < ' ' || ch == 0x7f:
			return nil, errControl
		case ch == '.' && !inside:
			parts = append(parts, part.String())
			part.Reset()
			opened = false
		default:
			part.WriteByte(ch)
		}
	}
	parts = append(parts, part.String())
	if inside {
		return nil, errOpen
	}
	for _, p := range parts {
		if p == "" {
			return nil, errEmpty
		}
	}

	return parts, nil
}
