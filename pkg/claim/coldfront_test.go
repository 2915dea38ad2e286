package claim_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/claim"
	"compactor/pkg/claim/claimtest"
)

// meshGrants are what a role needs to claim on a mesh and to give a wait up.
func meshGrants() []string {
	return []string{"USAGE ON SCHEMA coldfront", "USAGE ON SCHEMA snowflake", "USAGE ON SCHEMA spock", "SELECT ON TABLE coldfront.claims"}
}

func TestColdFrontSingleNodeTakesTheLiteralKey(t *testing.T) {
	db := testenv.Postgres(t)
	claimtest.InstallColdFront(t, db.DSN)
	held := acquire(t, open(t, claim.Config{Mode: claim.ModeColdFront, DSN: db.DSN}), "orders")
	const try = `SELECT pg_try_advisory_xact_lock(hashtext('coldfront_iceberg:"ice"."sales"."orders"'))`
	var got bool
	require.NoError(t, queryRow(t, db, try).Scan(&got))
	require.False(t, got)
	require.NoError(t, held.Release(context.Background()))
	require.NoError(t, queryRow(t, db, try).Scan(&got))
	require.True(t, got)
}

func TestColdFrontHoldsNoSnapshot(t *testing.T) {
	db := testenv.Postgres(t)
	claimtest.InstallColdFrontMesh(t, db.DSN)
	dsn := db.Role(t, "strict", meshGrants()...)
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	// Under these defaults the claim would see no answer and block vacuum.
	for _, setting := range []string{"default_transaction_isolation = 'serializable'", "default_transaction_read_only = on"} {
		db.Exec(t, fmt.Sprintf("ALTER ROLE %q SET %s", u.User.Username(), setting))
	}
	held := acquire(t, open(t, claim.Config{Mode: claim.ModeColdFront, DSN: dsn}), "orders")
	var open, pinned int
	require.NoError(t, queryRow(t, db, `SELECT count(*)::int, count(backend_xmin)::int FROM pg_stat_activity
WHERE datname = current_database() AND state = 'idle in transaction'`).Scan(&open, &pinned))
	require.Equal(t, 1, open)
	require.Zero(t, pinned)
	require.NoError(t, held.Release(context.Background()))
}

func TestColdFrontMissingGrantsAreNamed(t *testing.T) {
	db := testenv.Postgres(t)
	claimtest.InstallColdFront(t, db.DSN)
	for _, mode := range []claim.Mode{claim.ModeColdFront, claim.ModeAuto} {
		err := refused(t, claim.Config{Mode: mode, DSN: db.Role(t, "nobody")})
		require.Contains(t, err.Hint, "GRANT USAGE ON SCHEMA coldfront")
	}
	dsn := db.Role(t, "somebody", "USAGE ON SCHEMA coldfront")
	c := open(t, claim.Config{Mode: claim.ModeColdFront, DSN: dsn})
	require.NoError(t, acquire(t, c, "orders").Release(context.Background()), "no superuser needed")
	db.Exec(t, "REVOKE EXECUTE ON FUNCTION coldfront._bakery_armed() FROM PUBLIC")
	_, err := c.Acquire(context.Background(), claimtest.Key("orders"), claim.AcquireOptions{Timeout: patience})
	var setup *claim.SetupError
	require.ErrorAs(t, err, &setup)
	require.ErrorContains(t, err, "_bakery_armed", "the message of the server is passed on")
	db.Exec(t, "REVOKE EXECUTE ON FUNCTION coldfront._claim_iceberg_external(text) FROM PUBLIC")
	require.Contains(t, refused(t, claim.Config{Mode: claim.ModeColdFront, DSN: dsn}).Hint, "GRANT EXECUTE")
}

func TestColdFrontRefusesNestedNamespaces(t *testing.T) {
	db := testenv.Postgres(t)
	claimtest.InstallColdFront(t, db.DSN)
	c := open(t, claim.Config{Mode: claim.ModeColdFront, DSN: db.DSN})
	_, err := c.Acquire(context.Background(), claim.Key{Namespace: []string{"a", "b"}, Table: "t"}, claim.AcquireOptions{})
	var setup *claim.SetupError
	require.ErrorAs(t, err, &setup)
}

