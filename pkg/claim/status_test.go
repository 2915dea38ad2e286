package claim_test

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/claim"
	"compactor/pkg/claim/claimtest"
)

func statusOf(t *testing.T, c claim.Claimer, table string) claim.Status {
	t.Helper()
	s, err := claim.StatusOf(context.Background(), c, claimtest.Key(table))
	require.NoError(t, err)
	return s
}

func TestStatusShowsAPlainSQLSession(t *testing.T) {
	db := testenv.Postgres(t)
	c := open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: db.DSN})
	session := db.Conn(t)
	_, err := session.Exec(context.Background(), "SET application_name = 'psql'")
	require.NoError(t, err)
	_, err = session.Exec(context.Background(), "SELECT pg_advisory_lock(hashtextextended('iceberg:' || $1, 0))", claimtest.Key("orders").String())
	require.NoError(t, err)
	claimtest.Eventually(t, "an age of the session", func() bool { return statusOf(t, c, "orders").Holder.For > 0 })
	holder := statusOf(t, c, "orders").Holder
	require.Equal(t, "psql", holder.Name)
	require.EqualValues(t, session.PgConn().PID(), holder.PID)
	require.True(t, holder.AtLeast, "a session that states no time has had the lock for an unknown time")
	require.Less(t, holder.For, time.Minute)
	require.Nil(t, statusOf(t, c, "others").Holder)

	// A role that may not read the activity of others still sees who it is.
	plain := open(t, claim.Config{Mode: claim.ModeAdvisory, DSN: db.Role(t, "plain")})
	holder = statusOf(t, plain, "orders").Holder
	require.Equal(t, "psql", holder.Name)
	require.Zero(t, holder.For)
}

func TestStatusOfAColdFrontMesh(t *testing.T) {
	db := testenv.Postgres(t)
	double := claimtest.InstallColdFrontMesh(t, db.DSN)
	c := open(t, claim.Config{Mode: claim.ModeColdFront, DSN: db.DSN, Holder: "reader"})
	ref := claimtest.Key("orders").ColdFront("")

	held := acquire(t, open(t, claim.Config{Mode: claim.ModeColdFront, DSN: db.DSN, Holder: "ours"}), "orders")
	s := statusOf(t, c, "orders")
	require.Equal(t, ref, s.Reference)
	require.Equal(t, "ours", s.Holder.Name)
	require.Equal(t, held.Ticket(), s.Holder.Ticket)
	require.Equal(t, "1", s.Holder.Node)
	require.NoError(t, held.Release(context.Background()))
	claimtest.Eventually(t, "the claim is gone", func() bool { return len(double.Claims(t, ref)) == 0 })

	double.Withhold()
	peer := double.PeerClaim(t, ref)
	s = statusOf(t, c, "orders")
	require.Equal(t, "2", s.Holder.Node)
	require.Equal(t, strconv.FormatInt(peer, 10), s.Holder.Ticket)
	require.Empty(t, s.Waiters)

	got := make(chan error, 1)
	queued := open(t, claim.Config{Mode: claim.ModeColdFront, DSN: db.DSN, Holder: "queued"})
	go func() {
		claimed, err := queued.Acquire(context.Background(), claimtest.Key("orders"), claim.AcquireOptions{Timeout: time.Minute})
		if err == nil {
			err = claimed.Release(context.Background())
		}
		got <- err
	}()
	claimtest.Eventually(t, "our waiter is seen behind node 2", func() bool {
		s = statusOf(t, c, "orders")
		return len(s.Waiters) == 1 && s.Waiters[0].Ticket != ""
	})
	require.Equal(t, "2", s.Holder.Node)
	require.Equal(t, "queued", s.Waiters[0].Name)
	require.Equal(t, "no answer yet from n2", s.Waiters[0].Detail)
	db.Exec(t, "DELETE FROM coldfront.claims WHERE ticket = "+strconv.FormatInt(peer, 10))
	double.Answer(t)
	require.NoError(t, <-got)

	// What the role may not read is said.
	blind := open(t, claim.Config{Mode: claim.ModeColdFront, DSN: db.Role(t, "blind", "USAGE ON SCHEMA coldfront", "USAGE ON SCHEMA spock")})
	require.Contains(t, statusOf(t, blind, "orders").Notes[0], "may not read coldfront.claims")
}

func TestStatusDoesNotTrustWhatAKilledHolderLeft(t *testing.T) {
	dir := t.TempDir()
	c := openFile(t, dir, "reader")
	require.Nil(t, statusOf(t, c, "orders").Holder)
	left := `{"holder":"compactor@gone 1","since":"2026-01-01T00:00:00Z"}`
	require.NoError(t, os.WriteFile(lockPath(dir, claimtest.Key("orders")), []byte(left), 0o660)) //nolint:gosec // The mode of lock files.
	require.Nil(t, statusOf(t, c, "orders").Holder, "the text names a holder but nobody has the lock")

	held := acquire(t, openFile(t, dir, "compactor@here 2"), "orders")
	require.Equal(t, "compactor@here 2", statusOf(t, c, "orders").Holder.Name)
	_, err := held.Verify(context.Background())
	require.NoError(t, err, "looking does not disturb the holder")
	require.NoError(t, held.Release(context.Background()))
}

func TestStatusOfModeNoneSaysThatItIsBlind(t *testing.T) {
	s := statusOf(t, open(t, claim.Config{Mode: claim.ModeNone}), "orders")
	require.Nil(t, s.Holder)
	require.Contains(t, s.Notes[0], "takes no claims")
}
