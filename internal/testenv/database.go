package testenv

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// queryLimit bounds the statements that the harness itself runs.
const queryLimit = 30 * time.Second

// Database is a database of the test's own. DSN is the superuser's.
type Database struct {
	Server *PostgresServer
	Name   string
	DSN    string
}

// Postgres gives the test a new, empty database on the shared PostgreSQL 15 server. It is dropped when the test ends, together
// with the sessions that are still open in it. The server is shared with other tests: do not stop it or change its settings.
func Postgres(tb testing.TB) *Database {
	tb.Helper()
	server, err := shared.postgresServer()
	if err != nil {
		tb.Fatalf("start shared PostgreSQL: %v", err)
	}
	return server.Database(tb)
}

// Database makes a new, empty database on this server and drops it when the test ends.
func (s *PostgresServer) Database(tb testing.TB) *Database {
	tb.Helper()
	name := "test_" + randomName(6)
	if err := s.exec("postgres", "CREATE DATABASE "+name); err != nil {
		tb.Fatalf("create database %s: %v", name, err)
	}
	tb.Cleanup(func() {
		if s.Pid() == 0 && s.proc != nil {
			return // A server of the test's own that the test stopped.
		}
		if err := s.exec("postgres", "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("drop database %s: %v", name, err)
		}
	})
	return &Database{Server: s, Name: name, DSN: s.DSN(name)}
}

// Role creates a login role with the given grants and returns its DSN for this database. Roles belong to the whole server, so the
// role's real name is the given one with a random end; the DSN has it. Each grant is what stands between GRANT and TO, for
// instance "pg_monitor" or "SELECT ON TABLE t". The role is dropped when the test ends.
func (d *Database) Role(tb testing.TB, name string, grants ...string) string {
	tb.Helper()
	role := name + "_" + randomName(4)
	quoted := pgx.Identifier{role}.Sanitize()
	password := randomName(12)
	statements := []string{fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", quoted, password)}
	for _, grant := range grants {
		statements = append(statements, fmt.Sprintf("GRANT %s TO %s", grant, quoted))
	}
	if err := d.Server.exec(d.Name, statements...); err != nil {
		tb.Fatalf("create role %s: %v", role, err)
	}
	tb.Cleanup(func() {
		if d.Server.Pid() == 0 && d.Server.proc != nil {
			return // A server of the test's own that the test stopped.
		}
		err := d.Server.exec(d.Name,
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+role+"'",
			"DROP OWNED BY "+quoted+" CASCADE", "DROP ROLE "+quoted)
		if err != nil {
			tb.Errorf("drop role %s: %v", role, err)
		}
	})
	return d.Server.dsn(role, password, d.Name)
}

// Conn opens a superuser session in the database. It is closed when the test ends.
func (d *Database) Conn(tb testing.TB) *pgx.Conn {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), queryLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, d.DSN)
	if err != nil {
		tb.Fatalf("connect to database %s: %v", d.Name, err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.Background()) }) // The server may be gone by then.
	return conn
}

// Exec runs statements one after the other as superuser, in a session of their own.
func (d *Database) Exec(tb testing.TB, statements ...string) {
	tb.Helper()
	if err := d.Server.exec(d.Name, statements...); err != nil {
		tb.Fatalf("run statement in database %s: %v", d.Name, err)
	}
}

// exec runs statements as superuser in a new session.
func (s *PostgresServer) exec(db string, statements ...string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), queryLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN(db))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", db, err)
	}
	defer func() {
		if closeErr := conn.Close(ctx); err == nil {
			err = closeErr
		}
	}()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("run %q: %w", statement, err)
		}
	}
	return nil
}
