package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// wait runs from the node-local lock to the entered claim. The steps, and what a failure leaves behind at each: the lock (the end of
// the session frees it); the greeting, which makes sure that a majority is in contact and that the floor is above every ticket that
// ever entered; the claim (discard deletes it, or whoever looks next); entering.
func (s *bakerySession) wait(ctx, bounded context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	for {
		err := s.attempt(bounded)
		if errors.Is(err, errAgain) {
			continue
		}
		return s.ended(ctx, bounded, err)
	}
}

// ended replaces the error of a statement that was cut short by the reason for it.
func (s *bakerySession) ended(ctx, bounded context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("acquire claim %s: %w", s.key, context.Cause(ctx))
	case bounded.Err() != nil:
		v := s.view()
		return &HeldError{Key: s.key, Holder: v.holder, HeldFor: v.heldFor, Detail: v.detail, Waited: s.server.cfg.Now().Sub(s.o.started)}
	}
	return fmt.Errorf("acquire claim %s: %w", s.key, err)
}

// lock waits for the node-local lock in PostgreSQL's queue, while a second connection looks at who has it.
func (s *bakerySession) lock(ctx context.Context) error {
	pid := int64(s.conn.PgConn().PID())
	query := lookSQL(bakeryOwnerKey)
	w := &pgWait{server: s.server, key: s.key, conn: s.conn, o: s.o.AcquireOptions, started: s.o.started}
	w.block = func(ctx context.Context) error {
		_, err := s.conn.Exec(ctx, "SELECT bakery.lock($1::text)", s.key.String())
		return err //nolint:wrapcheck // pgWait names the key.
	}
	w.look = func(ctx context.Context, second *pgx.Conn) (view, error) {
		row, err := lookAt(ctx, second, query, s.key.String(), pid)
		if err != nil {
			return view{}, err
		}
		v := row.view()
		var holder string
		var since *float64
		err = second.QueryRow(ctx, "SELECT o.holder, extract(epoch FROM clock_timestamp() - o.since)::float8 FROM bakery.local_owner($1::text) o",
			s.key.String()).Scan(&holder, &since)
		if err == nil && since != nil {
			v.holder, v.heldFor = fmt.Sprintf("%s (server process %d)", holder, row.pid), time.Duration(*since*float64(time.Second))
		}
		return v, nil
	}
	w.leave = w.cancel
	return w.run(ctx)
}

// attempt greets if need be, claims, and waits for the acks. errAgain means that the claim was withdrawn.
func (s *bakerySession) attempt(ctx context.Context) error {
	if err := s.greet(ctx); err != nil {
		return err
	}
	if err := s.claim(ctx); err != nil {
		return err
	}
	if !s.leased() {
		return s.again(ctx, "the claim took too long to insert")
	}
	claimed := s.server.cfg.Now()
	for first := true; ; first = false {
		// After a look that did not let us in, something has to happen first.
		if err := s.listen(ctx, s.ticket, s.pause(), first); err != nil {
			return err
		}
		entered, err := s.advance(ctx)
		if err != nil || entered {
			return err
		}
		s.tell()
		if reason := s.hopeless(s.server.cfg.Now().Sub(claimed)); reason != "" {
			return s.yield(ctx, reason)
		}
	}
}

// advance looks, pokes when it is time, and enters when it may.
func (s *bakerySession) advance(ctx context.Context) (entered bool, err error) {
	due := s.server.cfg.Now().Sub(s.poked) >= s.server.cfg.Timing.Probe
	_, there, err := s.look(ctx, s.ticket, due)
	switch {
	case err != nil:
		return false, err
	case due && !there:
		return false, errAgain // An operator deleted the claim.
	case !s.leased():
		return false, s.again(ctx, "no contact with a majority")
	case !s.complete():
		return false, nil
	}
	return s.enter(ctx)
}

// pause is how long to listen before the next look.
func (s *bakerySession) pause() time.Duration {
	return max(time.Millisecond, min(100*time.Millisecond, s.server.cfg.Timing.Probe-s.server.cfg.Now().Sub(s.poked)))
}

// complete tells whether every peer has acked or may be skipped.
func (s *bakerySession) complete() bool {
	return !slices.ContainsFunc(s.peers, func(p peerView) bool { return !p.acked && !s.skippable(p) })
}

// announced tells the same by the announcements that have arrived since the last look.
func (s *bakerySession) announced() bool {
	return !slices.ContainsFunc(s.peers, func(p peerView) bool { return !p.acked && !s.acked[p.node] && !s.skippable(p) })
}