func TestColdFrontRefusesASilentLocalLockOnAMesh(t *testing.T) {
	for _, name := range []string{"snowflake.node", "coldfront.dblink_self"} {
		t.Run(name, func(t *testing.T) {
			db := testenv.Postgres(t)
			double := claimtest.InstallColdFrontMesh(t, db.DSN)
			c := open(t, claim.Config{Mode: claim.ModeColdFront, DSN: db.DSN})
			double.Set(t, name, "")
			require.ErrorContains(t, refused(t, claim.Config{Mode: claim.ModeColdFront, DSN: db.DSN}), "2 nodes")
			_, err := c.Acquire(context.Background(), claimtest.Key("orders"), claim.AcquireOptions{Timeout: patience})
			var setup *claim.SetupError
			require.ErrorAs(t, err, &setup, "asked again in the session that claims")
			blind := db.Role(t, "blind", "USAGE ON SCHEMA coldfront")
			require.ErrorContains(t, refused(t, claim.Config{Mode: claim.ModeColdFront, DSN: blind}), "may not read spock.node")

			db.Exec(t, "DELETE FROM spock.node WHERE node_id = 2")
			require.NoError(t, acquire(t, c, "orders").Release(context.Background()), "a node alone needs no mesh")
		})
	}
}

func TestColdFrontDoubleLeavesTheRowOfACancelledWait(t *testing.T) {
	db := testenv.Postgres(t)
	double := claimtest.InstallColdFrontMesh(t, db.DSN)
	double.Withhold()
	conn := db.Conn(t)
	ref := claimtest.Key("orders").ColdFront("")
	_, err := conn.Exec(context.Background(), "SET statement_timeout = '200ms'")
	require.NoError(t, err)
	_, err = conn.Exec(context.Background(), "SELECT coldfront._claim_iceberg_external($1)", ref)
	require.Error(t, err)
	require.Len(t, double.Claims(t, ref), 1, "this is the trap that the tests below depend on")
}

func TestColdFrontGivesUpAWaitForPeers(t *testing.T) {
	db := testenv.Postgres(t)
	double := claimtest.InstallColdFrontMesh(t, db.DSN)
	key := claimtest.Key("orders")
	ref := key.ColdFront("")
	peer := double.PeerClaim(t, ref)
	double.Withhold()
	c := open(t, claim.Config{Mode: claim.ModeColdFront, DSN: db.Role(t, "writer", append(meshGrants(),
		"SELECT ON TABLE coldfront.claim_acks", "SELECT ON TABLE spock.node", "SELECT ON TABLE spock.local_node")...), Timing: quick()})

	t.Run("on timeout", func(t *testing.T) {
		_, err := c.Acquire(context.Background(), key, claim.AcquireOptions{Timeout: 500 * time.Millisecond})
		var held *claim.HeldError
		require.ErrorAs(t, err, &held)
		require.Contains(t, held.Holder, fmt.Sprintf("node 2 (ticket %d)", peer))
		require.Contains(t, held.Detail, "n2")
		require.Equal(t, []int64{peer}, double.Claims(t, ref), "our claim is gone, the peer's is not")
		require.Zero(t, atLock(t, db, coldKeySQL, ref))
	})
	t.Run("on SIGTERM", func(t *testing.T) {
		stop := errors.New("terminated")
		ctx, cancel := context.WithCancelCause(context.Background())
		_, err := c.Acquire(ctx, key, claim.AcquireOptions{OnWait: func(claim.Waiting) { cancel(stop) }})
		require.ErrorIs(t, err, stop)
		require.Equal(t, []int64{peer}, double.Claims(t, ref))
		require.Zero(t, atLock(t, db, coldKeySQL, ref))
	})
	double.Answer(t)
	held := acquire(t, c, "orders")
	require.Contains(t, double.Claims(t, ref), ticket(t, held))
	require.NoError(t, held.Release(context.Background()))
	claimtest.Eventually(t, "only the peer's claim is left", func() bool { return len(double.Claims(t, ref)) == 1 })
}

func ticket(t *testing.T, c *claim.Claim) int64 {
	t.Helper()
	var n int64
	_, err := fmt.Sscan(c.Ticket(), &n)
	require.NoError(t, err)
	return n
}

func TestColdFrontGivesUpAWaitForTheNodeLock(t *testing.T) {
	db := testenv.Postgres(t)
	double := claimtest.InstallColdFrontMesh(t, db.DSN)
	ref := claimtest.Key("orders").ColdFront("")
	c := open(t, claim.Config{Mode: claim.ModeColdFront, DSN: db.DSN, Timing: quick()})
	held := acquire(t, c, "orders")
	_, err := c.Acquire(context.Background(), claimtest.Key("orders"), claim.AcquireOptions{Timeout: 300 * time.Millisecond})
	require.ErrorIs(t, err, claim.ErrHeld)
	require.Equal(t, []int64{ticket(t, held)}, double.Claims(t, ref), "the holder's claim is not touched")
	_, err = held.Verify(context.Background())
	require.NoError(t, err)
	require.NoError(t, held.Release(context.Background()))
}

