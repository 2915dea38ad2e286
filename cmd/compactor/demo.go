package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/dustin/go-humanize"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"compactor/internal/catalog"
	"compactor/internal/config"
	"compactor/internal/demo"
	"compactor/internal/store"
	"compactor/pkg/maintenance"
)

func demoCommand(env environment) *cli.Command {
	return &cli.Command{
		Name:      "demo",
		Usage:     "make a fragmented table in a folder and run the real job on it, end to end",
		ArgsUsage: " ",
		Description: "Makes a new SQLite catalog and a warehouse in a folder, with a table of 500 small files in\n" +
			"3 partitions, some deletes and a tag; compacts it under a file claim; shows the table before and\n" +
			"after, and that every row is still there. The folder stays, to look at it further.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Usage: "`FOLDER` of the demo; an earlier demo in it is replaced", Value: "compactor-demo"},
		},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}

			return runDemo(c.Context, sealed(env), c.String("dir"))
		},
	}
}

// sealed hides the shell's settings of catalogs, stores and databases: the demo
// works in its folder and nowhere else.
func sealed(env environment) environment {
	outer := env.getenv
	env.environ = nil
	env.getenv = func(name string) (string, bool) {
		if name == "NO_COLOR" || name == "GOMEMLIMIT" {
			return outer(name)
		}

		return "", false
	}

	return env
}

func noArguments(c *cli.Context) error {
	if c.Args().Present() {
		return usagef("%s takes no arguments, but was given %q", c.Command.HelpName, c.Args().First())
	}

	return nil
}

// quote makes a word safe to paste into a shell.
func quote(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./@%+=:,-", r)
	}) {
		return word
	}

	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// runDemo shows the whole job. It fails when a row is missing afterwards.
func runDemo(ctx context.Context, env environment, dir string) error {
	say := func(format string, args ...any) {
		fmt.Fprintf(env.stdout, format+"\n", args...) //nolint:errcheck // Whoever reads it may go away.
	}
	if err := plainFolder(dir); err != nil {
		return err
	}
	abs, free, err := freshFolder(dir)
	if err != nil {
		return err
	}
	defer free()
	file := filepath.Join(dir, "compactor.yaml")
	if err := os.WriteFile(file, []byte(demoConfig(abs)), 0o600); err != nil {
		return fmt.Errorf("write demo configuration: %w", err)
	}
	name := strings.Join(demo.Ident(), ".")
	say("1. making %s in %s: %d small files, %d partitions, deletes, a tag", name, dir, demo.Files, len(demo.Regions()))
	before, rowsBefore, err := demoTable(ctx, env, file, true)
	if err != nil {
		return err
	}
	program := env.args[0]
	command := []string{program, "run", "--config", file, name}
	say("2. running the job: %s\n", strings.Join(command, " "))
	job := env
	job.args = slices.Concat(command, []string{"--log-level", "warn"})
	if err := run(ctx, job); err != nil {
		return err
	}
	after, rowsAfter, err := demoTable(ctx, env, file, false)
	if err != nil {
		return err
	}
	say("\n3. the table before and after")
	if err := writeComparison(env.stdout, before, after); err != nil {
		return err
	}
	if rowsBefore != rowsAfter {
		return fmt.Errorf("rows differ: before %s, after %s: %w", rowsBefore, rowsAfter, maintenance.ErrHalt)
	}
	say("\nrows identical: %s", rowsAfter)
	say("\nlook further:")
	for _, args := range []string{"compact --dry-run --config " + quote(file) + " " + name, "config show --config " + quote(file)} {
		say("  %s %s", quote(program), args)
	}
	say("  ls -R %s", quote(filepath.Join(dir, "warehouse")))

	return nil
}

// plainFolder refuses a folder whose path a URL escapes: the library would put
// the table's files into another one (see inPlace in package maintenance).
func plainFolder(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find folder %s: %w", dir, err)
	}
	if escaped := (&url.URL{Path: abs}).EscapedPath(); escaped != abs {
		return usagef("--dir %s: the files of the table would land in %s: name a folder without spaces and signs that a URL escapes", dir, escaped)
	}

	return nil
}

