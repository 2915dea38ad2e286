package bakery_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// oneWriterPerNode: while a writer holds the table, another of the same node cannot even insert its claim.
func oneWriterPerNode(t *testing.T, m *mesh, table string) bool {
	a, b := m.session(t, 0), m.session(t, 0)
	defer end(t, table, a, b)
	acquire(t, a, table, "a")
	run(t, b, "SET statement_timeout = '500ms'")
	_, err := b.Exec(context.Background(), "SELECT bakery.claim($1, 'b')", table)
	return err != nil
}

// decisionSeesADrawInProgress: node 1 has drawn a ticket and not committed it when the larger one of node 2 arrives; node 1 must not
// ack it as if it had no claim.
func decisionSeesADrawInProgress(t *testing.T, m *mesh, table string) bool {
	a, b := m.session(t, 0), m.session(t, 1)
	defer end(t, table, a, b)
	run(t, a, "BEGIN")
	small := claimed(t, a, table, "a")
	large := claimed(t, b, table, "b")
	require.Greater(t, large, small)
	require.True(t, soon(t, func() bool { return acks(t, b, large) > 0 }), "node 3 acks")
	soon(t, func() bool { return acks(t, b, large) == 2 })
	run(t, a, "COMMIT")
	both := entered(t, a, small) && enters(t, b, large)
	return !both
}

// nodeRecoversFromADeadWriter: the next writer of the node gets in although a claim without owner is left.
func nodeRecoversFromADeadWriter(t *testing.T, m *mesh, table string) bool {
	dead := m.session(t, 0)
	acquire(t, dead, table, "dead")
	require.NoError(t, dead.Close(context.Background()))
	heir := m.session(t, 0)
	defer end(t, table, heir)
	return entered(t, heir, claimed(t, heir, table, "heir"))
}

// peerRecoversFromADeadWriter: a writer whose ack was deferred behind a holder that dies gets in by poking.
func peerRecoversFromADeadWriter(t *testing.T, m *mesh, table string) bool {
	holder, waiter, other := m.session(t, 0), m.session(t, 1), m.session(t, 0)
	defer end(t, table, waiter)
	// Whatever is left is cleaned up by a new writer of the dead one's node.
	defer func() { end(t, table, other) }()
	acquire(t, holder, table, "holder")
	ticket := claimed(t, waiter, table, "waiter")
	m.arrived(t, 0, ticket)
	require.NoError(t, holder.Close(context.Background()))
	in := soon(t, func() bool {
		run(t, waiter, "SELECT bakery.poke($1)", ticket)
		return enters(t, waiter, ticket)
	})
	if !in {
		claimed(t, other, table, "other")
	}
	return in
}

// ticketsFollowTheAcks: node 2, whose clock is late, has acked a claim that is still to enter; its own must stand behind it.
func ticketsFollowTheAcks(t *testing.T, m *mesh, table string) bool {
	defer m.skewed(t, 1, -300000)()
	a, b := m.session(t, 0), m.session(t, 1)
	defer end(t, table, a, b)
	first := claimed(t, a, table, "a")
	require.True(t, soon(t, func() bool { return acks(t, a, first) == 2 }))
	second := claimed(t, b, table, "b")
	in := entered(t, b, second)
	return !in || !enters(t, a, first)
}

// ticketsFollowReleasedOnes: a ticket is larger than those of claims that are gone.
func ticketsFollowReleasedOnes(t *testing.T, m *mesh, table string) bool {
	defer m.skewed(t, 1, -300000)()
	a, b := m.session(t, 0), m.session(t, 1)
	defer end(t, table, a, b)
	first := acquire(t, a, table, "a")
	run(t, a, "SELECT bakery.release($1, $2)", table, first)
	eventually(t, "the claim is gone from node 2", func() bool {
		return get[int](t, b, "SELECT count(*)::int FROM bakery.claims WHERE ticket = $1", first) == 0
	})
	second := claimed(t, b, table, "b")
	return second > first
}

