package main

import (
	"errors"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"compactor/internal/config"
	"compactor/pkg/inspect"
)

const inspectDescription = `Describes each TABLE from its metadata: sizes of data files, partitions with most
small files, deletes, snapshots, manifests, what a compaction would save, and what
each step of a run would do. It reads manifests and no data, takes no claim, needs
no PostgreSQL and writes nothing to the catalog or the store. What a step would do
exactly, --dry-run of that step says. Orphans are looked for on request only.
--html writes one page that needs nothing else and no network; a file that is there
is replaced in one step. Several tables are ranked, and the page has all of them.`

// inspection is the document of the command.
type inspection struct {
	Program  string            `json:"program"`
	Version  string            `json:"version"`
	At       time.Time         `json:"at"`
	ExitCode int               `json:"exit_code"`
	Tables   []inspect.Health  `json:"tables"`
	Failed   []inspect.Failure `json:"failed,omitempty"`
	Error    string            `json:"error,omitempty"` // why there is no page
}

func inspectCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:        "inspect",
		Usage:       "describe the health of tables, and what each step would do",
		ArgsUsage:   tableArgs,
		Description: inspectDescription + selectionHelp,
		Flags:       slices.Concat(inspectFlags(), stringFlags(compactKeyFlags(), "Compaction:"), inspectSelection(), commonFlags()),
		Action:      func(c *cli.Context) error { return inspectTables(c, env) },
	}
}

func inspectFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "html", Usage: "write a page to `FILE` too"},
		&cli.BoolFlag{Name: "estimate-orphans", Usage: "list the tables' folders too, and count the files that no snapshot references"},
		&cli.BoolFlag{Name: "watch", Usage: "look again and again, until SIGINT or SIGTERM; a terminal is cleared before each look"},
		&cli.StringFlag{Name: "interval", Usage: "with --watch, look again `DURATION` after a look", DefaultText: "10s; at least 1s"},
	}
}

// inspectChoice is what the command line says.
type inspectChoice struct {
	format   string
	html     string // path of the page; empty: none
	orphans  bool
	watch    bool
	interval time.Duration
}

const defaultInterval, leastInterval = 10 * time.Second, time.Second

func inspectOptions(c *cli.Context) (inspectChoice, error) {
	o := inspectChoice{orphans: isOn(c, "estimate-orphans"), watch: isOn(c, "watch"), interval: defaultInterval}
	var err error
	if o.format, err = outputFormat(c); err != nil {
		return o, err
	}
	if text, given := lookup(c, "interval"); given {
		if !o.watch {
			return o, usagef("--interval is for --watch")
		}
		d, err := config.ParseDuration(text)
		if err != nil {
			return o, usagef("--interval %q: %w", text, err)
		}
		if o.interval = time.Duration(d); o.interval < leastInterval {
			return o, usagef("--interval %s: at least %s", text, leastInterval)
		}
	}
	if text, given := lookup(c, "html"); given {
		if o.html, err = pagePath(text); err != nil {
			return o, err
		}
	}

	return o, nil
}

// inspectSelection leaves out what is about work on tables.
func inspectSelection() []cli.Flag {
	return slices.DeleteFunc(selectionFlags(), func(f cli.Flag) bool {
		return slices.Contains([]string{"parallel", "max-duration"}, f.Names()[0])
	})
}

func inspectTables(c *cli.Context, env environment) error {
	sel, err := selectTables(c)
	if err != nil {
		return err
	}
	o, err := inspectOptions(c)
	if err != nil {
		return err
	}
	s, err := openSession(c, env, true)
	if err != nil {
		return err
	}
	defer s.close()
	look := inspector{session: s, options: o, selection: sel, env: env}
	if o.watch {
		return look.watch(c.Context)
	}
	doc, outcome, err := look.once(c.Context)
	if err != nil {
		return err
	}
	if err := look.writePage(doc); err != nil {
		doc.Error, doc.ExitCode = err.Error(), exitCode(worst([]error{outcome, err}))
		if err := look.write(env.stdout, doc); err != nil {
			return errors.Join(outcome, err)
		}
		if o.format == outputJSON {
			return &reportedError{errors.Join(outcome, err)} // The one document has it.
		}

		return errors.Join(outcome, err)
	}
	if err := look.write(env.stdout, doc); err != nil {
		return errors.Join(outcome, err)
	}
	if outcome != nil {
		return &reportedError{outcome}
	}

	return nil
}
