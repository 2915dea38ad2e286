package bakery

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// Migration is one step of the schema. Steps are numbered from 1 without gaps and never change once released.
type Migration struct {
	Version int
	Name    string
	SQL     string
}

// Migrations returns the steps that this program knows, in order.
func Migrations() ([]Migration, error) {
	names, err := fs.Glob(sqlFiles, "sql/[0-9]*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	steps := make([]Migration, 0, len(names))
	for _, name := range names {
		text, err := sqlFiles.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", name, err)
		}
		number, title, _ := strings.Cut(strings.TrimSuffix(path.Base(name), ".sql"), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != len(steps)+1 {
			return nil, fmt.Errorf("read migration %s: its number is not %d", name, len(steps)+1)
		}
		steps = append(steps, Migration{Version: version, Name: title, SQL: string(text)})
	}
	return steps, nil
}

// ErrNewerSchema is returned for a schema that a newer program has installed.
var ErrNewerSchema = errors.New("the schema was installed by a newer compactor")

// Migrate brings roles and schema of one database up to the given steps, in one transaction, and returns the versions before and
// after. It may be called again, and by two callers at once. Open claims go on meanwhile; they wait at most for the transaction.
func Migrate(ctx context.Context, conn *pgx.Conn, steps []Migration) (from, to int, err error) {
	roles, err := sqlFiles.ReadFile("sql/roles.sql")
	if err != nil {
		return 0, 0, fmt.Errorf("read roles: %w", err)
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('bakery migrations', 0))"); err != nil {
			return fmt.Errorf("lock migrations: %w", err)
		}
		if err := script(ctx, tx, string(roles)); err != nil {
			return fmt.Errorf("create roles and schema: %w", err)
		}
		from, to, err = applySteps(ctx, tx, steps)
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("migrate schema bakery: %w", err)
	}
	return from, to, nil
}

// applySteps runs the steps that are missing as bakery_owner, so that everything belongs to it.
func applySteps(ctx context.Context, tx pgx.Tx, steps []Migration) (from, to int, err error) {
	const table = `SET LOCAL ROLE bakery_owner;
CREATE TABLE IF NOT EXISTS bakery.migrations (
  version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())`
	if err := script(ctx, tx, table); err != nil {
		return 0, 0, fmt.Errorf("create list of migrations: %w", err)
	}
	if err := tx.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM bakery.migrations").Scan(&from); err != nil {
		return 0, 0, fmt.Errorf("read schema version: %w", err)
	}
	if from > len(steps) {
		return 0, 0, fmt.Errorf("schema version %d, this program knows %d: %w", from, len(steps), ErrNewerSchema)
	}
	for _, step := range steps[from:] {
		if err := script(ctx, tx, step.SQL); err != nil {
			return 0, 0, fmt.Errorf("run migration %d %s: %w", step.Version, step.Name, err)
		}
		_, err := tx.Exec(ctx, "INSERT INTO bakery.migrations (version, name) VALUES ($1, $2)", step.Version, step.Name)
		if err != nil {
			return 0, 0, fmt.Errorf("record migration %d %s: %w", step.Version, step.Name, err)
		}
	}
	return from, len(steps), nil
}

// script runs several statements; only the simple protocol takes more than one at a time.
func script(ctx context.Context, tx pgx.Tx, sql string) error {
	if _, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("run script: %w", err)
	}
	return nil
}
