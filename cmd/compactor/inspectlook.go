package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/apache/iceberg-go/table"
	"golang.org/x/term"

	"compactor/internal/tablename"
	"compactor/internal/version"
	"compactor/pkg/inspect"
)

// inspector looks at a selection of tables, once or again and again.
type inspector struct {
	*session

	options   inspectChoice
	selection selection
	env       environment
}

// once looks at every table. outcome is the worst of what happened to single
// tables; err says that there is nothing to write.
func (i inspector) once(ctx context.Context) (doc inspection, outcome, err error) {
	idents, bad, err := i.selection.resolve(ctx, i.catalog)
	if err != nil {
		return doc, nil, err
	}
	doc = inspection{Program: "compactor", Version: version.Get().Version, At: i.now().UTC(), Tables: []inspect.Health{}}
	var errs []error
	for _, u := range bad {
		doc.Failed, errs = append(doc.Failed, inspect.Failure{Table: u.name, Error: u.err.Error()}), append(errs, u.err)
	}
	for _, ident := range idents {
		if ctx.Err() != nil {
			break
		}
		h, err := i.table(ctx, ident)
		if err != nil {
			doc.Failed, errs = append(doc.Failed, inspect.Failure{Table: tablename.String(ident), Error: err.Error()}), append(errs, err)

			continue
		}
		doc.Tables = append(doc.Tables, h)
	}
	if ctx.Err() != nil {
		return doc, nil, context.Cause(ctx) // What failed because of it says nothing about a table.
	}
	outcome = worst(errs)
	doc.ExitCode = exitCode(outcome)

	return doc, outcome, nil
}

// write puts the result on w. Several tables are ranked.
func (i inspector) write(w io.Writer, d inspection) error {
	if i.options.format == outputJSON {
		return writeJSON(w, d)
	}
	text := i.textOptions()
	for _, h := range d.Tables {
		if len(d.Tables) > 1 {
			break
		}
		if err := h.WriteText(w, text); err != nil {
			return err //nolint:wrapcheck // It says what it could not write.
		}
	}
	if len(d.Tables) > 1 {
		if err := inspect.WriteRanking(w, d.Tables, text); err != nil {
			return err //nolint:wrapcheck // As above.
		}
	}
	for _, f := range d.Failed {
		if _, err := fmt.Fprintf(w, "%s: %s\n", f.Table, tablename.OneLine(f.Error)); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
	}

	return nil
}

// textOptions say what the terminal can do, if there is one.
func (i inspector) textOptions() inspect.TextOptions {
	_, noColor := i.env.getenv("NO_COLOR")
	kind, _ := i.env.getenv("TERM")
	o := inspect.TextOptions{Plain: noColor || kind == "dumb"}
	if f, ok := i.env.stdout.(*os.File); ok && isTerminal(f) {
		o.Color = !o.Plain
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			o.Width = width
		}
	}

	return o
}

func (i inspector) table(ctx context.Context, ident table.Identifier) (inspect.Health, error) {
	on, err := i.target(ctx, ident)
	if err != nil {
		return inspect.Health{}, err
	}
	p := on.policy
	h, err := inspect.Table(ctx, on.table, inspect.Options{
		TargetFileSize: int64(p.Compact.TargetFileSize), MinFileSize: int64(p.Compact.MinFileSize), MaxFileSize: int64(p.Compact.MaxFileSize),
		MinInputFiles: p.Compact.MinInputFiles, ManifestSize: int64(p.Manifests.TargetSize), Now: i.now(),
	})
	if err != nil {
		return h, fmt.Errorf("%s: %w", on.shown, err)
	}
	h.Table = on.shown
	if i.options.orphans {
		if h.Orphans, err = i.estimateOrphans(ctx, on); err != nil {
			return h, fmt.Errorf("%s: estimate orphans: %w", on.shown, err)
		}
	}
	h.Steps = i.verdicts(on, h)

	return h, nil
}
