package claim_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// step is one line of a node's trace.
type step struct {
	Step   int64
	At     time.Time
	Node   int
	Event  string
	Ticket int64
	Peer   int
}

// history reads what a node wrote down about a table.
func history(t *testing.T, dsn, table string) []step {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	require.NoError(t, err)
	defer conn.Close(context.Background()) //nolint:errcheck // The session is not used again.
	rows, err := conn.Query(context.Background(),
		"SELECT step, at, node, event, coalesce(ticket, 0), coalesce(peer, 0) FROM bakery.trace WHERE table_name = $1 ORDER BY step", table)
	require.NoError(t, err)
	steps, err := pgx.CollectRows(rows, pgx.RowToStructByPos[step])
	require.NoError(t, err)
	return steps
}

// ends are the events after which a claim is no more.
var ends = []string{"release", "withdraw", "reap", "force"}

// requireJustifiedAcks replays one node: when it acked a ticket, no claim of its own had entered or stood before it.
func requireJustifiedAcks(t *testing.T, steps []step) (acked int) {
	t.Helper()
	open := map[int64]bool{} // The node's own claims, and whether they have entered.
	for _, s := range steps {
		switch {
		case s.Event == "claim":
			open[s.Ticket] = false
		case s.Event == "enter":
			open[s.Ticket] = true
		case slices.Contains(ends, s.Event):
			delete(open, s.Ticket)
		case s.Event == "ack":
			acked++
			for own, entered := range open {
				// A release or withdrawal forwards before it is written down.
				if !endsNext(steps, s.Step, own) {
					require.False(t, entered || own < s.Ticket, "%+v while %d (entered %t) was open", s, own, entered)
				}
			}
		}
	}
	return acked
}

// endsNext tells whether the first step after the given one that is no ack ends the claim.
func endsNext(steps []step, after, ticket int64) bool {
	for _, s := range steps {
		if s.Step > after && s.Event != "ack" {
			return s.Ticket == ticket && slices.Contains(ends, s.Event)
		}
	}
	return false
}

// tenure is the time from a claim's enter to its end.
type tenure struct {
	ticket   int64
	from, to time.Time
	end      string
}

// tenures lists the claims that entered, by the time they did. The nodes share one clock here.
func tenures(histories [][]step) []tenure {
	var all []tenure
	for _, steps := range histories {
		entered := map[int64]time.Time{}
		for _, s := range steps {
			if s.Event == "enter" {
				entered[s.Ticket] = s.At
			}
			if from, ok := entered[s.Ticket]; ok && slices.Contains(ends, s.Event) {
				all = append(all, tenure{s.Ticket, from, s.At, s.Event})
				delete(entered, s.Ticket)
			}
		}
	}
	slices.SortFunc(all, func(a, b tenure) int { return a.from.Compare(b.from) })
	return all
}

// requireCovered checks that every commit landed under its own claim and that nobody else entered before it had. Through faults that is
// what remains of "one holder at a time": the row of a claim whose writer is cut off stays longer than the claim is good for.
func requireCovered(t *testing.T, commits []*commit, all []tenure) (covered int) {
	t.Helper()
	for _, c := range commits {
		if c.torn {
			continue
		}
		own := slices.IndexFunc(all, func(x tenure) bool { return x.ticket == c.Ticket })
		require.GreaterOrEqual(t, own, 0, "%+v was committed under a claim that never entered or never ended", c)
		require.False(t, c.landed.Before(all[own].from) || c.landed.After(all[own].to), "%+v landed outside of %+v", c, all[own])
		if own+1 < len(all) {
			require.False(t, all[own+1].from.Before(c.landed), "%+v entered before %+v had landed", all[own+1], c)
		}
		covered++
	}
	return covered
}

// requireHistory checks what the nodes wrote down about the table of a siege.
func (s *siege) requireHistory(t *testing.T) {
	t.Helper()
	var histories [][]step
	for _, dsn := range s.dsns() {
		steps := history(t, dsn, s.key.String())
		require.Positive(t, requireJustifiedAcks(t, steps))
		histories = append(histories, steps)
	}
	s.head.mu.Lock()
	defer s.head.mu.Unlock()
	require.Positive(t, requireCovered(t, s.head.commits, tenures(histories)))
}

// TestBakeryHistoryFollowsTheRules runs writers, some of whose sessions are ended, with tracing on and checks what the nodes wrote down:
// one holder at a time, in ticket order, every ack justified, and no commit under a claim that was withdrawn. The tests with other
// faults check the same, as far as it holds for writers that are cut off.
func TestBakeryHistoryFollowsTheRules(t *testing.T) {
	t.Parallel()
	dbs := bakeryMesh(t, 3, 18)
	var dsns []string
	for _, db := range dbs {
		db.Exec(t, "UPDATE bakery.self SET tracing = true")
		dsns = append(dsns, db.DSN)
	}
	key := faultKey("traced")
	writers, h := newWriters(t, dsns, 2, 20*time.Second)
	for _, w := range writers {
		w.key, w.stubborn = key, true
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; pause(ctx, 200*time.Millisecond); i++ {
			//nolint:contextcheck // The harness bounds its statements itself.
			dbs[i%3].Exec(t, "SELECT pg_terminate_backend(c.pid) FROM bakery.claims c JOIN bakery.self s ON s.node = c.node LIMIT 1")
		}
	}()
	require.NoError(t, runWriters(ctx, 20, writers))
	stop()
	<-ended
	h.requireSound(t)
	var histories [][]step
	for _, dsn := range dsns {
		steps := history(t, dsn, key.String())
		histories = append(histories, steps)
		require.Positive(t, requireJustifiedAcks(t, steps))
	}
	all := tenures(histories)
	require.GreaterOrEqual(t, requireCovered(t, h.commits, all), 120)
	requireOneByOne(t, h.commits, all)
}

// requireOneByOne checks that no two claims were entered at once, that they entered in ticket order, and that none was committed under
// that was withdrawn.
func requireOneByOne(t *testing.T, commits []*commit, all []tenure) {
	t.Helper()
	ended := map[int64]string{}
	for i, x := range all {
		ended[x.ticket] = x.end
		if i > 0 {
			before := all[i-1]
			require.Less(t, before.ticket, x.ticket, "%+v after %+v", x, before)
			require.False(t, x.from.Before(before.to), "%+v entered before %+v ended", x, before)
		}
	}
	for _, c := range commits {
		if !c.torn {
			// A session that is ended after the commit and before the release leaves its claim to be reaped.
			require.Contains(t, []string{"release", "reap"}, ended[c.Ticket], "%+v", c)
		}
	}
}
