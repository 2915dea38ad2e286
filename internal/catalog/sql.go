package catalog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/iceberg-go"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	"github.com/uptrace/bun/driver/sqliteshim"
)

// busyTimeout is how long, in milliseconds, one process waits for another
// that writes to the same SQLite file.
const busyTimeout = "10000"

func (c *Catalog) openSQL(ctx context.Context, o Options) error {
	path, err := sqlitePath(o.Catalog.URI)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make folder of the database: %w", err)
	}
	db, err := sql.Open(sqliteshim.ShimName, sqliteDSN(path))
	if err != nil {
		return fmt.Errorf("open database %s: %w", path, err)
	}
	c.closers = append(c.closers, db.Close)
	if err := db.PingContext(ctx); err != nil {
		return fmt.Errorf("open database %s: %w", path, err)
	}
	props := iceberg.Properties{}
	maps.Copy(props, o.Catalog.Properties)
	if o.Catalog.Warehouse != "" {
		props["warehouse"] = o.Catalog.Warehouse
	}
	inner, err := icesql.NewCatalog(o.Catalog.Name, db, icesql.SQLite, props)
	if err != nil {
		return fmt.Errorf("prepare database %s: %w", path, err)
	}
	c.inner = inner
	return nil
}

// sqlitePath reads a bare path, sqlite:path, sqlite:///absolute/path, file:path
// and file:///absolute/path.
func sqlitePath(uri string) (string, error) {
	scheme, rest, found := strings.Cut(uri, ":")
	if !found || strings.ContainsAny(scheme, `/\.`) {
		return uri, nil
	}
	if scheme != "sqlite" && scheme != "file" {
		return "", fmt.Errorf("only SQLite databases are served, and %q is not the path of one", uri)
	}
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		if !strings.HasPrefix(after, "/") {
			return "", fmt.Errorf("the database %q has a host: write %s:///absolute/path or %s:relative/path", uri, scheme, scheme)
		}
		rest = after
	}
	if rest == "" {
		return "", errors.New("the URI names no database file")
	}
	return rest, nil
}

// sqliteDSN asks for a write-ahead log, so that readers do not block the
// writer, for patience with other processes, and for a commit that is on
// disk when it returns.
func sqliteDSN(path string) string {
	pragmas := url.Values{"_pragma": {"busy_timeout(" + busyTimeout + ")", "journal_mode(WAL)", "synchronous(FULL)"}}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + pragmas.Encode()
}

// The result codes of SQLite that the classes below go by.
const (
	sqliteBusy     = 5
	sqliteReadOnly = 8
	sqliteFull     = 13
	sqliteCantOpen = 14
)

// sqliteRefused says whether SQLite certainly did not carry a change out. A
// database that is busy is certain only for the statement itself: after a
// COMMIT that met a busy database the transaction is still open.
func sqliteRefused(err error) bool {
	var coded interface{ Code() int }
	if !errors.As(err, &coded) {
		return false
	}
	switch coded.Code() & 0xff {
	case sqliteReadOnly, sqliteFull, sqliteCantOpen:
		return true
	case sqliteBusy:
		return strings.HasPrefix(err.Error(), "error updating table information")
	}
	return false
}
