package catalog

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/apache/iceberg-go"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun/driver/sqliteshim"

	"compactor/internal/store"
)

// sqliteWith opens the same database with other pragmas than the catalog's.
func sqliteWith(t *testing.T, path, pragma string) *sql.DB {
	t.Helper()
	db, err := sql.Open(sqliteshim.ShimName, "file:"+path+"?_pragma="+pragma)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func TestACommitThatSQLiteRefusesIsACleanNo(t *testing.T) {
	store.Register()
	dir := t.TempDir()
	path := filepath.Join(dir, "catalog.db")
	c, err := Open(t.Context(), Options{Catalog: Settings{Type: TypeSQL, URI: path, Warehouse: "file://" + dir}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	ctx, ident := c.Context(t.Context()), table.Identifier{"ns", "t"}
	require.NoError(t, c.Client().CreateNamespace(ctx, ident[:1], nil))
	_, err = c.Client().CreateTable(ctx, ident, iceberg.NewSchema(0))
	require.NoError(t, err)

	refused := func(pragma string) {
		t.Helper()
		inner, err := icesql.NewCatalog("default", sqliteWith(t, path, pragma), icesql.SQLite,
			iceberg.Properties{"init_catalog_tables": "false"})
		require.NoError(t, err)
		other := &Catalog{settings: c.settings, inner: inner, store: c.store}
		_, _, err = other.CommitTable(t.Context(), ident, nil,
			[]table.Update{table.NewSetPropertiesUpdate(iceberg.Properties{"mark": "x"})})
		require.Equal(t, Rejected, Classify(err), "%v", err)
		tbl, err := c.LoadTable(t.Context(), ident)
		require.NoError(t, err)
		require.NotContains(t, tbl.Properties(), "mark")
	}
	refused("query_only(1)") // What a database that is mounted read-only answers.

	lock, err := sqliteWith(t, path, "busy_timeout(0)").Conn(t.Context())
	require.NoError(t, err)
	_, err = lock.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	refused("busy_timeout(0)")
	_, err = lock.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	require.NoError(t, lock.Close())
}

// coded is an error of the driver with a result code, extended or not.
type coded int

func (c coded) Error() string { return fmt.Sprintf("SQLite result %d", int(c)) }
func (c coded) Code() int     { return int(c) }

func TestOnlySomeResultsOfSQLiteAreCertain(t *testing.T) {
	for err, want := range map[error]bool{
		coded(sqliteReadOnly): true, coded(sqliteReadOnly | 3<<8): true, coded(sqliteFull): true, coded(sqliteCantOpen | 2<<8): true,
		coded(sqliteBusy): false, // as COMMIT returns it
		coded(10):         false, // an I/O error may come after the change
		coded(9):          false, // an interruption
	} {
		require.Equal(t, want, sqliteRefused(err), "%v", err)
	}
	require.True(t, sqliteRefused(fmt.Errorf("error updating table information: %w", coded(sqliteBusy))))
}
