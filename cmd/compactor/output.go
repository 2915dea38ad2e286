package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"compactor/internal/version"
	"compactor/pkg/maintenance"
)

const (
	outputText = "text"
	outputJSON = "json"
)

func outputFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FORMAT` of the result on stdout: text or json", DefaultText: outputText}
}

func outputFormat(c *cli.Context) (string, error) {
	v, ok := lookup(c, "output")
	if !ok {
		return outputText, nil
	}
	if v != outputText && v != outputJSON {
		return "", usagef("--output %q: use text or json", v)
	}

	return v, nil
}

// wantsJSON says whether the command line asks for JSON, also when it is wrong
// in other ways.
func wantsJSON(args []string) bool {
	for i, arg := range args {
		if arg == "--" {
			break // What follows is for another program.
		}
		name, value, inline := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "-") || name != "output" && name != "o" {
			continue
		}
		if !inline && i+1 < len(args) {
			value = args[i+1]
		}
		if value == outputJSON {
			return true
		}
	}

	return false
}

// writeFailure is the document of a call that ended before it had a report.
func writeFailure(w io.Writer, err error) error {
	now := time.Now().UTC()

	return writeJSON(w, maintenance.Report{
		Program: "compactor", Version: version.Get().Version, StartedAt: now, FinishedAt: now, Error: err.Error(), ExitCode: exitCode(err),
		Tables: []maintenance.TableReport{},
	})
}

// newLogger logs to stderr: for people on a terminal, as JSON lines elsewhere.
func newLogger(c *cli.Context, env environment) (zerolog.Logger, error) {
	return newLoggerOn(c, env, env.stderr)
}

// newLoggerOn is newLogger with the lines on their way to stderr going through out.
func newLoggerOn(c *cli.Context, env environment, out io.Writer) (zerolog.Logger, error) {
	level := zerolog.InfoLevel
	if v, ok := lookup(c, "log-level"); ok {
		parsed, err := zerolog.ParseLevel(v)
		if err != nil || !slices.Contains([]string{"debug", "info", "warn", "error"}, v) {
			return zerolog.Nop(), usagef("--log-level %q: use debug, info, warn or error", v)
		}
		level = parsed
	}
	if isOn(c, "quiet") {
		level = max(level, zerolog.WarnLevel)
	}
	format, _ := lookup(c, "log-format")
	var w io.Writer
	switch format {
	case "", "auto":
		w = out
		if isTerminal(env.stderr) {
			w = console(env, out)
		}
	case "console":
		w = console(env, out)
	case "json":
		w = out
	default:
		return zerolog.Nop(), usagef("--log-format %q: use auto, console or json", format)
	}

	// Several tables log at a time: a line is written whole, one after the other.
	return zerolog.New(zerolog.SyncWriter(w)).Level(level).Hook(utcTime{}), nil
}

// utcTime stamps each line in RFC 3339, UTC.
type utcTime struct{}

func (utcTime) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format(time.RFC3339Nano))
}

func console(env environment, out io.Writer) io.Writer {
	_, noColor := env.getenv("NO_COLOR")

	return zerolog.ConsoleWriter{Out: out, NoColor: noColor || !isTerminal(env.stderr), TimeFormat: time.RFC3339}
}

// canDraw says whether stderr is a terminal on which lines can be redrawn.
func canDraw(env environment) bool {
	kind, _ := env.getenv("TERM")

	return isTerminal(env.stderr) && kind != "dumb"
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)

	return ok && term.IsTerminal(int(f.Fd()))
}

// writeReport puts the result on stdout.
func writeReport(env environment, format string, rep maintenance.Report) error {
	if format == outputJSON {
		return writeJSON(env.stdout, rep)
	}

	return rep.WriteText(env.stdout) //nolint:wrapcheck // It says what it could not write.
}
