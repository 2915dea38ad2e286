package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"

	"compactor/internal/tablename"
)

// Walk yields the tables of every namespace, at every level, for which within
// is true; a namespace for which it is false is not looked into. A namespace
// that cannot be listed is yielded once with the error, and the others follow.
// When the root cannot be listed, or ctx has ended, the error with a nil
// identifier is the last thing it yields. One table is yielded once. It only
// reads, and may be repeated.
func (c *Catalog) Walk(ctx context.Context, within func(namespace table.Identifier) bool) iter.Seq2[table.Identifier, error] {
	return func(yield func(table.Identifier, error) bool) {
		level, err := c.ListNamespaces(ctx, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		seen := map[string]bool{}
		for len(level) > 0 {
			ns := level[0]
			level = level[1:]
			key := strings.Join(ns, "\x00")
			if len(ns) == 0 || seen[key] || !within(ns) {
				continue
			}
			seen[key] = true
			if ctx.Err() != nil {
				yield(nil, fmt.Errorf("list tables: %w", context.Cause(ctx)))
				return
			}
			if !c.yieldTables(ctx, ns, yield) {
				return
			}
			below, err := c.children(ctx, ns)
			if err != nil && !yield(ns, err) {
				return
			}
			level = append(level, below...)
		}
	}
}

// yieldTables yields the tables directly in a namespace; false ends the walk.
func (c *Catalog) yieldTables(ctx context.Context, ns table.Identifier, yield func(table.Identifier, error) bool) bool {
	for id, err := range c.ListTables(ctx, ns) {
		if err != nil {
			id = ns
		}
		if !yield(id, err) {
			return false
		}
	}
	return true
}

// children returns the namespaces below ns. Glue has one level; so has a REST
// catalog that calls the question a bad request.
func (c *Catalog) children(ctx context.Context, ns table.Identifier) ([]table.Identifier, error) {
	if c.settings.Type == TypeGlue {
		return nil, nil
	}
	below, err := c.ListNamespaces(ctx, ns)
	if errors.Is(err, rest.ErrBadRequest) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("below %s: %w", tablename.String(ns), err)
	}
	return below, nil
}
