package claim_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/claim"
	"compactor/pkg/claim/claimtest"
)

const (
	advisoryKeySQL = "hashtextextended('iceberg:' || $1::text, 0)"
	coldKeySQL     = "hashtext('coldfront_iceberg:' || $1::text)::bigint"

	// lockedBySQL lists the sessions at an advisory lock of the current database.
	lockedBySQL = ` l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
 AND l.locktype = 'advisory' AND l.objsubid = 1
 AND l.classid = ((k.h >> 32) & 4294967295)::oid AND l.objid = (k.h & 4294967295)::oid`
)

func TestAdvisoryConforms(t *testing.T) {
	db := testenv.Postgres(t)
	claimtest.Run(t, claimtest.Harness{
		Config: func(_ testing.TB, holder string) claim.Config {
			return claim.Config{Mode: claim.ModeAdvisory, DSN: db.DSN, Holder: holder}
		},
		Sever:  func(tb testing.TB, c *claim.Claim) { terminate(tb, db, advisoryKeySQL, c.Reference()) },
		Queued: func(tb testing.TB, key claim.Key) int { return atLock(tb, db, advisoryKeySQL, key.String()) },
		Term:   30 * time.Second,
	})
}

func TestColdFrontSingleNodeConforms(t *testing.T) {
	db := testenv.Postgres(t)
	claimtest.InstallColdFront(t, db.DSN)
	claimtest.Run(t, coldHarness(db))
}

func TestColdFrontMeshConforms(t *testing.T) {
	db := testenv.Postgres(t)
	double := claimtest.InstallColdFrontMesh(t, db.DSN)
	claimtest.Run(t, coldHarness(db))
	for _, table := range []string{"exclusion", "cancelled", "timeout", "lost", "frees", "parent", "order", "forgotten"} {
		ref := claimtest.Key(table).ColdFront("")
		claimtest.Eventually(t, "no claim left on "+ref, func() bool { return len(double.Claims(t, ref)) == 0 })
	}
}

func coldHarness(db *testenv.Database) claimtest.Harness {
	return claimtest.Harness{
		Config: func(_ testing.TB, holder string) claim.Config {
			return claim.Config{Mode: claim.ModeColdFront, DSN: db.DSN, Holder: holder}
		},
		Sever:  func(tb testing.TB, c *claim.Claim) { terminate(tb, db, coldKeySQL, c.Reference()) },
		Queued: func(tb testing.TB, key claim.Key) int { return atLock(tb, db, coldKeySQL, key.ColdFront("")) },
		Term:   30 * time.Second,
	}
}

func TestFileConforms(t *testing.T) {
	dir := t.TempDir()
	claimtest.Run(t, claimtest.Harness{
		Config: func(_ testing.TB, holder string) claim.Config {
			return claim.Config{Mode: claim.ModeFile, Dir: dir, Holder: holder, Timing: claim.Timing{Probe: 50 * time.Millisecond}}
		},
		Sever:    severFile(dir),
		Term:     time.Minute,
		HeadOnly: true,
	})
}

func TestNoneConforms(t *testing.T) {
	claimtest.Run(t, claimtest.Harness{
		Config: func(_ testing.TB, holder string) claim.Config {
			return claim.Config{Mode: claim.ModeNone, Holder: holder, Logger: zerolog.Nop()}
		},
		Term:        time.Minute,
		NoExclusion: true,
	})
}

// terminate ends the server process that holds a lock.
func terminate(tb testing.TB, db *testenv.Database, keySQL, text string) {
	tb.Helper()
	query := "SELECT pg_terminate_backend(l.pid) FROM (SELECT " + keySQL + " AS h) AS k JOIN pg_locks l ON l.granted AND" + lockedBySQL
	var done bool
	require.NoError(tb, queryRow(tb, db, query, text).Scan(&done))
	require.True(tb, done)
}

// atLock counts the sessions that hold or wait for a lock.
func atLock(tb testing.TB, db *testenv.Database, keySQL, text string) int {
	tb.Helper()
	query := "SELECT count(*)::int FROM (SELECT " + keySQL + " AS h) AS k JOIN pg_locks l ON" + lockedBySQL
	var n int
	require.NoError(tb, queryRow(tb, db, query, text).Scan(&n))
	return n
}

// queryRow runs one query as superuser in a session that ends at once.
func queryRow(tb testing.TB, db *testenv.Database, query string, args ...any) pgx.Row {
	tb.Helper()
	conn, err := pgx.Connect(context.Background(), db.DSN)
	require.NoError(tb, err)
	return closingRow{conn.QueryRow(context.Background(), query, args...), conn}
}

// closingRow closes its session with the scan.
type closingRow struct {
	pgx.Row
	conn *pgx.Conn
}

func (r closingRow) Scan(dest ...any) error {
	defer r.conn.Close(context.Background()) //nolint:errcheck // The session is not used again.
	return r.Row.Scan(dest...)
}
