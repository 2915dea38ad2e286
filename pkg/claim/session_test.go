package claim_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/claim"
	"compactor/pkg/claim/claimtest"
)

const patience = 30 * time.Second

// open makes a participant that is closed with the test.
func open(t *testing.T, cfg claim.Config) claim.Claimer {
	t.Helper()
	c, err := claim.Open(context.Background(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// acquire takes a claim that must be granted.
func acquire(t *testing.T, c claim.Claimer, table string) *claim.Claim {
	t.Helper()
	held, err := c.Acquire(context.Background(), claimtest.Key(table), claim.AcquireOptions{Timeout: patience})
	require.NoError(t, err)
	return held
}

// stays fails if the claim is lost within d.
func stays(t *testing.T, c *claim.Claim, d time.Duration) {
	t.Helper()
	select {
	case <-c.Context().Done():
		t.Fatalf("lost: %v", context.Cause(c.Context()))
	case <-time.After(d):
	}
}

// lostBy returns the cause with which a claim's context ends.
func lostBy(t *testing.T, c *claim.Claim) error {
	t.Helper()
	select {
	case <-c.Context().Done():
		return context.Cause(c.Context())
	case <-time.After(patience):
		t.Fatal("the claim was not lost")
		return nil
	}
}

// through returns the DSN with another address.
func through(t *testing.T, dsn, addr string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	u.Host = addr
	return u.String()
}

// with returns the DSN with a parameter changed.
func with(t *testing.T, dsn, name, value string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

func address(s *testenv.PostgresServer) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port))
}

func TestAdvisoryAndPlainSQLExcludeEachOther(t *testing.T) {
	db := testenv.Postgres(t)
	c := open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: db.DSN, Timing: quick()})
	const key = `hashtextextended('iceberg:' || 'analytics"sales"."orders"', 0)`
	sql := db.Conn(t)
	ctx := context.Background()
	_, err := sql.Exec(ctx, "SET application_name = 'nightly loader'")
	require.NoError(t, err)

	held := acquire(t, c, "orders")
	var got bool
	require.NoError(t, sql.QueryRow(ctx, "SELECT pg_try_advisory_lock("+key+")").Scan(&got))
	require.False(t, got, "plain SQL must not get what we hold")
	require.NoError(t, held.Release(ctx))
	require.NoError(t, sql.QueryRow(ctx, "SELECT pg_try_advisory_lock("+key+")").Scan(&got))
	require.True(t, got, "free at once after release")

	_, err = c.Acquire(ctx, claimtest.Key("orders"), claim.AcquireOptions{Timeout: 300 * time.Millisecond})
	var refused *claim.HeldError
	require.ErrorAs(t, err, &refused)
	require.Contains(t, refused.Holder, "nightly loader")
	require.Contains(t, refused.Holder, fmt.Sprintf("server process %d", sql.PgConn().PID()))
	_, err = sql.Exec(ctx, "SELECT pg_advisory_unlock("+key+")")
	require.NoError(t, err)
	require.NoError(t, acquire(t, c, "orders").Release(ctx))
}

func TestWaitIsOneBlockedStatement(t *testing.T) {
	db := testenv.Postgres(t)
	holder := open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: db.DSN, Holder: "holder"})
	held := acquire(t, holder, "orders")
	waiter := open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: db.DSN, Holder: "waiter", Timing: quick()})
	looks := make(chan claim.Waiting, 100)
	out := make(chan *claim.Claim, 1)
	go func() {
		c, err := waiter.Acquire(context.Background(), claimtest.Key("orders"), claim.AcquireOptions{OnWait: func(w claim.Waiting) { looks <- w }})
		if err != nil {
			t.Error(err)
		}
		out <- c
	}()
	const state = `SELECT query_start::text || wait_event_type || state FROM pg_stat_activity
 WHERE wait_event_type = 'Lock' AND datname = current_database()`
	var first, later string
	w := <-looks
	require.Contains(t, w.Holder, "holder")
	require.NoError(t, queryRow(t, db, state).Scan(&first))
	for range 8 {
		w = <-looks
	}
	require.NoError(t, queryRow(t, db, state).Scan(&later))
	require.Equal(t, first, later, "the same statement must still be blocked")
	require.Greater(t, w.For, 500*time.Millisecond)
	require.NoError(t, held.Release(context.Background()))
	require.NoError(t, (<-out).Release(context.Background()))
}

