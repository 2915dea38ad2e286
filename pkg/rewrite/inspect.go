package rewrite

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/parquet/file"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"
)

// Inspect reads the footer of every planned input and moves the files that
// Rewrite would not take from Groups to Refused, and groups that could not be
// read, so that a plan that is only shown says what a run would do. Rewrite looks
// for itself; a run has no need of this, and is spared reading the footers of
// groups that another round may find changed.
//
// It reads and changes nothing else. The error is that of a cancelled context or
// of storage that cannot be opened; the call may be repeated.
func (p *Plan) Inspect(ctx context.Context, tbl *table.Table) error {
	storage, err := tbl.FS(ctx)
	if err != nil {
		return fmt.Errorf("open storage of table: %w", err)
	}
	seen := make([]inspection, len(p.Groups))
	work, inner := errgroup.WithContext(ctx)
	work.SetLimit(inspectors)
	for i, g := range p.Groups {
		work.Go(func() error {
			seen[i] = inspectGroup(inner, tbl, storage, g)

			return nil
		})
	}
	_ = work.Wait() // no goroutine above returns an error
	if ctx.Err() != nil {
		return fmt.Errorf("inspect planned files: %w", context.Cause(ctx))
	}
	groups := p.Groups
	p.Groups = nil
	for i, g := range groups {
		p.keep(g, seen[i])
	}
	if len(p.Groups) == 0 && len(groups) > 0 {
		p.Reason = "everything that could be rewritten was refused"
	}

	return nil
}

// keep puts back what is left of a group that was inspected.
func (p *Plan) keep(g Group, seen inspection) {
	if seen.failed != nil {
		p.Refused = append(p.Refused, Refusal{What: groupName(g), Reason: seen.failed.Error(), Files: len(g.Files), Bytes: g.Bytes})

		return
	}
	if len(seen.refused) > 0 {
		p.Refused = append(p.Refused, asRefusals(seen.refused)...)
		g.Files = seen.left
		var why string
		if g, why = g.weigh(); why == "" {
			return
		}
		g.ReasonPicked = why
	}
	p.Groups = append(p.Groups, g)
}

// inspection is what the footers of a group say.
type inspection struct {
	left    []File
	refused []refusedFile
	failed  error
}

// inspectGroup reads footers until one cannot be read.
func inspectGroup(ctx context.Context, tbl *table.Table, storage iceio.IO, g Group) inspection {
	var out inspection
	keys, err := readKeyForms(ctx, tbl, storage, g.Files)
	if err != nil {
		return inspection{failed: err}
	}
	for _, f := range g.Files {
		if ctx.Err() != nil {
			return inspection{failed: context.Cause(ctx)}
		}
		switch err := inspectFooter(tbl, storage, f, keys); {
		case errors.Is(err, ErrRefused):
			out.refused = append(out.refused, refusedFile{f, err})
		case err != nil:
			return inspection{failed: fmt.Errorf("data file %s: %w", f.Data.FilePath(), err)}
		default:
			out.left = append(out.left, f)
		}
	}

	return out
}

func inspectFooter(tbl *table.Table, storage iceio.IO, f File, keys keyForms) (err error) {
	defer func() {
		// A damaged footer makes the Parquet library panic.
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: read footer: %v", errUnreadable, p)
		}
	}()
	in, err := storage.Open(f.Data.FilePath())
	if err != nil {
		return unreadable(err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	pf, err := file.NewParquetReader(in)
	if err != nil {
		return unreadable(err)
	}

	_, err = readContents(tbl, f, pf.MetaData(), keys)

	return err
}
