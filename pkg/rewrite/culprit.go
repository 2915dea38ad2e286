package rewrite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

var errUnreadable = errors.New("unreadable data file")

// nameCulprit says what a failure was about. A failed write is on record. A
// failed read is traced to its input: several files
// are decoded at once, so the scanner's error need not say which one it was, and
// each file is read alone until one fails; this happens on the way to a
// failure, where time does not matter. A failure of the store names its file already, and
// says nothing about what is in it.
func (g *groupRun) nameCulprit(ctx context.Context, o readOptions, cause error) error {
	if ctx.Err() != nil || errors.Is(cause, ErrIntegrity) || errors.Is(cause, errSort) || errors.Is(cause, errNaNForms) {
		return cause
	}
	if written := g.fs.failure(); written != nil {
		return fmt.Errorf("%w; %w", cause, written)
	}
	if ofStore(cause) {
		return cause
	}
	for _, f := range g.group.Files {
		if err := tryRead(ctx, g, f, o); err != nil {
			return fmt.Errorf("data file %s: %w", f.Data.FilePath(), unreadable(err))
		}
	}

	return cause
}

// ofStore says whether the store, and not the content of a file, is behind a failure.
func ofStore(err error) bool {
	var at *fs.PathError

	return errors.As(err, &at)
}

// unreadable classes a failure to read a file: that of the store stays what it is.
func unreadable(err error) error {
	if ofStore(err) || errors.Is(err, errUnreadable) {
		return err
	}

	return fmt.Errorf("%w: %w", errUnreadable, err)
}

func tryRead(ctx context.Context, g *groupRun, f File, o readOptions) error {
	_, batches, err := openRows(ctx, g.tbl, []File{f}, o)
	if err != nil {
		return err
	}
	for rec, err := range batches {
		if err != nil {
			return err
		}
		rec.Release()
	}

	return nil
}