func TestHeldForIsTheHoldersOwnWord(t *testing.T) {
	db := testenv.Postgres(t)
	held := acquire(t, open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: db.DSN, Holder: "holder"}), "orders")
	stays(t, held, 2100*time.Millisecond)
	waiter := open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: db.DSN})
	_, err := waiter.Acquire(context.Background(), claimtest.Key("orders"), claim.AcquireOptions{Timeout: 20 * time.Millisecond})
	var refused *claim.HeldError
	require.ErrorAs(t, err, &refused)
	require.GreaterOrEqual(t, refused.HeldFor, time.Second, "longer than we have watched")
	require.Less(t, refused.HeldFor, patience)
	require.NoError(t, held.Release(context.Background()))
}

func TestCase_C20_RoleTimeoutsDoNotEndTheClaim(t *testing.T) {
	db := testenv.Postgres(t)
	claimtest.InstallColdFront(t, db.DSN)
	for _, mode := range []claim.Mode{claim.ModeAdvisory, claim.ModeColdFront} {
		t.Run(string(mode), func(t *testing.T) {
			dsn := db.Role(t, "hasty", "USAGE ON SCHEMA coldfront")
			u, err := url.Parse(dsn)
			require.NoError(t, err)
			for _, name := range []string{"idle_in_transaction_session_timeout", "idle_session_timeout", "statement_timeout", "lock_timeout"} {
				db.Exec(t, fmt.Sprintf("ALTER ROLE %q SET %s = '400ms'", u.User.Username(), name))
			}
			// No probe falls into the time watched: only the settings keep the claim.
			cfg := claim.Config{Mode: mode, DSN: dsn, Timing: claim.Timing{Lease: 10 * time.Second, Probe: 5 * time.Second}}
			c := open(t, cfg)
			held := acquire(t, c, "orders")
			out := make(chan error, 1)
			go func() {
				second, err := c.Acquire(context.Background(), claimtest.Key("orders"), claim.AcquireOptions{Timeout: patience})
				if err == nil {
					err = second.Release(context.Background())
				}
				out <- err
			}()
			stays(t, held, 1200*time.Millisecond)
			_, err = held.Verify(context.Background())
			require.NoError(t, err)
			require.NoError(t, held.Release(context.Background()))
			require.NoError(t, <-out, "a wait of 1.2 s outlives statement_timeout and lock_timeout of 0.4 s")
		})
	}
}

func TestCase_C20_TransactionTimeoutOfNewerServers(t *testing.T) {
	server := testenv.NewPostgres(t, testenv.PostgresOptions{Major: 18})
	db := server.Database(t)
	claimtest.InstallColdFront(t, db.DSN)
	db.Exec(t, "ALTER DATABASE "+db.Name+" SET transaction_timeout = '1s'")
	held := acquire(t, open(t, claim.Config{Mode: claim.ModeColdFront, DSN: db.DSN}), "orders")
	stays(t, held, 2200*time.Millisecond)
	_, err := held.Verify(context.Background())
	require.NoError(t, err)
	require.NoError(t, held.Release(context.Background()))
}

func TestCase_C20_SilentNetworkFreesTheTableWithinTheLease(t *testing.T) {
	db := testenv.Postgres(t)
	claimtest.InstallColdFront(t, db.DSN)
	for _, mode := range []claim.Mode{claim.ModeAdvisory, claim.ModeColdFront} {
		t.Run(string(mode), func(t *testing.T) {
			proxy := testenv.NewTCPProxy(t, address(db.Server))
			victim := open(t, claim.Config{Mode: mode, DSN: through(t, db.DSN, proxy.Addr), Timing: quick()})
			heir := open(t, claim.Config{Mode: mode, DSN: db.DSN, Timing: quick()})
			held := acquire(t, victim, "orders")
			stays(t, held, 2*quick().Probe)
			proxy.Stall()
			start := time.Now()
			next := acquire(t, heir, "orders")
			require.Error(t, held.Context().Err(), "the first writer must stop believing before the second begins")
			require.ErrorIs(t, context.Cause(held.Context()), claim.ErrLost)
			require.Less(t, time.Since(start), 5*quick().Lease)
			proxy.Cut()
			_, err := held.Verify(context.Background())
			require.ErrorIs(t, err, claim.ErrLost)
			require.NoError(t, held.Release(context.Background()))
			require.NoError(t, next.Release(context.Background()))
		})
	}
}

