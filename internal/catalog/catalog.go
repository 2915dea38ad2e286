package catalog

import (
	"context"
	"errors"
	"fmt"

	icecat "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/rs/zerolog"

	"compactor/internal/store"
	"compactor/internal/tablename"
)

// Catalog is an open catalog together with the store that serves its tables.
type Catalog struct {
	settings Settings
	inner    icecat.Catalog
	store    *store.Store
	log      zerolog.Logger
	closers  []func() error

	transport *transport // of a REST catalog
}

var _ table.CatalogIO = (*Catalog)(nil)

// Open connects to a catalog. Everything that is wrong with the settings is
// reported at once, before any request. store.Register must have been called, by
// the program, once. An error says what to do about it.
func Open(ctx context.Context, o Options) (*Catalog, error) {
	if o.Counters != nil {
		o.Storage.Counters = o.Counters
	}
	if o.Catalog.Type == "" {
		o.Catalog.Type = TypeREST
	}
	if o.Catalog.Name == "" {
		o.Catalog.Name = "default"
	}
	if o.Catalog.Timeout == 0 {
		o.Catalog.Timeout = DefaultTimeout
	}
	if err := errors.Join(o.Catalog.Validate(), o.Storage.Validate()); err != nil {
		return nil, err
	}
	s, err := store.New(o.Storage)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	c := &Catalog{settings: o.Catalog, store: s, log: o.Logger, closers: []func() error{s.Close}}
	open := map[string]func(context.Context, Options) error{TypeREST: c.openREST, TypeSQL: c.openSQL, TypeGlue: c.openGlue}
	if err := open[o.Catalog.Type](store.WithStore(ctx, s), o); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s catalog %s: %w", o.Catalog.Type, o.Catalog.URI, c.explain(ctx, err)), c.Close())
	}
	return c, nil
}

// Type is the catalog's type, one of the Type constants.
func (c *Catalog) Type() string { return c.settings.Type }

// Name is the catalog's configured name.
func (c *Catalog) Name() string { return c.settings.Name }

// Warehouse is the warehouse the catalog was opened with; it names the realm of
// claims.
func (c *Catalog) Warehouse() string { return c.settings.Warehouse }

// Store is the store behind the catalog's tables, for paths that belong to no
// loaded table and for its counters.
func (c *Catalog) Store() *store.Store { return c.store }

// Client is iceberg-go's catalog, for what this package does not wrap: creating
// namespaces and tables. Calls need the context of Context. Commits have to go through CommitTable.
func (c *Catalog) Client() icecat.Catalog { return c.inner }

// Context returns ctx with the catalog's store in it, which iceberg-go's own
// calls need to make a FileIO.
func (c *Catalog) Context(ctx context.Context) context.Context { return store.WithStore(ctx, c.store) }

// Close releases connections. Tables loaded before must not be used any more.
func (c *Catalog) Close() error {
	var errs []error
	if closer, ok := c.inner.(icecat.Closer); ok {
		errs = append(errs, closer.Close())
	}
	for _, f := range c.closers {
		errs = append(errs, f())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close catalog %s: %w", c.settings.Name, err)
	}
	return nil
}

// LoadTable loads the table's current metadata from the catalog, never from a
// cache. Its commits go through CommitTable. A missing table is
// iceberg-go's ErrNoSuchTable with the nearest names in the text. When ctx ends it returns
// promptly, with the cause of that in its error. It may be retried.
func (c *Catalog) LoadTable(ctx context.Context, ident table.Identifier) (*table.Table, error) {
	tbl, err := c.loadInner(ctx, ident)
	if err != nil {
		return nil, fmt.Errorf("load table %s: %w", tablename.String(ident), c.notFound(ctx, ident, err))
	}
	files := &tableFiles{c: c, ident: tbl.Identifier(), turn: make(chan struct{}, 1), loaded: tbl}
	return table.New(tbl.Identifier(), tbl.Metadata(), tbl.MetadataLocation(), files.fs, c), nil
}

// Bind returns the same table with another last step: its commits go through
// io. That is how a guard sees every requirement and update before the wire.
func Bind(tbl *table.Table, io table.CatalogIO) *table.Table {
	return table.New(tbl.Identifier(), tbl.Metadata(), tbl.MetadataLocation(), tbl.FS, io)
}
