package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"compactor/internal/config"
)

// onUsageError says what is wrong with the flags of a command, and where to
// look. The parser's own words name Go's functions and flags with one dash.
func onUsageError(c *cli.Context, err error, _ bool) error {
	where, flags := "compactor", c.App.Flags
	if c.Command != nil && c.Command.Name != "" && c.Command.HelpName != c.App.Name {
		where, flags = c.Command.HelpName, slices.Concat(c.Command.Flags, c.App.Flags)
	}
	say := func(format string, args ...any) error {
		return usagef("%s; see %s --help", fmt.Sprintf(format, args...), where)
	}
	text := err.Error()
	if name, unknown := strings.CutPrefix(text, "flag provided but not defined: -"); unknown {
		return say("unknown flag --%s%s", strings.TrimLeft(name, "-"), nearFlag(name, flags))
	}
	if name, bare := strings.CutPrefix(text, "flag needs an argument: -"); bare {
		return say("--%s needs a value", name)
	}
	if bad := badValue().FindStringSubmatch(text); bad != nil {
		return say("--%s %s: %s", bad[2], bad[1], wanted(bad[2], flags))
	}

	return say("%s", text)
}

// badValue finds value and flag in the two messages of the parser. The value may hold line breaks only as escapes.
func badValue() *regexp.Regexp {
	return regexp.MustCompile(`^invalid (?:boolean )?value ("(?:[^"\\]|\\.)*") for (?:flag )?-+([^:]+):`)
}

// wanted says what values a flag takes.
func wanted(name string, flags []cli.Flag) string {
	for _, f := range flags {
		if !slices.Contains(f.Names(), name) {
			continue
		}
		switch f.(type) {
		case *cli.BoolFlag:
			return "give it no value, or true or false"
		case *cli.IntFlag, *cli.Int64Flag, *cli.Int64SliceFlag:
			return "use a whole number"
		case *cli.DurationFlag:
			return "use a number with a unit, such as 500ms, 15s or 2m"
		}
	}

	return "this value cannot be used"
}

// nearFlag names a flag that is spelled nearly like one that does not exist.
func nearFlag(name string, flags []cli.Flag) string {
	var names []string
	for _, f := range flags {
		for _, n := range f.Names() {
			if len(n) > 1 {
				names = append(names, n)
			}
		}
	}
	if near := config.Nearest(name, names); near != "" {
		return fmt.Sprintf(", did you mean --%s?", near)
	}

	return ""
}

// unknownCommand is the error for a word that is no command of where.
func unknownCommand(where, word string, cmds []*cli.Command) error {
	var names []string
	for _, c := range cmds {
		names = append(names, c.Names()...)
	}
	near := ""
	if n := config.Nearest(word, names); n != "" {
		near = fmt.Sprintf(", did you mean %s?", n)
	}

	return usagef("unknown command %q%s; see %s --help", word, near, where)
}
