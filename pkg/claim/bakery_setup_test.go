package claim_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/claim"
	"compactor/pkg/claim/bakery"
	"compactor/pkg/claim/claimtest"
)

func TestBakeryOpenSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	db := bakeryMesh(t, 1, 15)[0]
	cfg := func(dsn string) claim.Config { return claim.Config{Mode: claim.ModeBakery, DSN: dsn} }
	require.ErrorContains(t, refused(t, cfg(db.Role(t, "nobody"))), "GRANT bakery_writer TO")
	require.ErrorContains(t, refused(t, cfg(testenv.PgBouncer(t, db, "transaction"))), "pooler")
	require.ErrorContains(t, refused(t, claim.Config{Mode: claim.ModeBakery, DSN: db.DSN, Window: time.Millisecond, DeadPeer: "hope"}), `"hope"`)
	db.Exec(t, "REVOKE pg_read_all_stats FROM bakery_owner")
	require.ErrorContains(t, refused(t, cfg(db.DSN)), "GRANT pg_read_all_stats TO bakery_owner")
	db.Exec(t, "GRANT pg_read_all_stats TO bakery_owner", "UPDATE bakery.self SET state = 'leaving'")
	require.ErrorContains(t, refused(t, cfg(db.DSN)), "no active node")
	db.Exec(t, "UPDATE bakery.self SET state = 'active'")
	require.Equal(t, claim.ModeBakery, open(t, claim.Config{Mode: claim.ModeAuto, DSN: db.DSN}).Mode(), "auto finds the bakery")
}

// TestCase_C20_BakeryWriterNeedsOneGrant: the documented role is enough, whatever timeouts and isolation it carries.
func TestCase_C20_BakeryWriterNeedsOneGrant(t *testing.T) {
	t.Parallel()
	db := bakeryMesh(t, 1, 15)[0]
	dsn := db.Role(t, "writer", "bakery_writer")
	db.Exec(t, `DO $$ DECLARE r text; BEGIN
		SELECT rolname INTO r FROM pg_roles WHERE rolname LIKE 'writer\_%' ORDER BY oid DESC LIMIT 1;
		EXECUTE format('ALTER ROLE %I SET statement_timeout = 200', r);
		EXECUTE format('ALTER ROLE %I SET lock_timeout = 200', r);
		EXECUTE format('ALTER ROLE %I SET idle_session_timeout = 300', r);
		EXECUTE format('ALTER ROLE %I SET default_transaction_isolation = serializable', r);
		EXECUTE format('ALTER ROLE %I SET default_transaction_read_only = on', r);
	END $$`)
	first := open(t, claim.Config{Mode: claim.ModeBakery, DSN: dsn, Holder: "first"})
	second := open(t, claim.Config{Mode: claim.ModeBakery, DSN: dsn, Holder: "second"})
	held, err := first.Acquire(t.Context(), claimtest.Key("role"), claim.AcquireOptions{})
	require.NoError(t, err)
	_, err = second.Acquire(t.Context(), claimtest.Key("role"), claim.AcquireOptions{Timeout: time.Second})
	require.ErrorIs(t, err, claim.ErrHeld)
	deadline, err := held.Verify(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(10*time.Second), deadline, 5*time.Second, "half of the default window")
	require.NoError(t, held.Release(t.Context()))
}

// TestBakeryWaitNamesThePeerInTheWay: progress and the final error say which node holds the table, and who.
func TestBakeryWaitNamesThePeerInTheWay(t *testing.T) {
	t.Parallel()
	dbs := bakeryMesh(t, 3, 15)
	holder := open(t, claim.Config{Mode: claim.ModeBakery, DSN: dbs[0].DSN, Holder: "compactor@here 1 run-a"})
	waiter := open(t, claim.Config{Mode: claim.ModeBakery, DSN: dbs[1].DSN, Holder: "waiter"})
	held, err := holder.Acquire(t.Context(), claimtest.Key("far"), claim.AcquireOptions{})
	require.NoError(t, err)
	var said []claim.Waiting
	_, err = waiter.Acquire(t.Context(), claimtest.Key("far"), claim.AcquireOptions{Timeout: 2500 * time.Millisecond,
		OnWait: func(w claim.Waiting) { said = append(said, w) }})
	var refusal *claim.HeldError
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, "compactor@here 1 run-a", refusal.Holder)
	require.Contains(t, refusal.Detail, "waiting for n1: ticket "+held.Ticket()+", held by compactor@here 1 run-a for ")
	require.NotEmpty(t, said)
	require.Contains(t, said[len(said)-1].Detail, "waiting for n1: ticket "+held.Ticket())
	require.Zero(t, count(t, dbs[1], "SELECT count(*)::int FROM bakery.claims WHERE holder = 'waiter'"), "a timeout leaves no claim")
	require.NoError(t, held.Release(t.Context()))
}