// TestColdFrontGivingUpAtAnyMomentLeavesNothing gives up after random times while
// other writers of the node come and go, so that the giving up meets every stage
// of the claim function.
func TestColdFrontGivingUpAtAnyMomentLeavesNothing(t *testing.T) {
	db := testenv.Postgres(t)
	double := claimtest.InstallColdFrontMesh(t, db.DSN)
	ref := claimtest.Key("orders").ColdFront("")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var wg sync.WaitGroup
	for w := range 3 {
		c := open(t, claim.Config{Mode: claim.ModeColdFront, DSN: db.DSN, Timing: quick()})
		random := rand.New(rand.NewPCG(seed, uint64(w)))
		wg.Go(func() {
			for range 25 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(40_000))*time.Microsecond)
				held, err := c.Acquire(ctx, claimtest.Key("orders"), claim.AcquireOptions{})
				if err == nil {
					err = held.Release(context.Background())
				} else if errors.Is(err, context.DeadlineExceeded) {
					err = nil
				}
				cancel()
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	claimtest.Eventually(t, "no claim is left", func() bool { return len(double.Claims(t, ref)) == 0 })
	require.NoError(t, acquire(t, open(t, claim.Config{Mode: claim.ModeColdFront, DSN: db.DSN}), "orders").Release(context.Background()))
}

func TestColdFrontKeepsWaitingWithoutTheRightToLeave(t *testing.T) {
	db := testenv.Postgres(t)
	double := claimtest.InstallColdFrontMesh(t, db.DSN)
	key := claimtest.Key("orders")
	ref := key.ColdFront("")
	db.Exec(t, "REVOKE EXECUTE ON FUNCTION coldfront._release_iceberg_lock(bigint) FROM PUBLIC")
	dsn := db.Role(t, "bound", "USAGE ON SCHEMA coldfront", "USAGE ON SCHEMA snowflake")
	var logged bytes.Buffer
	c := open(t, claim.Config{Mode: claim.ModeColdFront, DSN: dsn, Logger: zerolog.New(zerolog.SyncWriter(&logged)), Timing: quick()})
	require.Contains(t, logged.String(), "coldfront._release_iceberg_lock")

	// saysWhy returns options whose OnWait closes said when the reason is given.
	saysWhy := func(timeout time.Duration) (claim.AcquireOptions, <-chan struct{}) {
		said := make(chan struct{})
		var once sync.Once
		return claim.AcquireOptions{Timeout: timeout, OnWait: func(w claim.Waiting) {
			if strings.Contains(w.Detail, "_release_iceberg_lock") {
				once.Do(func() { close(said) })
			}
		}}, said
	}
	t.Run("after a timeout the late grant is used", func(t *testing.T) {
		double.Withhold()
		o, said := saysWhy(200 * time.Millisecond)
		go func() {
			<-said
			double.Answer(t)
		}()
		held, err := c.Acquire(context.Background(), key, o)
		require.NoError(t, err)
		require.Len(t, double.Claims(t, ref), 1)
		_, err = held.Verify(context.Background())
		require.NoError(t, err)
		require.NoError(t, held.Release(context.Background()))
	})
	t.Run("after SIGTERM the late grant is given back", func(t *testing.T) {
		double.Withhold()
		o, said := saysWhy(0)
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		go func() {
			<-said
			double.Answer(t)
		}()
		_, err := c.Acquire(ctx, key, o)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		claimtest.Eventually(t, "no claim is left", func() bool { return len(double.Claims(t, ref)) == 0 })
	})
}

func TestColdFrontVerifyNamesTheTicket(t *testing.T) {
	db := testenv.Postgres(t)
	claimtest.InstallColdFrontMesh(t, db.DSN)
	held := acquire(t, open(t, claim.Config{Mode: claim.ModeColdFront, DSN: db.DSN}), "orders")
	_, err := held.Verify(context.Background())
	require.NoError(t, err)
	db.Exec(t, "DELETE FROM coldfront.claims WHERE ticket = "+held.Ticket())
	_, err = held.Verify(context.Background())
	require.ErrorIs(t, err, claim.ErrLost, "somebody removed the claim by hand")
	require.ErrorIs(t, lostBy(t, held), claim.ErrLost)
}