func demoConfig(dir string) string {
	return fmt.Sprintf(`# The catalog, the warehouse and the claims of the demo, all in one folder.
catalog:
  type: sql
  name: demo
  uri: %q
  warehouse: %q
claim:
  mode: file
  dir: %q
  realm: demo
`, "sqlite:"+filepath.Join(dir, "catalog.db"), "file://"+filepath.Join(dir, "warehouse"), filepath.Join(dir, "claims"))
}

// size is what a newcomer compares.
type tableSize struct{ files, deleteFiles, bytes, snapshots, rows int64 }

// demoTable opens the catalog of the demo, makes the table when asked to, and
// measures it.
func demoTable(ctx context.Context, env environment, file string, build bool) (tableSize, demo.Fingerprint, error) {
	cfg, err := config.Load(config.Source{Path: file, Env: env.getenv, ReadFile: os.ReadFile})
	if err != nil {
		return tableSize{}, demo.Fingerprint{}, &usageError{err}
	}
	s := &session{cfg: cfg, counters: &store.Counters{}, log: zerolog.Nop(), started: time.Now()}
	cat, err := catalog.Open(ctx, s.catalogOptions())
	if err != nil {
		return tableSize{}, demo.Fingerprint{}, fmt.Errorf("open demo catalog: %w", err)
	}
	s.catalog = cat
	defer s.close()
	if build {
		if err := demo.Build(cat.Context(ctx), cat.Client(), demo.Ident()); err != nil {
			return tableSize{}, demo.Fingerprint{}, fmt.Errorf("make demo table: %w", err)
		}
	}
	tbl, err := cat.LoadTable(ctx, demo.Ident())
	if err != nil {
		return tableSize{}, demo.Fingerprint{}, fmt.Errorf("load demo table: %w", err)
	}
	rows, err := demo.Take(ctx, tbl)
	if err != nil {
		return tableSize{}, demo.Fingerprint{}, fmt.Errorf("read demo table: %w", err)
	}
	size, err := measure(ctx, tbl)
	size.rows = rows.Rows

	return size, rows, err
}

// measure counts what the current snapshot consists of.
func measure(ctx context.Context, tbl *table.Table) (tableSize, error) {
	out := tableSize{snapshots: int64(len(tbl.Metadata().Snapshots()))}
	fio, err := tbl.FS(ctx)
	if err != nil {
		return out, fmt.Errorf("open file io: %w", err)
	}
	manifests, err := tbl.CurrentSnapshot().Manifests(fio)
	if err != nil {
		return out, fmt.Errorf("read manifest list: %w", err)
	}
	for _, m := range manifests {
		for entry, err := range m.Entries(fio, true) {
			if err != nil {
				return out, fmt.Errorf("read manifest %s: %w", m.FilePath(), err)
			}
			out.bytes += entry.DataFile().FileSizeBytes()
			if m.ManifestContent() == 0 {
				out.files++
			} else {
				out.deleteFiles++
			}
		}
	}

	return out, nil
}

func writeComparison(w io.Writer, before, after tableSize) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	row := func(label, b, a string) { fmt.Fprintf(tw, "%s\t%s\t%s\t\n", label, b, a) } //nolint:errcheck // Flush returns it.
	row("", "before", "after")
	for _, r := range []struct {
		label string
		b, a  int64
	}{
		{"data files", before.files, after.files},
		{"delete files", before.deleteFiles, after.deleteFiles},
		{"snapshots", before.snapshots, after.snapshots},
		{"rows", before.rows, after.rows},
	} {
		row(r.label, humanize.Comma(r.b), humanize.Comma(r.a))
	}
	row("bytes", humanize.IBytes(uint64(before.bytes)), humanize.IBytes(uint64(after.bytes))) //nolint:gosec // Sums of file sizes.
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}

	return nil
}
