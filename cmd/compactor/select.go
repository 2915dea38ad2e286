package main

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/apache/iceberg-go/table"
	"github.com/urfave/cli/v2"

	"compactor/internal/catalog"
	"compactor/internal/config"
	"compactor/internal/tablename"
	"compactor/pkg/maintenance"
)

// globSigns make a TABLE argument a glob, outside of double quotes.
const globSigns = `*?[`

// tableArgs is how commands that work on many tables describe their arguments.
const tableArgs = "TABLE..."

const selectionHelp = `
TABLE is namespace.table, or a glob on that name: * matches any text, dots
included, so that 'sales.*' has the tables of sales.eu too. A glob that matches
nothing is an error. A name that holds a dot stands in double quotes.`

func selectionFlags() []cli.Flag {
	const category = "Tables:"

	return []cli.Flag{
		&cli.BoolFlag{Name: "all", Usage: "every table of the catalog, instead of TABLE", Category: category},
		&cli.StringSliceFlag{Name: "exclude", Usage: "leave out what the `GLOB` matches; may be repeated", Category: category},
		&cli.IntFlag{Name: "parallel", Usage: "work on `N` tables at a time, each under its own claim, within the one memory budget", DefaultText: "1", Category: category},
		&cli.StringFlag{Name: "max-duration", Usage: "begin no claim, step or table after `DURATION`; what is left is reported", Category: category},
	}
}

// maxDeletesFlag belongs to the commands that delete files of tables.
func maxDeletesFlag() cli.Flag {
	return &cli.IntFlag{Name: "max-deletes", Usage: "ask for at most `N` deletes of files, over all tables; the next run goes on", DefaultText: "no limit", Category: "Tables:"}
}

// selection is what the command line says about the tables to work on.
type selection struct {
	idents  []table.Identifier // named one by one
	globs   []string
	all     bool
	exclude []string
}

// selectTables reads the arguments of a command. It reaches no catalog.
func selectTables(c *cli.Context) (selection, error) {
	s := selection{all: isOn(c, "all")}
	for _, arg := range c.StringSlice("exclude") {
		glob, err := parseGlob(arg)
		if err != nil {
			return s, usagef("--exclude: %w", err)
		}
		s.exclude = append(s.exclude, glob)
	}
	args := c.Args().Slice()
	switch {
	case s.all && len(args) > 0:
		return s, usagef("--all stands for every table; leave out %q, or leave out --all", args[0])
	case !s.all && len(args) == 0:
		return s, usagef("%w, or a glob, or say --all", errNoTable)
	}
	for _, arg := range args {
		if err := s.add(arg); err != nil {
			return s, err
		}
	}

	return s, nil
}

func (s *selection) add(arg string) error {
	if isGlob(arg) {
		glob, err := parseGlob(arg)
		s.globs = append(s.globs, glob)

		return err
	}
	ident, err := parseTable(arg)
	s.idents = append(s.idents, ident)

	return err
}

// isGlob says whether an argument has a sign of a glob outside of quotes.
func isGlob(arg string) bool {
	for i, part := range strings.Split(arg, `"`) {
		if i%2 == 0 && strings.ContainsAny(part, globSigns) {
			return true
		}
	}

	return false
}

// parseGlob reads a glob on namespace.table. Signs within double quotes stand
// for themselves.
func parseGlob(arg string) (string, error) {
	if _, err := splitTable(arg); err != nil {
		return "", err
	}
	var b strings.Builder
	for i, part := range strings.Split(arg, `"`) {
		if i%2 == 1 {
			part = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(part)
		}
		b.WriteString(part)
	}
	if _, err := path.Match(b.String(), ""); err != nil {
		return "", usagef("TABLE %q is not a glob: %w", arg, err)
	}

	return b.String(), nil
}

// unlisted is a namespace whose tables are not known.
type unlisted struct {
	name string
	err  error
}

// resolve asks the catalog for the tables of globs and of --all. Tables that
// were named are taken as they are: loading them will tell. A namespace that
// cannot be listed does not stop the others.
func (s selection) resolve(ctx context.Context, cat *catalog.Catalog) ([]table.Identifier, []unlisted, error) {
	chosen := newTableSet(s.exclude)
	for _, ident := range s.idents {
		chosen.add(ident)
	}
	if !s.all && len(s.globs) == 0 {
		return chosen.idents, nil, chosen.empty()
	}
	globs := s.globs
	if s.all {
		globs = []string{"*"}
	}
	hits := make(map[string]bool, len(globs))
	var bad []unlisted
	for ident, err := range cat.Walk(ctx, func(ns table.Identifier) bool { return anyWithin(globs, ns) }) {
		switch {
		case err != nil && ident == nil:
			return nil, nil, fmt.Errorf("find tables: %w", err)
		case err != nil:
			bad = append(bad, unlisted{tablename.String(ident) + ".*", err})
		default:
			for _, glob := range globs {
				if config.MatchTable(glob, strings.Join(ident, ".")) {
					hits[glob] = true
					chosen.add(ident)
				}
			}
		}
	}
	if err := s.missed(hits, bad); err != nil {
		return nil, nil, err
	}
	if len(bad) > 0 {
		return chosen.idents, bad, nil
	}

	return chosen.idents, nil, chosen.empty()
}

// missed is the error for a glob that matched nothing. While a namespace could
// not be listed nobody knows.
func (s selection) missed(hits map[string]bool, bad []unlisted) error {
	if len(bad) > 0 {
		return nil
	}
	if s.all && !hits["*"] {
		return usagef("--all: the catalog has no tables; check catalog.uri and catalog.warehouse")
	}
	for _, glob := range s.globs {
		if !hits[glob] {
			return usagef("TABLE %q matches no table", glob)
		}
	}

	return nil
}

// anyWithin says whether a namespace, or one below it, can hold a match.
func anyWithin(globs []string, ns table.Identifier) bool {
	name := strings.Join(ns, ".") + "."
	for _, glob := range globs {
		literal := glob
		if i := strings.IndexAny(glob, globSigns+`\`); i >= 0 {
			literal = glob[:i]
		}
		if strings.HasPrefix(name, literal) || strings.HasPrefix(literal, name) {
			return true
		}
	}

	return false
}

// tableSet collects tables, each once, without those that are excluded.
type tableSet struct {
	exclude  []string
	idents   []table.Identifier
	seen     map[string]bool
	excluded int
}

func newTableSet(exclude []string) *tableSet {
	return &tableSet{exclude: exclude, seen: map[string]bool{}}
}

func (t *tableSet) add(ident table.Identifier) {
	key := strings.Join(ident, "\x00")
	if t.seen[key] {
		return
	}
	t.seen[key] = true
	for _, glob := range t.exclude {
		if config.MatchTable(glob, strings.Join(ident, ".")) {
			t.excluded++

			return
		}
	}
	t.idents = append(t.idents, ident)
}

// empty is the error for a selection of which nothing is left.
func (t *tableSet) empty() error {
	if len(t.idents) > 0 {
		return nil
	}

	return usagef("--exclude leaves none of the %d tables", t.excluded)
}

// report is what became of a namespace that could not be listed.
func (u unlisted) report(ctx context.Context) (maintenance.TableReport, error) {
	err := stopped(ctx, fmt.Errorf("list tables: %w", u.err))

	return maintenance.TableReport{Table: u.name, Steps: []maintenance.StepReport{}, Error: err.Error()}, err
}
