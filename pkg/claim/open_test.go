package claim_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/claim"
	"compactor/pkg/claim/claimtest"
)

// refused opens a configuration that must be refused and returns why.
func refused(t *testing.T, cfg claim.Config) *claim.SetupError {
	t.Helper()
	_, err := claim.Open(context.Background(), cfg)
	var setup *claim.SetupError
	require.ErrorAs(t, err, &setup)
	require.NotEmpty(t, setup.Hint, "an operator is told what to do")
	return setup
}

func TestOpenReportsAllViolationsAtOnce(t *testing.T) {
	err := refused(t, claim.Config{Mode: "bakers", Pooler: "maybe", Timing: claim.Timing{Lease: time.Second, Probe: time.Second}})
	require.ErrorContains(t, err, `"bakers"`)
	require.ErrorContains(t, err, `"maybe"`)
	require.ErrorContains(t, err, "lease")
}

func TestOpenNeverFallsBack(t *testing.T) {
	db := testenv.Postgres(t)
	require.ErrorContains(t, refused(t, claim.Config{Mode: claim.ModeAuto}), "DSN")
	require.ErrorContains(t, refused(t, claim.Config{}), "not one of")
	require.ErrorContains(t, refused(t, claim.Config{Mode: claim.ModeAuto, DSN: db.DSN}), "neither")
	require.ErrorContains(t, refused(t, claim.Config{Mode: claim.ModeColdFront, DSN: db.DSN}), "not installed")
	require.ErrorContains(t, refused(t, claim.Config{Mode: claim.ModeBakery, DSN: db.DSN}), "not installed")
	db.Exec(t, "CREATE SCHEMA bakery")
	require.ErrorContains(t, refused(t, claim.Config{Mode: claim.ModeAuto, DSN: db.DSN}), "not complete")
	claimtest.InstallColdFront(t, db.DSN)
	require.ErrorContains(t, refused(t, claim.Config{Mode: claim.ModeAuto, DSN: db.DSN}), "both")
	db.Exec(t, "DROP SCHEMA bakery")
	require.Equal(t, claim.ModeColdFront, open(t, claim.Config{Mode: claim.ModeAuto, DSN: db.DSN}).Mode())
}

