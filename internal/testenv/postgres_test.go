package testenv

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPostgresGivesAnEmptyDatabaseAndDropsIt(t *testing.T) {
	var name string
	t.Run("a database of the test's own", func(t *testing.T) {
		db := Postgres(t)
		name = db.Name
		conn := db.Conn(t)
		var current string
		var tables int
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_database()").Scan(&current))
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").Scan(&tables))
		require.Equal(t, name, current)
		require.Zero(t, tables)
	})
	var left int
	row := Postgres(t).Conn(t).QueryRow(t.Context(), "SELECT count(*) FROM pg_database WHERE datname = $1", name)
	require.NoError(t, row.Scan(&left))
	require.Zero(t, left)
}
