package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const runbook = "docs/runbook.md"

// Whoever is called at night finds every exit code and every log line of level
// error in the runbook, and every alert.
func TestRunbookIsComplete(t *testing.T) {
	t.Parallel()
	text := readPage(t, runbook)
	for _, r := range exitRules() {
		require.Contains(t, text, fmt.Sprintf("\n### %d\n", r.code))
	}
	for _, code := range severity {
		require.Contains(t, text, fmt.Sprintf("\n### %d\n", code))
	}
	messages := errorMessages(t)
	require.Contains(t, messages, "step ended")
	require.Contains(t, messages, "group failed")
	require.Contains(t, messages, "group left as it is")
	for message, where := range messages {
		require.Contains(t, text, "\n| `"+message+"` |", "logged at %s", where)
	}
	raw, err := os.ReadFile(filepath.Join(repository, "configs/prometheus/alerts.yaml"))
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`alert: (\S+)`).FindAllStringSubmatch(string(raw), -1) {
		require.True(t, strings.Contains(text, "`"+m[1]+"`"), "alert %s", m[1])
	}
}

// The runbook names no message that the program does not log.
func TestRunbookNamesNothingElse(t *testing.T) {
	t.Parallel()
	_, text, ok := strings.Cut(readPage(t, runbook), "## Log lines of level error\n")
	require.True(t, ok)
	text, _, ok = strings.Cut(text, "\n## ")
	require.True(t, ok)
	var named []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(text, -1) {
		named = append(named, m[1])
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(errorMessages(t))), named)
}

// errorMessages reads the program's source and returns the constant message of
// each log line of level error, with its place.
func errorMessages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range []string{"cmd/compactor", "pkg", "internal"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(repository, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if f, ok := n.(*ast.FuncDecl); ok && f.Body != nil {
					for _, message := range messagesOf(t, f.Body) {
						out[message] = fmt.Sprint(set.Position(f.Pos()))
					}
				}

				return true
			})

			return nil
		}))
	}

	return out
}

// messagesOf finds the error-level lines of a function. The message mostly stands
// in the statement that begins the line; where that only chooses the level, it is
// beside it in the same statement, or the one of the function's other line.
func messagesOf(t *testing.T, body *ast.BlockStmt) []string {
	t.Helper()
	var out []string
	chosen := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.ExprStmt, *ast.AssignStmt:
		default:
			return true
		}
		if !beginsErrorLine(n) {
			return true
		}
		found := literals(n, "Msg")
		if len(found) == 0 {
			found = literals(n, "")
		}
		chosen = chosen || len(found) == 0
		out = append(out, found...)

		return true
	})
	if chosen {
		all := literals(body, "Msg")
		require.Len(t, all, 1, "it is not clear which message has level error")
		out = append(out, all...)
	}

	return out
}

// beginsErrorLine says whether a statement calls Error() on a logger, which other
// than that of an error value is part of a longer chain or kept.
func beginsErrorLine(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) > 0 {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Error" {
			name := ""
			switch x := sel.X.(type) {
			case *ast.Ident:
				name = x.Name
			case *ast.SelectorExpr:
				name = x.Sel.Name
			}
			found = found || strings.EqualFold(name, "log") || strings.EqualFold(name, "logger")
		}

		return true
	})

	return found
}

// literals returns the texts in a node: those that are given to a method, or all
// that are no argument of another call.
func literals(n ast.Node, method string) []string {
	var out []string
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && method != "" && sel.Sel.Name == method && len(n.Args) == 1 {
				if lit, ok := n.Args[0].(*ast.BasicLit); ok {
					out = append(out, unquote(lit))
				}
			}

			return method != ""
		case *ast.BasicLit:
			if method == "" && n.Kind == token.STRING {
				out = append(out, unquote(n))
			}
		}

		return true
	})

	return out
}

func unquote(lit *ast.BasicLit) string {
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return lit.Value
	}

	return s
}

// A line of each form is found, and an error value's text is no line.
func TestErrorMessagesAreFound(t *testing.T) {
	t.Parallel()
	for source, want := range map[string][]string{
		`log.Error().Err(err).Str("table", name).Msg("one")`:                             {"one"},
		`s.cfg.Logger.Error().Msg("two")`:                                                {"two"},
		`event, what = r.opts.Logger.Error().Err(err), "three"; event.Msg(what)`:         {"three"},
		`e := c.m.Log.Error(); if x { e = c.m.Log.Warn() }; e.Str("a", "b").Msg("four")`: {"four"},
		`say(err.Error(), "five")`:                                                       nil,
		`log.Warn().Msg("six")`:                                                          nil,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() {"+source+"\n}", 0)
		require.NoError(t, err)
		require.Equal(t, want, messagesOf(t, file.Decls[0].(*ast.FuncDecl).Body), source)
	}
}