// count reads one number.
func count(t *testing.T, db *testenv.Database, sql string) (n int) {
	t.Helper()
	require.NoError(t, queryRow(t, db, sql).Scan(&n))
	return n
}

// TestBakeryOfTwoWaitsForTheOtherUnlessTold: of two nodes neither is a majority.
func TestBakeryOfTwoWaitsForTheOtherUnlessTold(t *testing.T) {
	t.Parallel()
	server := testenv.NewPostgres(t, testenv.PostgresOptions{})
	gone := testenv.NewPostgres(t, testenv.PostgresOptions{})
	plan := bakery.Plan{Nodes: []bakery.Node{{Name: "n1", DSN: server.DSN("postgres")}, {Name: "n2", DSN: gone.DSN("postgres")}}}
	_, err := bakery.Install(t.Context(), plan)
	require.NoError(t, err)
	gone.Kill9(t)
	try := func(policy claim.DeadPeer, limit time.Duration) error {
		c := open(t, claim.Config{Mode: claim.ModeBakery, DSN: plan.Nodes[0].DSN, Window: 2 * time.Second, DeadPeer: policy})
		held, err := c.Acquire(t.Context(), claimtest.Key("two"), claim.AcquireOptions{Timeout: limit})
		if err == nil {
			_, verified := held.Verify(t.Context())
			require.NoError(t, verified)
			require.NoError(t, held.Release(t.Context()))
		}
		return err
	}
	err = try(claim.DeadPeerQuorum, 8*time.Second)
	require.ErrorIs(t, err, claim.ErrHeld)
	require.ErrorContains(t, err, "waiting for n2: no sign of life for")
	require.ErrorIs(t, try(claim.DeadPeerWait, 8*time.Second), claim.ErrHeld)
	require.NoError(t, try(claim.DeadPeerEscape, forEver), "the operator's word")
}

// TestBakerySplitOfFourStopsBothHalves: two of four are no majority.
func TestBakerySplitOfFourStopsBothHalves(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4, 15)
	for _, a := range []int{0, 1} {
		for _, b := range []int{2, 3} {
			c.cut(a, b)
		}
	}
	results := make(chan error, 2)
	for _, node := range []int{0, 2} {
		claimer := open(t, claim.Config{Mode: claim.ModeBakery, DSN: c.plan.Nodes[node].DSN, Window: 2 * time.Second})
		go func() {
			_, err := claimer.Acquire(context.WithoutCancel(t.Context()), claimtest.Key("split"), claim.AcquireOptions{Timeout: 8 * time.Second})
			results <- err
		}()
	}
	require.ErrorIs(t, <-results, claim.ErrHeld)
	require.ErrorIs(t, <-results, claim.ErrHeld)
	c.heal()
	c.requireEmpty(t, claimtest.Key("split"), 4*time.Second)
}

// TestCase_C20_BakeryStoppedHolderFindsItsClaimLost: the server ends the session of a holder that stands still, another gets in, and the holder
// learns of it before it can commit.
func TestCase_C20_BakeryStoppedHolderFindsItsClaimLost(t *testing.T) {
	t.Parallel()
	dbs := bakeryMesh(t, 3, 15)
	p := startParticipant(t, dbs[0].DSN, claim.ModeBakery)
	p.expect(t, "held")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	other := open(t, claim.Config{Mode: claim.ModeBakery, DSN: dbs[1].DSN, Window: 4 * time.Second})
	held, err := other.Acquire(t.Context(), claimtest.Key("process"), claim.AcquireOptions{Timeout: forEver})
	require.NoError(t, err)
	require.Zero(t, count(t, dbs[1], "SELECT count(*)::int FROM bakery.claims WHERE holder LIKE 'participant%'"))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	_, err = p.in.Write([]byte("?\n"))
	require.NoError(t, err)
	require.Contains(t, p.next(t, "ours"), "verify: ")
	_, err = held.Verify(t.Context())
	require.NoError(t, err)
	require.NoError(t, held.Release(t.Context()))
}

// TestBakeryHoldsForLongerThanAWindow: pokes and their answers keep the lease, for as long as the work takes.
func TestBakeryHoldsForLongerThanAWindow(t *testing.T) {
	t.Parallel()
	dbs := bakeryMesh(t, 3, 18)
	const window = 6 * time.Second
	holder := open(t, claim.Config{Mode: claim.ModeBakery, DSN: dbs[0].DSN, Window: window})
	waiter := open(t, claim.Config{Mode: claim.ModeBakery, DSN: dbs[1].DSN, Window: window})
	held, err := holder.Acquire(t.Context(), claimtest.Key("long"), claim.AcquireOptions{})
	require.NoError(t, err)
	_, err = waiter.Acquire(t.Context(), claimtest.Key("long"), claim.AcquireOptions{Timeout: window + window/4})
	require.ErrorIs(t, err, claim.ErrHeld)
	_, err = held.Verify(t.Context())
	require.NoError(t, err)
	require.NoError(t, held.Release(t.Context()))
}
