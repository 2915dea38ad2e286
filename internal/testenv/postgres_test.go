package testenv

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// ask returns the one value of a query as text.
func ask(t *testing.T, dsn, query string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	var value string
	require.NoError(t, conn.QueryRow(t.Context(), query).Scan(&value))
	return value
}

func TestPostgresGivesAnEmptyDatabaseAndDropsIt(t *testing.T) {
	var name string
	t.Run("a database of the test's own", func(t *testing.T) {
		db := Postgres(t)
		name = db.Name
		require.Equal(t, name, ask(t, db.DSN, "SELECT current_database()::text"))
		require.Equal(t, "0", ask(t, db.DSN, "SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public'"))
	})
	require.Equal(t, "0", ask(t, Postgres(t).DSN, "SELECT count(*)::text FROM pg_database WHERE datname = '"+name+"'"))
}

func TestRoleHasItsGrantsOnlyAndIsDropped(t *testing.T) {
	db := Postgres(t)
	var role string
	t.Run("a role that may read one table", func(t *testing.T) {
		db.Exec(t, "CREATE TABLE open(v text)", "INSERT INTO open VALUES ('seen')", "CREATE TABLE shut(v text)")
		dsn := db.Role(t, "reader", "SELECT ON TABLE open")
		parsed, err := url.Parse(dsn)
		require.NoError(t, err)
		role = parsed.User.Username()
		require.True(t, strings.HasPrefix(role, "reader_"))
		require.Equal(t, "seen", ask(t, dsn, "SELECT v FROM open"))

		conn, err := pgx.Connect(t.Context(), dsn)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close(context.Background())) }()
		_, err = conn.Exec(t.Context(), "SELECT v FROM shut")
		var refused *pgconn.PgError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "42501", refused.Code)
	})
	require.Equal(t, "0", ask(t, db.DSN, "SELECT count(*)::text FROM pg_roles WHERE rolname = '"+role+"'"))
}

func TestWrongPasswordIsRefused(t *testing.T) {
	db := Postgres(t)
	_, err := pgx.Connect(t.Context(), db.Server.dsn("postgres", "wrong", db.Name))
	var refused *pgconn.PgError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "28P01", refused.Code)
}

func TestOwnServerStopsStartsAndIsGoneAfterwards(t *testing.T) {
	var pids []int
	var addresses []string
	t.Run("while the test runs", func(t *testing.T) {
		server := NewPostgres(t, PostgresOptions{Settings: map[string]string{"work_mem": "3MB"}})
		addresses = append(addresses, loopback(server.Port))
		db := server.Database(t)
		require.Equal(t, "3MB", ask(t, db.DSN, "SHOW work_mem"))
		require.Equal(t, "logical", ask(t, db.DSN, "SHOW wal_level"))
		db.Exec(t, "CREATE TABLE t(v text)", "INSERT INTO t VALUES ('kept')")

		pids = append(pids, server.Pid())
		pids = append(pids, descendants(server.Pid())...)
		require.Greater(t, len(pids), 3)
		server.Kill9(t)
		requireGone(t, pids, addresses)
		require.Zero(t, server.Pid())

		server.Start(t)
		require.Equal(t, "kept", ask(t, db.DSN, "SELECT v FROM t"))
		for _, mode := range []StopMode{StopSmart, StopFast, StopImmediate} {
			pid := server.Pid()
			pids = append(pids, pid)
			server.Stop(t, mode)
			requireGone(t, []int{pid}, addresses)
			server.Start(t)
		}
		require.Equal(t, "kept", ask(t, db.DSN, "SELECT v FROM t"))
		pids = append(pids, server.Pid())
	})
	requireGone(t, pids, addresses)
}

func TestKillEndsAlsoABackendThatNeverLooksUp(t *testing.T) {
	server := NewPostgres(t, PostgresOptions{})
	busy, err := pgx.Connect(t.Context(), server.DSN("postgres"))
	require.NoError(t, err)
	backend := int(busy.PgConn().PID())
	ended := make(chan error, 1)
	go func() {
		_, err := busy.Exec(context.Background(), "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b")
		ended <- err
	}()
	require.NoError(t, waitUntil(10*time.Second, "query", func() error {
		if n := ask(t, server.DSN("postgres"), "SELECT count(*)::text FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series%b'"); n != "1" {
			return fmt.Errorf("%s active", n)
		}
		return nil
	}))
	server.Kill9(t)
	requireGone(t, []int{backend}, []string{loopback(server.Port)})
	require.Error(t, <-ended)
	require.NoError(t, server.start(), "a backend left over would keep the shared memory")
}

func TestStandbyFollowsItsPrimary(t *testing.T) {
	primary := NewPostgres(t, PostgresOptions{})
	standby := primary.Standby(t)
	primary.Database(t).Exec(t, "CREATE TABLE t(v text)") // Any change of the primary will do; the one below is looked for.
	require.NoError(t, primary.exec("postgres", "CREATE TABLE streamed AS SELECT 'row' AS v"))
	require.Equal(t, "true", ask(t, standby.DSN("postgres"), "SELECT pg_is_in_recovery()::text"))
	require.Equal(t, "false", ask(t, primary.DSN("postgres"), "SELECT pg_is_in_recovery()::text"))
	err := waitUntil(10*time.Second, "replay", func() error {
		return standby.exec("postgres", "SELECT v FROM streamed")
	})
	require.NoError(t, err)
	require.Equal(t, "row", ask(t, standby.DSN("postgres"), "SELECT v FROM streamed"))
}

func TestTLSServerIsTrustedByItsOwnAuthorityOnly(t *testing.T) {
	server := NewPostgres(t, PostgresOptions{TLS: true})
	require.Equal(t, "true", ask(t, server.DSN("postgres"), "SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()"))

	wrong := strings.Replace(server.DSN("postgres"), url.QueryEscape(server.CACert), url.QueryEscape(OtherCA(t)), 1)
	require.NotEqual(t, wrong, server.DSN("postgres"))
	_, err := pgx.Connect(t.Context(), wrong)
	require.ErrorContains(t, err, "certificate signed by unknown authority")
}

func TestPostgres18Runs(t *testing.T) {
	server := NewPostgres(t, PostgresOptions{Major: 18})
	require.Contains(t, ask(t, server.DSN("postgres"), "SELECT version()"), "PostgreSQL 18.")
	standby := server.Standby(t)
	require.Equal(t, "true", ask(t, standby.DSN("postgres"), "SELECT pg_is_in_recovery()::text"))
}

func TestPgBouncerPoolsByTransactionOrSession(t *testing.T) {
	db := Postgres(t)
	for _, mode := range []string{"transaction", "session"} {
		t.Run(mode, func(t *testing.T) {
			dsn := PgBouncer(t, db, mode)
			config, err := pgx.ParseConfig(dsn)
			require.NoError(t, err)
			config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
			conn, err := pgx.ConnectConfig(t.Context(), config)
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close(context.Background())) }()
			var database string
			var backend uint32
			require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_database(), pg_backend_pid()").Scan(&database, &backend))
			require.Equal(t, db.Name, database)
			require.NotEqual(t, conn.PgConn().PID(), backend, "the key a pooler hands out is not the backend's")

			// Between transactions the pooler may give the backend to another client, and does so in transaction mode.
			other, err := pgx.ConnectConfig(t.Context(), config)
			require.NoError(t, err)
			defer func() { require.NoError(t, other.Close(context.Background())) }()
			var second uint32
			require.NoError(t, other.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&second))
			if mode == "transaction" {
				require.Equal(t, backend, second)
			} else {
				require.NotEqual(t, backend, second)
			}
		})
	}
}
