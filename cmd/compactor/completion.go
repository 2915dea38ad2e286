package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"compactor/internal/config"
	"compactor/internal/store"
	"compactor/internal/tablename"
)

const completionDescription = `Prints a script that completes commands, flags, the words that some flags take, and,
where a configuration is at hand (--config on the line, or COMPACTOR_CONFIG), the names
of tables. The catalog has two seconds to answer, or as long as COMPACTOR_COMPLETION_TIME
says; whatever goes wrong completes nothing.

    bash   source <(compactor completion bash)            in ~/.bashrc
    zsh    source <(compactor completion zsh)             in ~/.zshrc, after compinit
    fish   compactor completion fish | source             in ~/.config/fish/config.fish`

// completionTime is how long the catalog may take to name its tables, unless
// completionTimeName in the environment says otherwise.
const (
	completionTime     = 2 * time.Second
	completionTimeName = "COMPACTOR_COMPLETION_TIME"
)

// completeCommand is what the scripts call, with the words of the line after it.
const completeCommand = "__complete"

func completionCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:        "completion",
		Usage:       "print a script for the completion of a shell: bash, zsh or fish",
		ArgsUsage:   "SHELL",
		Description: completionDescription,
		Action: func(c *cli.Context) error {
			script, known := completionScripts()[c.Args().First()]
			if !known || c.Args().Len() != 1 {
				return usagef("name one shell: bash, zsh or fish")
			}
			if _, err := io.WriteString(env.stdout, script); err != nil {
				return fmt.Errorf("write completion script: %w", err)
			}

			return nil
		},
	}
}

// completionScripts hand the words up to the cursor to the program and take one
// candidate a line.
func completionScripts() map[string]string {
	return map[string]string{
		"bash": `_compactor() {
  local candidate cur line="${COMP_LINE:0:COMP_POINT}" words
  read -a words <<<"$line" # It also takes the backslashes away.
  [[ $line == *[[:space:]] ]] && words+=("")
  cur="${words[-1]}"
  COMPREPLY=()
  while IFS= read -r candidate; do
    printf -v candidate %q "$candidate"
    # Readline has split the word at = and :, and replaces what stands behind.
    COMPREPLY+=("${candidate#"${cur%"${cur##*[=:]}"}"}")
  done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
}
complete -o default -o nosort -F _compactor compactor
`,
		"zsh": `#compdef compactor
_compactor() {
  local -a candidates
  candidates=("${(@f)$("${words[1]}" __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  candidates=("${(@)candidates:#}")
  if (( $#candidates )); then compadd -- "${candidates[@]}"; else _files; fi
}
compdef _compactor compactor
`,
		"fish": `function __compactor_complete
  set -l words (commandline -opc) (commandline -ct)
  $words[1] __complete $words[2..-1] 2>/dev/null
end
complete -c compactor -a '(__compactor_complete)'
`,
	}
}

// complete prints what may stand at the end of a command line. words are those
// after the program's name; the last one is being typed and may be empty. It is
// quiet about everything that goes wrong.
func complete(ctx context.Context, env environment, words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	typed, before := words[len(words)-1], words[:len(words)-1]
	if slices.Contains(before, "--") {
		return nil // What follows belongs to another program.
	}
	at := position(newApp(env), before)
	var out []string
	switch {
	case at.value != "":
		out = flagValues(at.value)
	case strings.HasPrefix(typed, "-"):
		out = at.flagNames(typed)
	case len(at.commands) > 0:
		out = commandNames(at.commands)
	case at.tables:
		out = tableNames(ctx, env, before)
	}
	var b strings.Builder
	for _, candidate := range out {
		if strings.HasPrefix(candidate, typed) {
			b.WriteString(candidate + "\n")
		}
	}
	if _, err := io.WriteString(env.stdout, b.String()); err != nil {
		return fmt.Errorf("write completion: %w", err)
	}

	return nil
}

// place is where in the grammar of the command line the cursor is.
type place struct {
	commands []*cli.Command // that may follow
	flags    []cli.Flag
	value    string // the flag whose value is typed
	tables   bool   // names of tables may follow
}