func TestOpenKeepsNoConnection(t *testing.T) {
	db := testenv.Postgres(t)
	open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: db.DSN})
	claimtest.Eventually(t, "no session is left", func() bool {
		var n int
		require.NoError(t, queryRow(t, db, `SELECT count(*)::int FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&n))
		return n == 0
	})
}

func TestCase_C20_StandbyIsRefused(t *testing.T) {
	primary := testenv.NewPostgres(t, testenv.PostgresOptions{})
	standby := primary.Standby(t)
	for _, mode := range []claim.Mode{claim.ModeAdvisory, claim.ModeColdFront, claim.ModeAuto} {
		require.ErrorContains(t, refused(t, claim.Config{Mode: mode, DSN: standby.DSN("postgres")}), "standby")
	}
	open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: primary.DSN("postgres")})
}

func TestCase_C20_TLSIsCheckedAsTheDSNSays(t *testing.T) {
	server := testenv.NewPostgres(t, testenv.PostgresOptions{TLS: true})
	other := testenv.NewPostgres(t, testenv.PostgresOptions{TLS: true})
	dsn := server.DSN("postgres")
	good := with(t, with(t, dsn, "sslmode", "verify-full"), "sslrootcert", server.CACert)
	open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: good})
	wrong := with(t, with(t, dsn, "sslmode", "verify-full"), "sslrootcert", other.CACert)
	require.ErrorContains(t, refused(t, claim.Config{Mode: claim.ModeAdvisory, DSN: wrong}), "certificate")
	missing := with(t, with(t, dsn, "sslmode", "verify-full"), "sslrootcert", filepath.Join(t.TempDir(), "none.crt"))
	require.ErrorContains(t, refused(t, claim.Config{Mode: claim.ModeAdvisory, DSN: missing}), "none.crt")
	plain := testenv.Postgres(t)
	require.ErrorContains(t, refused(t, claim.Config{Mode: claim.ModeAdvisory, DSN: with(t, plain.DSN, "sslmode", "require")}), "TLS")
}

func TestLoginProblemsAreForTheOperator(t *testing.T) {
	db := testenv.Postgres(t)
	for _, dsn := range []string{
		with(t, db.DSN, "password", "wrong"), with(t, db.DSN, "dbname", "no_such_database"), "postgres://%zz", "host=127.0.0.1 port=nonsense",
	} {
		err := refused(t, claim.Config{Mode: claim.ModeAdvisory, DSN: dsn})
		require.NotContains(t, err.Error(), "wrong", "no password in an error")
	}
	_, err := claim.Open(context.Background(), claim.Config{Mode: claim.ModeAdvisory, DSN: "host=127.0.0.1 port=1 user=u dbname=d"})
	require.Error(t, err)
	var setup *claim.SetupError
	require.NotErrorAs(t, err, &setup, "a server that cannot be reached may come back")
}

func TestCase_C20_PoolerIsRefusedUnlessItKeepsSessions(t *testing.T) {
	db := testenv.Postgres(t)
	require.ErrorContains(t, refused(t, claim.Config{Mode: claim.ModeAdvisory, DSN: testenv.PgBouncer(t, db, "transaction")}), "pooler")
	pooled := testenv.PgBouncer(t, db, "session")
	require.ErrorContains(t, refused(t, claim.Config{Mode: claim.ModeAdvisory, DSN: pooled}), "pooler")
	c := open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: pooled, Pooler: claim.PoolerSession})
	held := acquire(t, c, "orders")
	direct := open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: db.DSN})
	_, err := direct.Acquire(context.Background(), claimtest.Key("orders"), claim.AcquireOptions{Timeout: 100 * time.Millisecond})
	require.ErrorIs(t, err, claim.ErrHeld)
	require.NoError(t, held.Release(context.Background()))
	require.NoError(t, acquire(t, direct, "orders").Release(context.Background()))
}

func TestCase_C20_ColdFrontWorksThroughATransactionPooler(t *testing.T) {
	db := testenv.Postgres(t)
	double := claimtest.InstallColdFrontMesh(t, db.DSN)
	var logged bytes.Buffer
	c := open(t, claim.Config{Mode: claim.ModeColdFront, DSN: testenv.PgBouncer(t, db, "transaction"), Logger: zerolog.New(zerolog.SyncWriter(&logged)), Timing: quick()})
	require.Contains(t, logged.String(), "pooler")
	held := acquire(t, c, "orders")
	stays(t, held, 2*quick().Lease)
	_, err := held.Verify(context.Background())
	require.NoError(t, err)
	double.Withhold()
	_, err = c.Acquire(context.Background(), claimtest.Key("other"), claim.AcquireOptions{Timeout: 300 * time.Millisecond})
	require.ErrorIs(t, err, claim.ErrHeld)
	require.Empty(t, double.Claims(t, claimtest.Key("other").ColdFront("")), "given up through the pooler, nothing left")
	require.NoError(t, held.Release(context.Background()))
	double.Answer(t)
	require.NoError(t, acquire(t, c, "orders").Release(context.Background()))
	// A session that is being closed lets its locks go a moment after its client has
	// left; one that went back to the pool would keep them.
	require.Eventually(t, func() bool {
		var left int
		require.NoError(t, queryRow(t, db, `SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory'
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&left))
		return left == 0
	}, 10*time.Second, 20*time.Millisecond, "no lock stays with a session of the pool")
}

func TestNoneSaysSoOnce(t *testing.T) {
	var logged bytes.Buffer
	c := open(t, claim.Config{Mode: claim.ModeNone, Logger: zerolog.New(zerolog.SyncWriter(&logged))})
	require.Equal(t, 1, bytes.Count(logged.Bytes(), []byte("no claim is taken")))
	for range 2 {
		require.NoError(t, acquire(t, c, "orders").Release(context.Background()))
	}
	require.Equal(t, 1, bytes.Count(logged.Bytes(), []byte("no claim is taken")))
}

func TestUnwritableDirectoryIsRefused(t *testing.T) {
	if os.Geteuid() == 0 {
		// Root may write anywhere; a directory below a plain file stands in for it.
		plain := filepath.Join(t.TempDir(), "plain")
		require.NoError(t, os.WriteFile(plain, nil, 0o600))
		_ = refused(t, claim.Config{Mode: claim.ModeFile, Dir: filepath.Join(plain, "below")})
		return
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o500))
	require.ErrorContains(t, refused(t, claim.Config{Mode: claim.ModeFile, Dir: dir}), "not writable")
}