// greet asks every peer for its floor and waits for the answers of a majority, unless a majority was in contact within a quarter of a
// window: then nobody can have entered since without our node's ack.
func (s *bakerySession) greet(ctx context.Context) error {
	if s.off&protectResync != 0 {
		for _, node := range s.nodes() {
			s.beliefs.reached(node, s.server.cfg.Now())
		}
	}
	if s.beliefs.majority(s.nodes(), s.server.cfg.Window/4) {
		return ctx.Err() //nolint:wrapcheck // ended gives the reason.
	}
	for {
		clear(s.sent)
		clear(s.acked)
		sent := s.server.cfg.Now()
		if err := s.ask(ctx, "greet the peers", &s.hello, "SELECT bakery.hello($1::text)", s.key.String()); err != nil {
			return err
		}
		again := sent.Add(max(s.server.cfg.Window/8, time.Second))
		for s.server.cfg.Now().Before(again) {
			s.sent[0] = sent
			if _, _, err := s.look(ctx, s.hello, false); err != nil {
				return err
			}
			if s.met() {
				return nil
			}
			s.tell()
			if err := s.listen(ctx, s.hello, 100*time.Millisecond, false); err != nil {
				return err
			}
		}
	}
}

// met tells whether the gate is open: a majority has answered, or by the operator's word every peer that has not is silent for a window.
func (s *bakerySession) met() bool {
	if s.server.cfg.DeadPeer != DeadPeerEscape {
		return s.majority(s.server.cfg.Window / 4)
	}
	for _, p := range s.peers {
		if p.poke == nil && !s.skippable(p) {
			return false
		}
	}
	return true
}

// hopeless says why waiting on with this claim helps nobody, or nothing. A peer that lives and does not answer pokes does not know the
// claim: only a new one reaches it. A peer that is silent and may not be skipped, because others reach it, can be waited for without
// keeping those others from the table.
func (s *bakerySession) hopeless(waited time.Duration) string {
	window := s.server.cfg.Window
	if waited < window/2 {
		return ""
	}
	for _, p := range s.peers {
		if p.acked || s.skippable(p) {
			continue
		}
		switch stood := s.beliefs.silence(p.node); {
		case stood >= window:
			return fmt.Sprintf("node %s is silent and may not be skipped", p.name)
		case stood < window/4 && len(s.beliefs.inContact([]int{p.node}, window/2)) == 0:
			return fmt.Sprintf("node %s lives and does not answer", p.name)
		}
	}
	return ""
}

// again withdraws the claim.
func (s *bakerySession) again(ctx context.Context, reason string) error {
	s.server.cfg.Logger.Debug().Str("table", s.key.String()).Int64("ticket", s.ticket).Str("reason", reason).Msg("claim withdrawn")
	if err := s.withdraw(ctx); err != nil {
		return err
	}
	return errAgain
}

// yield withdraws the claim and stands back for a moment, so that others get the table.
func (s *bakerySession) yield(ctx context.Context, reason string) error {
	if err := s.again(ctx, reason); !errors.Is(err, errAgain) {
		return err
	}
	rest := time.NewTimer(s.server.cfg.Window / 8)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
	}
	return errAgain
}

// tell reports the wait, at most once per Timing.Look.
func (s *bakerySession) tell() {
	now := s.server.cfg.Now()
	if s.o.OnWait == nil || now.Sub(s.toldAt) < s.server.cfg.Timing.Look {
		return
	}
	if s.toldAt.IsZero() && now.Sub(s.o.started) < firstLook {
		return
	}
	s.toldAt = now
	v := s.view()
	s.o.OnWait(Waiting{For: now.Sub(s.o.started), Holder: v.holder, HeldFor: v.heldFor, Detail: v.detail})
}

// view puts into words which peer is in the way.
func (s *bakerySession) view() view {
	v := view{queued: true}
	for _, p := range s.peers {
		if p.acked || s.skippable(p) {
			continue
		}
		if p.behindTicket != nil {
			return view{queued: true, holder: *p.behindHolder, heldFor: p.behindFor,
				detail: fmt.Sprintf("waiting for %s: ticket %d, held by %s for %s", p.name, *p.behindTicket, *p.behindHolder, round(p.behindFor))}
		}
		detail := fmt.Sprintf("waiting for %s: no ack yet", p.name)
		if stood := s.beliefs.silence(p.node); stood > s.server.cfg.Window/4 {
			detail = fmt.Sprintf("waiting for %s: no sign of life for %s, claim.dead_peer is %s", p.name, round(stood), s.server.cfg.DeadPeer)
		}
		if v.detail == "" {
			v.detail = detail
		}
	}
	return v
}
