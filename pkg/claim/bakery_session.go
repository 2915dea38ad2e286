package claim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// bakerySession is one claim, or the wait for one, in the session that owns the node-local lock. One goroutine uses it at a time:
// Acquire's, and then the keeper's, whose lease it is.
type bakerySession struct {
	*bakery
	conn *pgx.Conn
	key  Key
	o    waitOptions

	ticket int64
	// sent holds when each poke of the ticket was sent; poke 0 is the claim itself.
	sent map[int64]time.Time
	// poked is when the last one was sent.
	poked time.Time
	// peers are the registered peers, as of the last look.
	peers []peerView
	// acked collects the nodes whose acks were announced for the ticket.
	acked map[int]bool
	// hello is the number of the last question for the peers' floors.
	hello int64
	// toldAt is when OnWait was called last.
	toldAt time.Time
}

// peerView is what one look says about a peer.
type peerView struct {
	node         int
	name         string
	acked        bool
	heartbeat    string
	poke         *int64
	reach        map[string]string
	behindTicket *int64
	behindHolder *string
	behindFor    time.Duration
}

func newBakerySession(b *bakery, conn *pgx.Conn, key Key, o waitOptions) *bakerySession {
	return &bakerySession{bakery: b, conn: conn, key: key, o: o, sent: map[int64]time.Time{}, acked: map[int]bool{}}
}

// lookQuery pokes when $2 is true and reads all there is to know about a ticket or hello, in one round trip.
const lookQuery = `WITH own AS MATERIALIZED (
  SELECT CASE WHEN $2::boolean THEN bakery.poke($1::bigint) END AS poke, bakery.holding($1::bigint) AS holding)
SELECT own.poke, own.holding, w.node, w.name, w.acked, w.heartbeat, w.poke, w.reach, w.behind_ticket, w.behind_holder,
       extract(epoch FROM clock_timestamp() - w.behind_since)::float8
  FROM own LEFT JOIN bakery.waiting($1::bigint) w ON true`

// look asks about a ticket or hello, with or without a poke, and updates beliefs and peers. It returns whether the claim is an entered
// one of ours, and with a poke whether it is there at all.
func (s *bakerySession) look(ctx context.Context, about int64, poke bool) (holding, there bool, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	sent := s.server.cfg.Now()
	rows, err := s.conn.Query(ctx, lookQuery, about, poke)
	if err != nil {
		return false, false, fmt.Errorf("look at ticket %d: %w", about, err)
	}
	defer rows.Close()
	var number *int64
	s.peers = s.peers[:0]
	for rows.Next() {
		p, known, err := scanPeer(rows, &number, &holding)
		if err != nil {
			return false, false, fmt.Errorf("read look at ticket %d: %w", about, err)
		}
		if known {
			s.peers = append(s.peers, p)
		}
	}
	if err := rows.Err(); err != nil {
		return false, false, fmt.Errorf("look at ticket %d: %w", about, err)
	}
	if number != nil {
		s.sent[*number], s.poked = sent, sent
	}
	s.learn(sent)
	return holding, number != nil, nil
}

// scanPeer reads one row of lookQuery; known is false for the single row of a mesh of one.
func scanPeer(rows pgx.Rows, number **int64, holding *bool) (p peerView, known bool, err error) {
	var (
		node   *int
		name   *string
		acked  *bool
		beat   *string
		reach  []byte
		behind *float64
	)
	err = rows.Scan(number, holding, &node, &name, &acked, &beat, &p.poke, &reach, &p.behindTicket, &p.behindHolder, &behind)
	if err != nil || node == nil {
		return p, false, err //nolint:wrapcheck // look names the ticket.
	}
	p.node, p.name, p.acked, p.heartbeat = *node, *name, *acked, *beat
	if behind != nil {
		p.behindFor = max(0, time.Duration(*behind*float64(time.Second)))
	}
	if reach != nil {
		err = json.Unmarshal(reach, &p.reach)
	}
	return p, true, err //nolint:wrapcheck // look names the ticket.
}

// bound limits one statement, and lets it end when the wait is given up meanwhile: a statement cut short would leave a claim behind.
func (s *bakerySession) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.server.cfg.Timing.Verify)
}

// ask runs a statement that returns one value.
func (s *bakerySession) ask(ctx context.Context, what string, dest any, sql string, args ...any) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if err := s.conn.QueryRow(ctx, sql, args...).Scan(dest); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// learn turns a look that was sent at that moment into beliefs.
func (s *bakerySession) learn(sent time.Time) {
	for _, p := range s.peers {
		s.beliefs.saw(p.node, p.heartbeat, sent)
		if at, ok := s.sent[0]; ok && p.acked {
			s.beliefs.reached(p.node, at)
		}
		if p.poke == nil {
			continue
		}
		at, ok := s.sent[*p.poke]
		if !ok {
			continue
		}
		s.beliefs.reached(p.node, at)
		for of, heartbeat := range p.reach {
			if node, err := strconv.Atoi(of); err == nil {
				s.beliefs.reported(p.node, node, heartbeat, at)
			}
		}
	}
}

// nodes returns the numbers of all peers.
func (s *bakerySession) nodes() []int {
	nodes := make([]int, len(s.peers))
	for i, p := range s.peers {
		nodes[i] = p.node
	}
	return nodes
}

// leased tells whether a majority was in contact within half a window. With the operator's word that silent nodes are down there is no
// majority to be in contact with.
func (s *bakerySession) leased() bool {
	return s.off&protectLease != 0 || s.majority(s.server.cfg.Window/2)
}

