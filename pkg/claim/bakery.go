package claim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// DeadPeer says what a writer in mode bakery does about a node that shows no sign of life.
type DeadPeer string

// The policies. All writers of a mesh should use the same one.
const (
	// DeadPeerQuorum goes on without the node once its heartbeat has stood still for a window, this node and those it is in contact
	// with are a majority, and none of them still reaches it. Of two nodes neither is a majority: the other waits.
	DeadPeerQuorum DeadPeer = "quorum"
	// DeadPeerWait waits until the node comes back or is removed from the mesh.
	DeadPeerWait DeadPeer = "wait"
	// DeadPeerEscape goes on without the node after a window, majority or not. It is the operator's word that the node is down: when it
	// is only cut off, both sides may hold the table, and only the catalog's compare-and-swap keeps it right.
	DeadPeerEscape DeadPeer = "escape"
)

// defaultWindow is how long a peer's heartbeat may stand still before it may be skipped.
const defaultWindow = 20 * time.Second

// bakery claims with the schema of package claim/bakery: the node-local lock is an advisory lock of one session, the claim a row that
// replication carries to the peers, who ack it.
type bakery struct {
	registry
	server  *pgServer
	beliefs *beliefs
	pool    *bakeryPool
	// off takes protections away, so that tests can see what each is for. It is empty in every build but the tests'.
	off protection
}

// protection is a set of rules that a writer follows beyond asking for acks.
type protection uint8

const (
	// protectMajority: skip only while a majority is in contact.
	protectMajority protection = 1 << iota
	// protectAgreement: skip only whom no peer in contact reaches.
	protectAgreement
	// protectLease: withdraw after half a window without a majority.
	protectLease
	// protectResync: draw no ticket before a majority has told its floor.
	protectResync
	// protectFlight: keep a claim whose lease is over while a commit may be under way.
	protectFlight
)

// openBakery checks the server, the way to it, the schema and the grants.
func openBakery(ctx context.Context, cfg Config) (Claimer, error) {
	// A held claim is looked at once a beat, and a yes is worth half a window. Within that time neither may the server end a silent
	// session nor this side give up a silent server, because either would free the table while a commit may be under way.
	cfg.Timing.Probe = beat(cfg.Window)
	cfg.Timing.Lease, cfg.Timing.Verify = max(cfg.Timing.Lease, cfg.Window/2), max(cfg.Timing.Verify, cfg.Window/2)
	server, err := newServer(cfg)
	if err != nil {
		return nil, err
	}
	f, err := server.probe(ctx)
	if err != nil {
		return nil, err
	}
	if err := server.direct(f); err != nil {
		return nil, err
	}
	if !f.hasOurs {
		return nil, &SetupError{What: "schema bakery is not installed", Where: server.where, Hint: "run: compactor claim install"}
	}
	b := &bakery{server: server, beliefs: newBeliefs(cfg.Now), pool: &bakeryPool{server: server, keep: cfg.Timing.Lease / 3}}
	conn, err := server.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer server.close(ctx, conn)
	if err := server.granted(ctx, conn, writerRole, claimFunctions()); err != nil {
		return nil, err
	}
	if err := b.prepare(ctx, conn); err != nil {
		return nil, err
	}
	return b, b.probe(ctx, conn)
}

// beat is the pause between two pokes.
func beat(window time.Duration) time.Duration { return min(500*time.Millisecond, window/20) }

// probe sweeps, which tells whether the node can work and tidies up what an earlier crash has left.
func (b *bakery) probe(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, b.server.cfg.Timing.Connect)
	defer cancel()
	if _, err := conn.Exec(ctx, "SELECT bakery.sweep()"); err != nil {
		return b.classify(fmt.Errorf("sweep at PostgreSQL %s: %w", b.server.where, err))
	}
	return nil
}

// Mode returns ModeBakery.
func (b *bakery) Mode() Mode { return ModeBakery }

// Acquire implements Claimer.
func (b *bakery) Acquire(ctx context.Context, key Key, o AcquireOptions) (*Claim, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	started := b.server.cfg.Now()
	if o.Timeout > 0 {
		bounded, cancel := context.WithTimeoutCause(ctx, o.Timeout, errTimeout)
		defer cancel()
		return b.acquire(ctx, bounded, key, waitOptions{AcquireOptions: o, started: started})
	}
	return b.acquire(ctx, ctx, key, waitOptions{AcquireOptions: o, started: started})
}

// errTimeout is the cause with which the bounded context of a wait ends.
var errTimeout = errors.New("the claim's timeout passed")

// acquire waits under bounded and binds the claim to ctx. A claim whose lease ends between entering and its confirmation, because this
// process or its node stood still, is given up and asked for again, as in the middle of the wait.
func (b *bakery) acquire(ctx, bounded context.Context, key Key, o waitOptions) (*Claim, error) {
	for {
		held, err := b.attempt(ctx, bounded, key, o)
		if bounded.Err() != nil || !errors.Is(err, errOutOfContact) && !errors.Is(err, errStoodStill) {
			return held, err
		}
		b.server.cfg.Logger.Debug().Str("table", key.String()).Err(err).Msg("claim not confirmed")
	}
}

// attempt waits in a session of its own.
func (b *bakery) attempt(ctx, bounded context.Context, key Key, o waitOptions) (*Claim, error) {
	// The timeout is for the wait; a session that takes longer to open still finds out who is in the way.
	s, err := b.session(ctx, key, o)
	if err != nil {
		return nil, refused(ctx, key, b.classify(err))
	}
	if err := s.wait(ctx, bounded); err != nil {
		s.discard(ctx)
		return nil, b.classify(err)
	}
	return b.adopt(ctx, b.server.cfg, grant{
		key: key, mode: ModeBakery, reference: key.String(), ticket: strconv.FormatInt(s.ticket, 10),
		started: o.started, lease: s, expires: true, term: b.server.cfg.Window / 2,
	})
}

// prepare makes a session fit for a claim. Settings that a role or database may carry are overruled:
// what cancels a statement would leave a claim behind, and what changes the isolation would show the past.
func (b *bakery) prepare(ctx context.Context, conn *pgx.Conn) error {
	f, err := b.server.inspect(ctx, conn)
	if err != nil {
		return err
	}
	// Asked again for each claim: what a DSN leads to may have changed since Open.
	if err := errors.Join(b.server.fit(f), b.server.direct(f)); err != nil {
		return err
	}
	if err := b.server.settings(ctx, conn); err != nil {
		return err
	}
	const own = `SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off; LISTEN bakery`
	if _, err := conn.PgConn().Exec(ctx, own).ReadAll(); err != nil {
		return fmt.Errorf("prepare session at PostgreSQL %s: %w", b.server.where, err)
	}
	var state string
	err = conn.QueryRow(ctx, "SELECT n.state FROM bakery.node() n").Scan(&state)
	if errors.Is(err, pgx.ErrNoRows) || (err == nil && state != "active") {
		return &SetupError{What: "this database is no active node of a mesh", Where: b.server.where,
			Hint: "run: compactor claim install"}
	}
	if err != nil {
		return b.classify(fmt.Errorf("read node at PostgreSQL %s: %w", b.server.where, err))
	}
	return nil
}

// classify explains errors of the schema.
func (b *bakery) classify(err error) error { return b.server.classifyBakery(err) }