// position follows the words to where the cursor is.
func position(app *cli.App, words []string) place {
	at := place{commands: app.Commands, flags: app.Flags}
	for i := 0; i < len(words); i++ {
		word := words[i]
		if strings.HasPrefix(word, "-") {
			if !takesValue(at.flags, word) {
				continue
			}
			if i++; i == len(words) {
				at.value = strings.TrimLeft(word, "-")
			}

			continue
		}
		cmd := find(at.commands, word)
		if cmd == nil {
			at.commands = nil

			continue
		}
		at.commands, at.flags = cmd.Subcommands, cmd.Flags
		at.tables = strings.Contains(cmd.ArgsUsage, "TABLE") || strings.Contains(cmd.UsageText, "TABLE")
	}

	return at
}

func commandNames(cmds []*cli.Command) []string {
	var out []string
	for _, c := range cmds {
		if !c.Hidden {
			out = append(out, c.Name)
		}
	}

	return out
}

// flagNames are the flags of the command, and, after a =, the values of one.
func (p place) flagNames(typed string) []string {
	if name, _, inline := strings.Cut(typed, "="); inline {
		var out []string
		for _, v := range flagValues(strings.TrimLeft(name, "-")) {
			out = append(out, name+"="+v)
		}

		return out
	}
	var out []string
	for _, f := range p.flags {
		out = append(out, "--"+f.Names()[0])
	}

	return append(out, "--help")
}

// flagValues are the words that a flag takes, where these are few.
func flagValues(name string) []string {
	return map[string][]string{
		"output": {outputText, outputJSON}, "o": {outputText, outputJSON},
		"log-level": {"debug", "info", "warn", "error"}, "log-format": {"auto", "console", "json"},
		"claim-mode": {"auto", "coldfront", "bakery", "advisory", "file", "none"}, "claim-pooler": {"refuse", "session"},
		"catalog-type": {"rest", "sql", "glue"}, "s3-url-style": {"path", "vhost"},
		"engine": {"auto", "general", "splice"}, "on-conflict": {"fail", "replan"}, "override-delete-disabled": {"true", "false"},
	}[name]
}

// tableNames asks the catalog that the command line names.
func tableNames(ctx context.Context, env environment, words []string) []string {
	patience := completionTime
	if text, set := env.getenv(completionTimeName); set {
		if d, err := config.ParseDuration(text); err == nil {
			patience = time.Duration(d)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out []string
	app := newApp(env)
	app.Writer, app.ErrWriter = io.Discard, io.Discard
	app.Commands, app.Before, app.OnUsageError = nil, nil, nil
	app.Flags = commonFlags()
	app.Action = func(c *cli.Context) error {
		cfg, err := loadConfig(c, env)
		if err != nil {
			return err
		}
		s := &session{cfg: cfg, log: zerolog.Nop(), now: env.clock(), counters: &store.Counters{}}
		defer s.close()
		if err := s.openCatalog(c.Context); err != nil {
			return err
		}
		for ident, err := range s.catalog.Walk(c.Context, anywhere) {
			if err != nil && ident == nil {
				return fmt.Errorf("complete: %w", err)
			}
			if err == nil {
				out = append(out, tablename.String(ident))
			}
		}

		return nil
	}
	_ = app.RunContext(ctx, append([]string{app.Name}, onlyCommon(words)...)) // Names found so far are offered all the same.

	return out
}

func anywhere([]string) bool { return true }

// onlyCommon keeps the flags that say how the catalog is reached.
func onlyCommon(words []string) []string {
	var out []string
	flags := commonFlags()
	for i := 0; i < len(words); i++ {
		name, _, _ := strings.Cut(strings.TrimLeft(words[i], "-"), "=")
		known := strings.HasPrefix(words[i], "-") && slices.ContainsFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
		if !known {
			continue
		}
		out = append(out, words[i])
		if takesValue(flags, words[i]) && i+1 < len(words) {
			i++
			out = append(out, words[i])
		}
	}

	return out
}