// majority tells whether this node and the peers it was in contact with within the given time are a majority.
func (s *bakerySession) majority(within time.Duration) bool {
	return s.server.cfg.DeadPeer == DeadPeerEscape || s.off&protectMajority != 0 || s.beliefs.majority(s.nodes(), within)
}

// skippable tells whether the claim may go on without the peer's ack.
func (s *bakerySession) skippable(p peerView) bool {
	window := s.server.cfg.Window
	switch {
	case s.beliefs.silence(p.node) < window || s.server.cfg.DeadPeer == DeadPeerWait:
		return false
	case s.server.cfg.DeadPeer == DeadPeerEscape:
		return true
	}
	return s.majority(window/2) && (s.off&protectAgreement != 0 || s.beliefs.unreached(p.node, s.nodes(), window))
}

// claim draws a ticket and inserts the claim; the session owns the node-local lock.
func (s *bakerySession) claim(ctx context.Context) error {
	sent := s.server.cfg.Now()
	clear(s.sent)
	clear(s.acked)
	err := s.ask(ctx, "insert claim", &s.ticket, "SELECT bakery.claim($1::text, $2::text)", s.key.String(), s.server.holder)
	if err != nil {
		return err
	}
	s.sent[0], s.poked = sent, sent
	return nil
}

// enter tries to enter without the peers that may be skipped.
func (s *bakerySession) enter(ctx context.Context) (entered bool, err error) {
	skip, heartbeats := []int32{}, []string{}
	for _, p := range s.peers {
		if !p.acked && s.skippable(p) {
			skip, heartbeats = append(skip, int32(p.node)), append(heartbeats, p.heartbeat)
		}
	}
	err = s.ask(ctx, "enter", &entered, "SELECT bakery.enter($1::bigint, $2::integer[], $3::text[])", s.ticket, skip, heartbeats)
	return entered, err
}

// withdraw gives the claim up and keeps the node-local lock.
func (s *bakerySession) withdraw(ctx context.Context) error {
	var was bool
	err := s.ask(ctx, "withdraw claim", &was, "SELECT bakery.withdraw($1::bigint)", s.ticket)
	s.ticket = 0
	return err
}

// check implements lease: the claim is there, entered and ours, and a majority of the nodes was in contact within half a window. Without
// that contact the claim is not withdrawn here: the keeper does it when no commit can be under way.
func (s *bakerySession) check(ctx context.Context) error {
	due := s.server.cfg.Now().Sub(s.poked) >= s.server.cfg.Timing.Probe/2
	holding, _, err := s.look(ctx, s.ticket, due)
	if err != nil {
		return fmt.Errorf("ask PostgreSQL %s: %w", s.server.where, err)
	}
	if !holding {
		return errNotOurs
	}
	switch {
	case s.leased():
	case s.off&protectFlight != 0:
		return errNotOurs
	default:
		return fmt.Errorf("%w for %s", errOutOfContact, s.server.cfg.Window/2)
	}
	maps.DeleteFunc(s.sent, func(_ int64, at time.Time) bool { return s.poked.Sub(at) > 2*s.server.cfg.Window })
	return nil
}

// idle implements lease.
func (s *bakerySession) idle(ctx context.Context) error {
	return (&pgLease{server: s.server, conn: s.conn}).idle(ctx)
}

// release implements lease: the claim's end and the acks that it frees are one transaction. The session is kept for the next claim;
// after an error it is closed, which frees the table as well.
func (s *bakerySession) release(ctx context.Context) error {
	if _, err := s.conn.Exec(ctx, "SELECT bakery.release($1::text, $2::bigint)", s.key.String(), s.ticket); err != nil {
		s.server.close(ctx, s.conn)
		return fmt.Errorf("release claim at PostgreSQL %s: %w", s.server.where, err)
	}
	s.pool.put(ctx, s.conn)
	return nil
}

// abandon implements lease. The server ends the session and with it the lock; the next claim of the node or the next poke of a waiter
// deletes the claim.
func (s *bakerySession) abandon() { (&pgLease{server: s.server, conn: s.conn}).abandon() }

// discard ends the session of a wait that failed. What it has is given back first, if the server still listens.
func (s *bakerySession) discard(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.server.cfg.Timing.Release)
	defer cancel()
	if !s.conn.IsClosed() {
		// If this fails, closing the connection does the same a moment later.
		_, _ = s.conn.Exec(ctx, "SELECT bakery.release($1::text, $2::bigint), bakery.goodbye()", s.key.String(), s.ticket)
	}
	s.server.close(ctx, s.conn)
}

// listen waits for announcements about a ticket or hello until the time is over or ctx ends. With enough set it returns at once when
// every ack is announced, otherwise after the first announcement.
func (s *bakerySession) listen(ctx context.Context, about int64, limit time.Duration, enough bool) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	prefix := strconv.FormatInt(about, 10) + " "
	for !enough || !s.announced() {
		n, err := s.conn.WaitForNotification(bounded)
		if err != nil {
			if bounded.Err() != nil && !s.conn.IsClosed() {
				break
			}
			return fmt.Errorf("connection to PostgreSQL %s ended: %w", s.server.where, err)
		}
		if acker, ours := strings.CutPrefix(n.Payload, prefix); ours {
			if node, err := strconv.Atoi(acker); err == nil {
				s.acked[node] = true
			}
			enough = true
		}
	}
	return ctx.Err() //nolint:wrapcheck // ended gives the reason.
}

// errAgain says that a claim was withdrawn and has to be made anew.
var errAgain = errors.New("the claim was withdrawn")
