package claim_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/claim"
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
func history(t *testing.T, db *testenv.Database, table string) []step {
	t.Helper()
	rows, err := db.Conn(t).Query(t.Context(),
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

// TestBakeryHistoryFollowsTheRules runs writers, some of whose sessions are ended, with tracing on and checks what the nodes wrote down:
// one holder at a time, in ticket order, every ack justified, and no commit under a claim that was withdrawn.
func TestBakeryHistoryFollowsTheRules(t *testing.T) {
	dbs := bakeryMesh(t, 3, 18)
	var dsns []string
	for _, db := range dbs {
		db.Exec(t, "UPDATE bakery.self SET tracing = true")
		dsns = append(dsns, db.DSN)
	}
	key := claim.Key{Realm: "lake", Namespace: []string{"s"}, Table: "traced"}
	writers, h := newWriters(t, dsns, 2, 10*time.Second)
	for _, w := range writers {
		w.key, w.stubborn = key, true
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for i := 0; pause(ctx, 300*time.Millisecond); i++ {
			//nolint:contextcheck // The harness bounds its statements itself.
			dbs[i%3].Exec(t, "SELECT pg_terminate_backend(c.pid) FROM bakery.claims c JOIN bakery.self s ON s.node = c.node LIMIT 1")
		}
	}()
	require.NoError(t, runWriters(ctx, 30, writers))
	stop()
	h.requireSound(t)
	var histories [][]step
	for _, db := range dbs {
		steps := history(t, db, key.String())
		histories = append(histories, steps)
		require.Positive(t, requireJustifiedAcks(t, steps))
	}
	all := tenures(histories)
	require.GreaterOrEqual(t, len(all), 180)
	ended := map[int64]string{}
	for i, x := range all {
		ended[x.ticket] = x.end
		if i == 0 {
			continue
		}
		before := all[i-1]
		require.Less(t, before.ticket, x.ticket, "%+v after %+v", x, before)
		require.False(t, x.from.Before(before.to), "%+v entered before %+v ended", x, before)
	}
	for _, c := range h.commits {
		if !c.torn {
			// A session that is ended after the commit and before the release leaves its claim to be reaped.
			require.Contains(t, []string{"release", "reap"}, ended[c.ticket], "%+v", c)
		}
	}
}
