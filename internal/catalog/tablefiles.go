package catalog

import (
	"context"
	"errors"
	"fmt"

	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"compactor/internal/store"
	"compactor/internal/tablename"
)

// tableFiles makes the FileIO of one loaded table.
type tableFiles struct {
	c     *Catalog
	ident table.Identifier

	turn   chan struct{} // taken by whoever uses what follows
	loaded *table.Table  // whose properties and credentials are in use
	vended *store.Vended
}

// fs returns a FileIO bound to ctx. Vended credentials are renewed while it is
// in use, whether or not the catalog has an endpoint for that: the table is
// loaded again and its new credentials are taken, nothing else of it.
func (f *tableFiles) fs(ctx context.Context) (icebergio.IO, error) {
	if err := f.take(ctx); err != nil {
		return nil, err
	}
	defer f.give()
	ours, err := f.open(ctx)
	if err != nil {
		// The client library could not renew them.
		if ours, err = f.reload(ctx, err); err != nil {
			return nil, err
		}
	}
	if f.vended == nil {
		f.vended = store.NewVended(ours.Properties(), f.renew)
	}
	return ours.WithVended(f.vended), nil
}

// renew returns the FileIO properties of the table as it is now.
func (f *tableFiles) renew(ctx context.Context) (map[string]string, error) {
	if err := f.take(ctx); err != nil {
		return nil, err
	}
	defer f.give()
	ours, err := f.reload(ctx, nil)
	if err != nil {
		return nil, err
	}
	return ours.Properties(), nil
}

func (f *tableFiles) reload(ctx context.Context, cause error) (*store.FS, error) {
	tbl, err := f.c.loadInner(ctx, f.ident)
	if err == nil {
		f.loaded = tbl
		var ours *store.FS
		if ours, err = f.open(ctx); err == nil {
			return ours, nil
		}
	}
	return nil, fmt.Errorf("open files of table %s: %w", tablename.String(f.ident), errors.Join(cause, err))
}

// open asks for credentials where the catalog has an endpoint for that: in
// bounded time, and promptly when ctx ends.
func (f *tableFiles) open(ctx context.Context) (*store.FS, error) {
	bound, cancel := f.c.within(ctx)
	defer cancel()
	loaded := f.loaded // A call that is given up may go on for a while.
	io, err := promptly(bound, func() (icebergio.IO, error) { return loaded.FS(f.c.Context(ctx)) }, nil)
	if err != nil {
		return nil, err
	}
	ours, ok := io.(*store.FS)
	if !ok {
		return nil, errors.New("the FileIO is not the store's: store.Register was not called")
	}
	return ours.WithContext(ctx), nil
}

// take waits for the turn, or for the end of ctx.
func (f *tableFiles) take(ctx context.Context) error {
	select {
	case f.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("open files of table %s: %w", tablename.String(f.ident), context.Cause(ctx))
	}
}

func (f *tableFiles) give() { <-f.turn }
