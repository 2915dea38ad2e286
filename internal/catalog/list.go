package catalog

import (
	"context"
	"fmt"
	"iter"
	"strings"

	icecat "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"compactor/internal/tablename"
)

// ListTables yields the tables of a namespace, page by page. An error is the last
// thing it yields. When ctx ends, or a page is not there within the catalog's
// timeout, it ends promptly.
func (c *Catalog) ListTables(ctx context.Context, namespace table.Identifier) iter.Seq2[table.Identifier, error] {
	return func(yield func(table.Identifier, error) bool) {
		for id, err := range c.listTables(ctx, namespace) {
			if err != nil {
				yield(nil, fmt.Errorf("list tables of %s: %w", tablename.String(namespace), c.explain(ctx, err)))
				return
			}
			if !yield(id, nil) {
				return
			}
		}
	}
}

// listTables takes the names from the client library one by one.
func (c *Catalog) listTables(ctx context.Context, namespace table.Identifier) iter.Seq2[table.Identifier, error] {
	return func(yield func(table.Identifier, error) bool) {
		type listed struct {
			id  table.Identifier
			err error
		}
		inner, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		names := make(chan listed)
		go func() {
			defer close(names)
			for id, err := range c.inner.ListTables(c.Context(inner), namespace) {
				select {
				case names <- listed{id, err}:
				case <-inner.Done():
					return
				}
			}
		}()
		next := func() (listed, error) {
			turn, done := c.within(ctx)
			defer done()
			select {
			case n, more := <-names:
				if !more {
					return listed{}, context.Cause(ctx) // Cut short, it is no whole list.
				}
				return n, n.err
			case <-turn.Done():
				return listed{}, context.Cause(turn)
			}
		}
		for {
			n, err := next()
			if err == nil && n.id == nil {
				return
			}
			if !yield(n.id, err) || err != nil {
				return
			}
		}
	}
}

// ListNamespaces returns the namespaces directly below parent; nil is the root.
func (c *Catalog) ListNamespaces(ctx context.Context, parent table.Identifier) ([]table.Identifier, error) {
	all, err := c.listNamespaces(ctx, parent)
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", c.explain(ctx, err))
	}
	return all, nil
}

func (c *Catalog) listNamespaces(ctx context.Context, parent table.Identifier) ([]table.Identifier, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	return promptly(ctx, func() ([]table.Identifier, error) { return c.inner.ListNamespaces(c.Context(ctx), parent) }, nil)
}

// Canonical returns the identifier as the catalog itself spells it, so that
// two spellings of one table become one name. An exact name wins; a
// catalog that ignores case has the table under one other spelling. A name
// that is not in the list is returned as it was given: loading it will tell.
func (c *Catalog) Canonical(ctx context.Context, ident table.Identifier) (table.Identifier, error) {
	if len(ident) < 2 {
		return nil, fmt.Errorf("resolve table %s: %w: a namespace and a name are needed", tablename.String(ident), icecat.ErrInvalidIdentifier)
	}
	var folded []table.Identifier
	for id, err := range c.ListTables(ctx, ident[:len(ident)-1]) {
		if err != nil {
			return nil, err
		}
		if len(id) != len(ident) {
			continue
		}
		switch got, want := strings.Join(id, "\x00"), strings.Join(ident, "\x00"); {
		case got == want:
			return id, nil
		case strings.EqualFold(got, want):
			folded = append(folded, id)
		}
	}
	if len(folded) == 1 {
		if _, err := c.loadInner(ctx, ident); err == nil {
			return folded[0], nil
		}
	}
	return ident, nil
}
