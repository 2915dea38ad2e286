package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"compactor/internal/store"
	"compactor/internal/tablename"
	"compactor/internal/version"
	"compactor/pkg/rewrite"
)

// environment is what the program takes from its process.
type environment struct {
	args    []string
	getenv  func(string) (string, bool)
	stdin   io.Reader // for a command under a claim
	stdout  io.Writer
	stderr  io.Writer
	environ []string         // NAME=value, to notice misspelt names
	now     func() time.Time // for the time a run may take; nil: the real one
	// rewriting, when set, changes how data files are rewritten. It exists to
	// inject faults in tests.
	rewriting func(*rewrite.Options)
}

func (e environment) clock() func() time.Time {
	if e.now == nil {
		return time.Now
	}

	return e.now
}

// run parses the command line and runs the command. Its error decides the exit
// code (see exit.go).
func run(ctx context.Context, env environment) error {
	store.Register()
	if len(env.args) > 1 && env.args[1] == completeCommand {
		return complete(ctx, env, env.args[2:])
	}
	app := newApp(env)
	err := app.RunContext(ctx, flagsFirst(app, env.args))
	if err == nil {
		return nil
	}
	err = stopped(ctx, err)
	if !wasReported(err) && wantsJSON(env.args) {
		return errors.Join(err, writeFailure(env.stdout, err))
	}

	return err
}

func newApp(env environment) *cli.App {
	app := &cli.App{
		Name:  "compactor",
		Usage: "keep Apache Iceberg tables healthy, under the table's claim",
		UsageText: "compactor [global flags] COMMAND [flags] TABLE...\n" +
			"compactor --config FILE --table [SCHEMA.]NAME [--dry-run] …   (ColdFront's command line)",
		Description: "TABLE is namespace.table. Secrets are never flags: set them in the environment or in files.",
		Version:     version.Get().String(),
		Writer:      env.stdout,
		ErrWriter:   env.stderr,
		HideVersion: true,
		Flags:       append(commonFlags(), coldFrontFlags()...),
		Commands: []*cli.Command{
			compactCommand(env), manifestsCommand(env), expireCommand(env), orphansCommand(env), runCommand(env), inspectCommand(env),
			claimCommand(env), configCommand(env), doctorCommand(env), demoCommand(env), completionCommand(env), versionCommand(env),
		},
		// The codes come from errors and main ends the process.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   onUsageError,
		Before:         notColdFront,
		Action:         func(c *cli.Context) error { return withoutCommand(c, env) },
	}
	app.CustomAppHelpTemplate = cli.AppHelpTemplate + exitCodeHelp()
	for _, c := range app.Commands {
		prepare(c)
	}

	return app
}

// prepare gives a command what all commands share.
func prepare(c *cli.Command) {
	if c.OnUsageError == nil {
		c.OnUsageError = onUsageError
	}
	c.HideHelpCommand = true
	for _, sub := range c.Subcommands {
		prepare(sub)
	}
	if c.Action != nil {
		c.CustomHelpTemplate = cli.CommandHelpTemplate + exitCodeHelp()
	}
}

func exitCodeHelp() string {
	var b strings.Builder
	b.WriteString("\nEXIT CODES:\n")
	if err := writeExitCodes(&b); err != nil {
		return ""
	}

	return b.String()
}

// withoutCommand runs when no command matched.
func withoutCommand(c *cli.Context, env environment) error {
	switch {
	case isOn(c, "version"):
		return printVersion(env.stdout)
	case c.Args().Present():
		return unknownCommand("compactor", c.Args().First(), c.App.Commands)
	case asColdFront(c):
		return runColdFront(c, env)
	}
	if err := cli.ShowAppHelp(c); err != nil {
		return fmt.Errorf("show help: %w", err)
	}

	return usagef("no command given")
}

var errNoTable = errors.New("no TABLE given; name it as namespace.table")

// tables returns the identifiers of the positional arguments.
func tables(c *cli.Context) ([][]string, error) {
	if !c.Args().Present() {
		return nil, &usageError{errNoTable}
	}
	var out [][]string
	for _, arg := range c.Args().Slice() {
		ident, err := parseOne(arg)
		if err != nil {
			return nil, err
		}
		out = append(out, ident)
	}

	return out, nil
}

// parseTable reads namespace.table.
func parseTable(arg string) ([]string, error) {
	parts, err := splitTable(arg)
	if err != nil {
		return nil, err
	}
	if len(parts) < 2 {
		return nil, usagef("TABLE %q has no namespace; write namespace.table", arg)
	}

	return parts, nil
}

// parseOne is parseTable for commands that take no globs.
func parseOne(arg string) ([]string, error) {
	if isGlob(arg) {
		return nil, usagef("TABLE %q is a glob, and this command takes single tables; name them as namespace.table (a sign that belongs to a name stands in double quotes)", arg)
	}

	return parseTable(arg)
}

// splitTable splits a name at its dots.
func splitTable(arg string) ([]string, error) {
	parts, err := tablename.Parse(arg)
	if err != nil {
		return nil, usagef("TABLE %q: %w", arg, err)
	}

	return parts, nil
}
