package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// flagsFirst moves the flags of a command in front of its TABLE arguments, so
// that both orders work: the parser below stops at the first argument that is
// no flag, and would take a later --dry-run for the name of a table.
func flagsFirst(app *cli.App, args []string) []string {
	if len(args) == 0 {
		return []string{app.Name}
	}
	out, rest := []string{args[0]}, args[1:]
	level, flags := app.Commands, app.Flags
	var positional []string
	for len(rest) > 0 {
		arg := rest[0]
		switch {
		case arg == "--":
			return append(append(out, positional...), rest...)
		case strings.HasPrefix(arg, "-") && arg != "-":
			n := 1
			if takesValue(flags, arg) {
				n = 2
			}
			if n > len(rest) {
				return append(out, arg) // Its value is missing; a TABLE is none.
			}
			out, rest = append(out, rest[:n]...), rest[n:]
			if arg == "-h" || arg == "--help" || arg == "-help" {
				return out // Help on the command, not on a table of that name.
			}
		default:
			rest = rest[1:]
			cmd := find(level, arg)
			if cmd == nil || len(positional) > 0 {
				level = nil
				positional = append(positional, arg)

				continue
			}
			out = append(out, arg)
			level, flags = cmd.Subcommands, cmd.Flags
		}
	}

	return append(out, positional...)
}

func find(cmds []*cli.Command, name string) *cli.Command {
	for _, c := range cmds {
		if c.HasName(name) {
			return c
		}
	}

	return nil
}

// takesValue says whether the flag in arg reads the next argument. A flag that
// is not known reads none; the parser then reports it.
func takesValue(flags []cli.Flag, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	if strings.Contains(name, "=") {
		return false
	}
	for _, f := range flags {
		doc, ok := f.(cli.DocGenerationFlag)
		if !ok || !doc.TakesValue() {
			continue
		}
		for _, n := range f.Names() {
			if n == name {
				return true
			}
		}
	}

	return false
}
