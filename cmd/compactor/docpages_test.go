package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const repository = "../.."

// docBlock is a fenced block of a page.
type docBlock struct {
	page, kind, note, text string
	line                   int
}

func (b docBlock) where() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// docPages are all pages of the documentation, relative to the repository.
func docPages(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, glob := range []string{"*.md", "docs/*.md", "docs/*/*.md", "configs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(repository, glob))
		require.NoError(t, err)
		for _, path := range found {
			page, err := filepath.Rel(repository, path)
			require.NoError(t, err)
			out = append(out, page)
		}
	}

	return out
}

func readPage(t *testing.T, page string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repository, page))
	require.NoError(t, err)

	return string(raw)
}

// docBlocks are the fenced blocks of a page, in order.
func docBlocks(t *testing.T, page string) []docBlock {
	t.Helper()
	var out []docBlock
	var open *docBlock
	n := 0
	for line := range strings.Lines(readPage(t, page)) {
		n++
		fence, isFence := strings.CutPrefix(strings.TrimRight(line, "\n"), "```")
		switch {
		case isFence && open == nil:
			kind, note, _ := strings.Cut(fence, " ")
			open = &docBlock{page: page, kind: kind, note: note, line: n}
		case isFence:
			out, open = append(out, *open), nil
		case open != nil:
			open.text += line
		}
	}
	require.Nil(t, open, "%s: a block is not closed", page)

	return out
}

// reason is why a block of commands is not run; "" for one that is.
func (b docBlock) reason(t *testing.T) string {
	t.Helper()
	if b.note == "" {
		return ""
	}
	why, ok := strings.CutPrefix(b.note, "not-run: ")
	require.True(t, ok && why != "", "%s: write sh, or sh not-run: REASON", b.where())

	return why
}

// Every block is of a kind that something checks.
func TestDocBlocks(t *testing.T) {
	t.Parallel()
	for _, page := range docPages(t) {
		for _, b := range docBlocks(t, page) {
			switch b.kind {
			case "sh":
				if why := b.reason(t); why != "" {
					t.Logf("%s is not run: %s", b.where(), why)
				}
			case "yaml":
				var doc map[string]any
				require.NoError(t, yaml.Unmarshal([]byte(b.text), &doc), b.where())
			case "json":
				require.True(t, json.Valid([]byte(b.text)), b.where())
			case "text":
			default:
				t.Errorf("%s: a block of kind %q; write sh, yaml, json or text", b.where(), b.kind)
			}
		}
	}
}

// Every link inside the repository leads to a file, and to a heading in it.
func TestDocLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	links := 0
	for _, page := range docPages(t) {
		for _, m := range link.FindAllStringSubmatch(readPage(t, page), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			path, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			_, err := os.Stat(filepath.Join(repository, target))
			require.NoError(t, err, "%s links to %s", page, m[1])
			if anchor != "" {
				require.Contains(t, anchors(readPage(t, target)), anchor, "%s links to %s", page, m[1])
			}
		}
	}
	require.Greater(t, links, 50)
}

// anchors are the names of a page's headings as GitHub makes them.
func anchors(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		out = append(out, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}

			return -1
		}, strings.TrimSpace(title)))
	}

	return out
}

// Every page under docs/ can be found from its index.
func TestDocIndexNamesEveryPage(t *testing.T) {
	t.Parallel()
	index := readPage(t, "docs/README.md")
	for _, page := range docPages(t) {
		name, ok := strings.CutPrefix(page, "docs/")
		if !ok || name == "README.md" || strings.HasPrefix(name, "adr/") {
			continue
		}
		require.Contains(t, index, "("+name+")")
	}
}

// commandsOf counts the command lines of a block: what a here-document holds and
// what a line goes on with is none.
func commandsOf(text string) int {
	n, end, continued := 0, "", false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case end != "":
			if line == end {
				end = ""
			}

			continue
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case !continued:
			n++
		}
		continued = strings.HasSuffix(line, `\`)
		if _, word, ok := strings.Cut(line, "<<"); ok {
			end = strings.Trim(strings.Fields(word)[0], `'"`)
		}
	}

	return n
}

func TestCommandsOf(t *testing.T) {
	t.Parallel()
	require.Equal(t, 3, commandsOf("# no\ncat > f <<'END'\na\nb\nEND\n\na && b\nc \\\n  d\n"))
	require.Zero(t, commandsOf(""))
}
