package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"

	"compactor/pkg/metrics"
)

var update = flag.Bool("update", false, "write the generated parts of the documentation")

const commands = "../../docs/reference/commands.md"

// TestDocs holds the generated parts of docs/reference/commands.md to the program.
func TestDocs(t *testing.T) {
	raw, err := os.ReadFile(commands)
	require.NoError(t, err)
	want := string(raw)
	want = replacePart(t, want, "exit codes", exitCodeTable())
	want = replacePart(t, want, "flags", flagReference())
	if *update {
		require.NoError(t, os.WriteFile(commands, []byte(want), 0o600))

		return
	}
	require.Equal(t, want, string(raw), "docs/reference/commands.md is not current: run `make docs`")
}

// replacePart puts text between the marks of a generated part.
func replacePart(t *testing.T, doc, part, text string) string {
	t.Helper()
	begin, end := "<!-- "+part+": generated from the program by `make docs` -->\n", "<!-- end of "+part+" -->"
	i, j := strings.Index(doc, begin), strings.Index(doc, end)
	require.Positive(t, i, "mark of %s", part)
	require.Greater(t, j, i, "mark of %s", part)

	return doc[:i+len(begin)] + text + doc[j:]
}

func exitCodeTable() string {
	var b strings.Builder
	b.WriteString("| code | meaning |\n|---|---|\n")
	var plain strings.Builder
	_ = writeExitCodes(&plain) // A strings.Builder does not fail.
	for line := range strings.Lines(plain.String()) {
		code, meaning, _ := strings.Cut(strings.TrimSpace(line), "  ")
		fmt.Fprintf(&b, "| %s | %s |\n", code, meaning)
	}

	return b.String()
}

// flagReference lists each command with its own flags, and the common flags
// once.
func flagReference() string {
	app := newApp(environment{})
	var b strings.Builder
	b.WriteString("### Flags of every command\n\n")
	common := map[string]bool{}
	for _, f := range commonFlags() {
		common[f.Names()[0]] = true
	}
	writeFlags(&b, commonFlags(), nil)
	b.WriteString("\n### compactor without a command\n\nThe command line of ColdFront's own compactor.\n\n")
	writeFlags(&b, coldFrontFlags(), nil)
	for _, c := range app.Commands {
		writeCommand(&b, "compactor", c, common)
	}

	return b.String()
}

func writeCommand(b *strings.Builder, parent string, c *cli.Command, common map[string]bool) {
	if c.Hidden {
		return
	}
	name := parent + " " + c.Name
	if c.Action != nil {
		fmt.Fprintf(b, "\n### %s\n\n%s.", name, strings.ToUpper(c.Usage[:1])+c.Usage[1:])
		if len(c.Aliases) > 0 {
			fmt.Fprintf(b, " Alias: `%s`.", strings.Join(c.Aliases, "`, `"))
		}
		b.WriteString("\n")
		if c.Description != "" {
			b.WriteString("\n" + c.Description + "\n")
		}
		b.WriteString("\n")
		writeFlags(b, c.Flags, common)
	}
	for _, sub := range c.Subcommands {
		writeCommand(b, name, sub, common)
	}
}

func writeFlags(b *strings.Builder, flags []cli.Flag, skip map[string]bool) {
	var rows []string
	for _, f := range flags {
		if skip[f.Names()[0]] || f.Names()[0] == "help" {
			continue
		}
		doc, ok := f.(cli.DocGenerationFlag)
		if !ok {
			continue
		}
		usage := strings.NewReplacer("`", "", "|", `\|`).Replace(doc.GetUsage())
		if text := doc.GetDefaultText(); text != "" && !strings.Contains(usage, "default") {
			usage += " (default: " + strings.Trim(text, `"`) + ")"
		}
		name := "`--" + strings.Join(f.Names(), "`, `-") + "`"
		rows = append(rows, fmt.Sprintf("| %s | %s |\n", name, usage))
	}
	if len(rows) == 0 {
		return
	}
	b.WriteString("| flag | meaning |\n|---|---|\n" + strings.Join(rows, ""))
}

const metricsDoc = "../../docs/metrics.md"

// docs/metrics.md is what the program says of its metrics.
func TestDocsOfMetrics(t *testing.T) {
	var b strings.Builder
	require.NoError(t, metrics.Reference(&b))
	if *update {
		require.NoError(t, os.WriteFile(metricsDoc, []byte(b.String()), 0o600))
	}
	raw, err := os.ReadFile(metricsDoc)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(raw), "docs/metrics.md is not current: run `make docs`")
}