// helloRaisesTheFloor: node 3 missed a claim that entered without it; its hello brings it above that ticket.
func helloRaisesTheFloor(t *testing.T, m *mesh, table string) bool {
	defer m.skewed(t, 2, -300000)()
	a, c := m.session(t, 0), m.session(t, 2)
	defer end(t, table, a, c)
	hear := m.deaf(t, 2, 0)
	first := claimed(t, a, table, "a")
	require.True(t, soon(t, func() bool { return acks(t, a, first) == 1 }), "node 2 acks")
	entersWithout(t, a, first, 3)
	hello := get[int64](t, c, "SELECT bakery.hello($1)", table)
	require.True(t, soon(t, func() bool {
		return get[bool](t, c, "SELECT poke IS NOT NULL FROM bakery.waiting($1) WHERE node = 2", hello)
	}), "node 2, which has acked, answers")
	second := claimed(t, c, table, "c")
	hear()
	return second > first
}

// entersWithout enters although a peer has not acked, as a client that takes it for dead. A row of the peer that was still on its way undoes
// that, and the client looks again.
func entersWithout(t *testing.T, conn *pgx.Conn, ticket int64, peer int) {
	t.Helper()
	eventually(t, "enters without node "+itoa(int64(peer)), func() bool {
		heartbeat := get[string](t, conn, "SELECT heartbeat FROM bakery.waiting($1) WHERE node = $2", ticket, peer)
		return get[bool](t, conn, "SELECT bakery.enter($1, $2, $3)", ticket, []int{peer}, []string{heartbeat})
	})
}

// holderDefersASmallerTicket: node 1 has entered without node 2, which was silent, and then the smaller ticket of node 2 arrives.
func holderDefersASmallerTicket(t *testing.T, m *mesh, table string) bool {
	defer m.skewed(t, 1, -300000)()
	a, b := m.session(t, 0), m.session(t, 1)
	defer end(t, table, a, b)
	hear := m.deaf(t, 1, 0)
	first := claimed(t, a, table, "a")
	require.True(t, soon(t, func() bool { return acks(t, a, first) == 1 }), "node 3 acks")
	entersWithout(t, a, first, 2)
	second := claimed(t, b, table, "b")
	require.Less(t, second, first)
	hear()
	return !entered(t, b, second)
}

// skippedPeerIsHeardAgain: node 1 is about to enter without node 2 when a smaller ticket of node 2 arrives and is acked.
func skippedPeerIsHeardAgain(t *testing.T, m *mesh, table string) bool {
	defer m.skewed(t, 1, -300000)()
	a, b := m.session(t, 0), m.session(t, 1)
	defer end(t, table, a, b)
	hear := m.deaf(t, 1, 0)
	first := claimed(t, a, table, "a")
	require.True(t, soon(t, func() bool { return acks(t, a, first) == 1 }), "node 3 acks")
	heartbeat := get[string](t, a, "SELECT heartbeat FROM bakery.waiting($1) WHERE node = 2", first)
	second := claimed(t, b, table, "b")
	require.True(t, soon(t, func() bool { return acks(t, a, second) == 2 }), "nodes 1 and 3 ack the smaller ticket")
	in := get[bool](t, a, "SELECT bakery.enter($1, '{2}', $2)", first, []string{heartbeat})
	hear()
	return !in || !entered(t, b, second)
}

// releaseForwards: the release itself lets the next writer in, without a poke.
func releaseForwards(t *testing.T, m *mesh, table string) bool {
	a, b := m.session(t, 0), m.session(t, 1)
	defer end(t, table, a, b)
	first := acquire(t, a, table, "a")
	second := claimed(t, b, table, "b")
	m.arrived(t, 0, second)
	run(t, a, "SELECT bakery.release($1, $2)", table, first)
	return entered(t, b, second)
}