func TestCase_C20_CutConnectionIsLostAtOnce(t *testing.T) {
	db := testenv.Postgres(t)
	proxy := testenv.NewTCPProxy(t, address(db.Server))
	// With these times a probe would notice only after a quarter of an hour.
	slow := claim.Timing{Lease: time.Hour, Probe: 15 * time.Minute}
	held := acquire(t, open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: through(t, db.DSN, proxy.Addr), Timing: slow}), "orders")
	proxy.Cut()
	require.ErrorIs(t, lostBy(t, held), claim.ErrLost)
	require.NoError(t, held.Release(context.Background()))
	require.NoError(t, acquire(t, open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: db.DSN}), "orders").Release(context.Background()))
}

func TestReleaseIsBoundedOnASilentNetwork(t *testing.T) {
	db := testenv.Postgres(t)
	proxy := testenv.NewTCPProxy(t, address(db.Server))
	timing := claim.Timing{Lease: 3 * time.Second, Probe: time.Second, Release: 200 * time.Millisecond, ConnectionCheck: 300 * time.Millisecond}
	held := acquire(t, open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: through(t, db.DSN, proxy.Addr), Timing: timing}), "orders")
	proxy.Stall()
	start := time.Now()
	require.Error(t, held.Release(context.Background()), "nobody confirmed")
	require.Less(t, time.Since(start), 5*time.Second)
	require.NoError(t, held.Release(context.Background()), "a second release has nothing left to do")
	proxy.Cut()
	require.NoError(t, acquire(t, open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: db.DSN}), "orders").Release(context.Background()))
}

func TestCase_C20_StoppedProcessFindsItsClaimLost(t *testing.T) {
	db := testenv.Postgres(t)
	p := startParticipant(t, db.DSN)
	p.expect(t, "held")
	_, err := fmt.Fprintln(p.in, "ours?")
	require.NoError(t, err)
	p.expect(t, "ours")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	next := acquire(t, open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: db.DSN}), "process")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	_, err = fmt.Fprintln(p.in, "ours?")
	require.NoError(t, err)
	require.Contains(t, p.next(t, ""), "lost")
	_, err = next.Verify(context.Background())
	require.NoError(t, err, "the new holder is not disturbed")
	require.NoError(t, next.Release(context.Background()))
}

func TestCase_C20_KilledProcessFreesTheTable(t *testing.T) {
	db := testenv.Postgres(t)
	holder := startParticipant(t, db.DSN)
	holder.expect(t, "held")
	queued := startParticipant(t, db.DSN)
	queued.expect(t, "waiting")
	require.Equal(t, 2, atLock(t, db, advisoryKeySQL, claimtest.Key("process").String()))
	require.NoError(t, queued.cmd.Process.Kill())
	claimtest.Eventually(t, "the dead waiter's place is dropped", func() bool {
		return atLock(t, db, advisoryKeySQL, claimtest.Key("process").String()) == 1
	})
	require.NoError(t, holder.cmd.Process.Kill())
	next := acquire(t, open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: db.DSN}), "process")
	require.NoError(t, next.Release(context.Background()))
}

func TestCase_C20_ClockGapMeansLost(t *testing.T) {
	db := testenv.Postgres(t)
	var offset atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	// The server would not mind: its lease is an hour. The gap alone must do it.
	c := open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: db.DSN, Now: clock, Timing: claim.Timing{Lease: time.Hour, Probe: 20 * time.Minute}})
	held := acquire(t, c, "orders")
	offset.Store(int64(50 * time.Minute))
	deadline, err := held.Verify(context.Background())
	require.NoError(t, err)
	require.WithinDuration(t, clock().Add(time.Hour), deadline, patience)
	offset.Store(int64(111 * time.Minute))
	_, err = held.Verify(context.Background())
	require.ErrorIs(t, err, claim.ErrLost)
	require.ErrorContains(t, err, "no sign of life")
	require.ErrorIs(t, lostBy(t, held), claim.ErrLost)
}

func TestServerRestartLosesTheClaim(t *testing.T) {
	server := testenv.NewPostgres(t, testenv.PostgresOptions{})
	db := server.Database(t)
	c := open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: db.DSN})
	held := acquire(t, c, "orders")
	server.Stop(t, testenv.StopImmediate)
	require.ErrorIs(t, lostBy(t, held), claim.ErrLost)
	_, err := c.Acquire(context.Background(), claimtest.Key("orders"), claim.AcquireOptions{Timeout: time.Second})
	require.Error(t, err)
	var setup *claim.SetupError
	require.NotErrorAs(t, err, &setup, "a server that is down may come back")
	require.NotErrorIs(t, err, claim.ErrHeld)
	server.Start(t)
	require.NoError(t, acquire(t, c, "orders").Release(context.Background()))
}
