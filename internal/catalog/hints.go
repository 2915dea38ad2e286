package catalog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	icecat "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"

	"compactor/internal/tablename"
)

// hinted adds to an error what the operator can do about it.
type hinted struct {
	err  error
	hint string
	away bool // the catalog did not answer; trying again may help
}

func (h *hinted) Error() string { return h.err.Error() + "; " + h.hint }
func (h *hinted) Unwrap() error { return h.err }

// Hint is what the operator can do about it, in words.
func (h *hinted) Hint() string { return h.hint }

// Unreachable says that there was no answer.
func (h *hinted) Unreachable() bool { return h.away }

// hint explains the usual reasons why a catalog cannot be used.
func (c *Catalog) hint(err error) error {
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns), errors.As(err, &op) && op.Op == "dial",
		errors.Is(err, rest.ErrOAuthError) && strings.Contains(err.Error(), "dial tcp"): // the client keeps its text alone
		return &hinted{err, "the catalog cannot be reached: check catalog.uri and the network", true}
	case errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, rest.ErrOAuthError) && (strings.Contains(err.Error(), context.DeadlineExceeded.Error()) ||
			strings.Contains(err.Error(), "Client.Timeout exceeded")): // as net/http words it before the headers have come
		return &hinted{err, "the catalog did not answer in time (catalog.timeout)", true}
	case errors.Is(err, rest.ErrOAuthError):
		return &hinted{err: err, hint: "no token was granted: check catalog.credential, catalog.scope and catalog.oauth2_server_uri; " +
			"catalog.uri is the part before /v1, often with a path such as /catalog"}
	case errors.Is(err, rest.ErrUnauthorized), errors.Is(err, rest.ErrAuthorizationExpired):
		return &hinted{err: err, hint: "the catalog does not accept the credentials: check catalog.credential or catalog.token"}
	case errors.Is(err, rest.ErrForbidden):
		return &hinted{err: err, hint: "the catalog knows the credentials and refuses them this: check the role's privileges"}
	case errors.Is(err, rest.ErrBadRequest):
		return &hinted{err: err, hint: "check catalog.warehouse"}
	case errors.Is(err, errNoCatalog):
		return &hinted{err: err, hint: "check catalog.warehouse, and catalog.uri: it is the part before /v1, often with a path such as /catalog"}
	}
	return err
}

const (
	nearLimit   = 5000
	nearTimeout = 5 * time.Second
	nearShown   = 3
)

// notFound puts the nearest existing names on an error about a missing table.
func (c *Catalog) notFound(ctx context.Context, ident table.Identifier, err error) error {
	if !errors.Is(err, icecat.ErrNoSuchTable) && !errors.Is(err, icecat.ErrNoSuchNamespace) || len(ident) < 2 {
		return c.explain(ctx, err)
	}
	ctx, cancel := context.WithTimeout(ctx, nearTimeout)
	defer cancel()
	ns, name := ident[:len(ident)-1], ident[len(ident)-1]
	var names []string
	for id, lerr := range c.listTables(ctx, ns) {
		if lerr != nil {
			return c.noNamespace(ctx, ns, err)
		}
		if names = append(names, id[len(id)-1]); len(names) == nearLimit {
			break
		}
	}
	if len(names) == 0 {
		return c.noNamespace(ctx, ns, err)
	}
	if near := nearest(name, names); len(near) > 0 {
		for i, n := range near {
			near[i] = tablename.String([]string{n})
		}
		return &hinted{err: err, hint: fmt.Sprintf("namespace %s has %s", tablename.String(ns), strings.Join(near, ", "))}
	}
	return &hinted{err: err, hint: fmt.Sprintf("namespace %s has %d tables and none with a similar name", tablename.String(ns), len(names))}
}

func (c *Catalog) noNamespace(ctx context.Context, ns table.Identifier, err error) error {
	all, lerr := c.listNamespaces(ctx, nil)
	if lerr != nil {
		return err
	}
	names := make([]string, 0, len(all))
	want := tablename.String(ns)
	for _, n := range all {
		if tablename.String(n) == want {
			return &hinted{err: err, hint: fmt.Sprintf("namespace %s has no tables", want)}
		}
		names = append(names, tablename.String(n))
	}
	hint := fmt.Sprintf("there is no namespace %s", want)
	if near := nearest(want, names); len(near) > 0 {
		hint += ", but " + strings.Join(near, ", ")
	}
	return &hinted{err: err, hint: hint}
}

// nearest returns up to three names that are spelled like want, the nearest first.
func nearest(want string, names []string) []string {
	type candidate struct {
		name string
		dist int
	}
	limit := max(2, len([]rune(want))/3)
	var near []candidate
	for _, n := range names {
		if d := distance(strings.ToLower(want), strings.ToLower(n)); d <= limit {
			near = append(near, candidate{n, d})
		}
	}
	slices.SortFunc(near, func(a, b candidate) int {
		if a.dist != b.dist {
			return a.dist - b.dist
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for _, c := range near[:min(len(near), nearShown)] {
		out = append(out, c.name)
	}
	return out
}

// distance is the number of single-character edits between two names.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			cost := diagonal
			if x[i] != y[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(y)]
}
