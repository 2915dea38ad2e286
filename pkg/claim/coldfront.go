package claim

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// coldLockKey is the node-local lock that ColdFront's writers of one table
	// queue for, on a single node and on a mesh.
	coldLockKey = `hashtext('coldfront_iceberg:' || $1::text)::bigint`

	coldClaim = `SELECT coldfront._claim_iceberg_external($1::text)`

	// coldStamp tells later waiters since when the table is held.
	coldStamp = `SELECT set_config('application_name', $1::text || ' +' || extract(epoch FROM clock_timestamp())::bigint, true)`

	// coldTicket is the newest ticket of this node on the table. Only one writer of
	// a node can be past the node-local lock, so for that writer it is its own.
	coldTicket = `SELECT coalesce(max(ticket), 0) FROM coldfront.claims
 WHERE iceberg_table = $1::text AND snowflake.get_node(ticket) = current_setting('snowflake.node')::int`

	// coldHeldMesh asks for the claim row by its exact ticket.
	coldHeldMesh = `SELECT pg_backend_pid()::bigint = $3::bigint
   AND EXISTS (SELECT FROM coldfront.claims WHERE ticket = $2::bigint AND iceberg_table = $1::text)`

	// coldHeldBlind is what is left to ask where the claims may not be read: is
	// this still the session whose transaction took the claim?
	coldHeldBlind = `SELECT pg_backend_pid()::bigint = $1::bigint`

	coldHeldSingle = `SELECT pg_backend_pid()::bigint = $2::bigint AND EXISTS (
	SELECT FROM (SELECT ` + coldLockKey + ` AS h) AS k JOIN pg_locks l
	    ON l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted AND l.pid = pg_backend_pid()
	   AND l.classid = ((k.h >> 32) & 4294967295)::oid AND l.objid = (k.h & 4294967295)::oid)`
)

// coldFront claims through the ColdFront extension. The claim lives in one
// transaction: its end, however it comes about, releases.
type coldFront struct {
	registry
	server *pgServer
}

// openColdFront checks the server, the grants, and that claims will be real ones.
func openColdFront(ctx context.Context, cfg Config) (Claimer, error) {
	server, err := newServer(cfg)
	if err != nil {
		return nil, err
	}
	conn, err := server.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer server.close(ctx, conn)
	f, err := server.inspect(ctx, conn)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(server.fit(f), server.coldGrants(f)); err != nil {
		return nil, err
	}
	m, err := server.mesh(ctx, conn)
	if err != nil {
		return nil, err
	}
	if f.pooled {
		server.cfg.Logger.Warn().Str("postgres", server.where).Msg("a connection pooler stands before PostgreSQL; the claim works through it as long as it keeps a transaction on one session")
	}
	if why := m.cannotLeave(); why != "" {
		server.cfg.Logger.Warn().Str("reason", why).Msg("a wait for a claim cannot be ended before it is granted")
	}
	return &coldFront{server: server}, nil
}

// coldGrants refuses a database without the claim function, or a role that may
// not call it.
func (s *pgServer) coldGrants(f facts) error {
	switch {
	case !f.hasCold:
		return &SetupError{What: "the ColdFront extension is not installed", Where: s.where, Hint: "connect to the database that has it, or choose another claim mode"}
	case !f.coldUse:
		return &SetupError{What: "the role may not use schema coldfront", Where: s.where, Hint: "GRANT USAGE ON SCHEMA coldfront TO " + quote(s.conf.User)}
	case !f.coldExec:
		return &SetupError{What: "the role may not call coldfront._claim_iceberg_external", Where: s.where, Hint: "GRANT EXECUTE ON FUNCTION coldfront._claim_iceberg_external(text) TO " + quote(s.conf.User)}
	}
	return nil
}

// Mode returns ModeColdFront.
func (c *coldFront) Mode() Mode { return ModeColdFront }

// Acquire implements Claimer.
func (c *coldFront) Acquire(ctx context.Context, key Key, o AcquireOptions) (*Claim, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	if len(key.Namespace) != 1 {
		return nil, &SetupError{What: fmt.Sprintf("table %s has a namespace of several levels", key), Hint: "ColdFront knows namespaces of one level; claim this table in another mode"}
	}
	started := c.server.cfg.Now()
	conn, err := c.server.connect(ctx)
	if err != nil {
		return nil, refused(ctx, key, err)
	}
	held, err := c.enter(ctx, conn, key, waitOptions{AcquireOptions: o, started: started})
	if err != nil {
		c.discard(ctx, conn)
		return nil, refused(ctx, key, err)
	}
	return c.adopt(ctx, c.server.cfg, grant{
		key: key, mode: ModeColdFront, reference: held.ref, ticket: held.name(),
		started: started, lease: held.lease(c.server, conn), expires: true, term: c.server.cfg.Timing.Lease,
	})
}

// coldHeld is a claim that ColdFront has granted.
type coldHeld struct {
	ref    string
	pid    int64
	armed  bool
	ticket int64
}

// name is the ticket as text, or the server process where there is none.
func (h coldHeld) name() string {
	if h.ticket != 0 {
		return strconv.FormatInt(h.ticket, 10)
	}
	return strconv.FormatInt(h.pid, 10)
}

// lease says how this claim is checked and released. COMMIT has nothing to
// commit: it only ends the transaction, upon which ColdFront releases.
func (h coldHeld) lease(server *pgServer, conn *pgx.Conn) *pgLease {
	l := &pgLease{server: server, conn: conn, inTransaction: true, free: "COMMIT"}
	switch {
	case h.armed && h.ticket != 0:
		l.held, l.args = coldHeldMesh, []any{h.ref, h.ticket, h.pid}
	case h.armed:
		l.held, l.args = coldHeldBlind, []any{h.pid}
	default:
		l.held, l.args = coldHeldSingle, []any{h.ref, h.pid}
	}
	return l
}

// enter opens the transaction, waits for the claim in it, and reads the ticket.
func (c *coldFront) enter(ctx context.Context, conn *pgx.Conn, key Key, o waitOptions) (coldHeld, error) {
	s := c.server
	held := coldHeld{ref: key.ColdFront(s.cfg.CatalogAlias)}
	if err := s.begin(ctx, conn); err != nil {
		return held, err
	}
	f, err := s.inspect(ctx, conn)
	if err != nil {
		return held, err
	}
	if err := errors.Join(s.fit(f), s.coldGrants(f)); err != nil {
		return held, err
	}
	// Asked in this very transaction: the settings that make a claim a mesh claim
	// are those of the session that takes it.
	m, err := s.mesh(ctx, conn)
	if err != nil {
		return held, err
	}
	held.pid, held.armed = f.pid, m.armed
	w := c.newWait(conn, key, o, held)
	if m.armed {
		w.leave = newRetreat(w, m, held).leave
	}
	if err := w.run(ctx); err != nil {
		return held, s.coldError(err)
	}
	return c.granted(ctx, conn, m, held)
}

// newWait describes the wait for ColdFront's function.
func (c *coldFront) newWait(conn *pgx.Conn, key Key, o waitOptions, held coldHeld) *pgWait {
	w := &pgWait{server: c.server, key: key, conn: conn, o: o.AcquireOptions, started: o.started}
	w.block = func(ctx context.Context) error {
		_, err := conn.Exec(ctx, coldClaim, held.ref)
		return err //nolint:wrapcheck // pgWait names the key.
	}
	w.look = func(ctx context.Context, second *pgx.Conn) (view, error) {
		return lookCold(ctx, second, held)
	}
	w.leave = w.cancel
	return w
}

// granted stamps the session and learns the ticket of a claim just granted.
func (c *coldFront) granted(ctx context.Context, conn *pgx.Conn, m mesh, held coldHeld) (coldHeld, error) {
	ctx, cancel := context.WithTimeout(ctx, c.server.cfg.Timing.Verify)
	defer cancel()
	if _, err := conn.Exec(ctx, coldStamp, c.server.holder); err != nil {
		return held, fmt.Errorf("stamp claim %s: %w", held.ref, err)
	}
	if !m.armed || !m.readable {
		return held, nil
	}
	if err := conn.QueryRow(ctx, coldTicket, held.ref).Scan(&held.ticket); err != nil {
		return held, fmt.Errorf("read ticket of claim %s: %w", held.ref, err)
	}
	if held.ticket == 0 {
		return held, fmt.Errorf("read ticket of claim %s: ColdFront granted it but shows no claim of this node", held.ref)
	}
	return held, nil
}

// begin opens the claim's transaction. Every setting is local to it, so that it
// works through a pooler and nothing is left to the next user of the session.
// READ COMMITTED is named because under a stricter default the claim would see no
// peer's answer and hold a snapshot for its whole life.
func (s *pgServer) begin(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timing.Connect)
	defer cancel()
	sql := fmt.Sprintf(`BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = %d;
SET LOCAL client_connection_check_interval = %d;
%s
SELECT set_config('transaction_timeout', '0', true) WHERE current_setting('server_version_num')::int >= %d`,
		s.cfg.Timing.Lease.Milliseconds(), s.cfg.Timing.ConnectionCheck.Milliseconds(), keepalives("SET LOCAL"), transactionTimeoutServer)
	if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		return fmt.Errorf("begin claim transaction at PostgreSQL %s: %w", s.where, err)
	}
	return nil
}

// coldError turns a missing grant deep inside ColdFront's function into something
// an operator can act upon.
func (s *pgServer) coldError(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42501" {
		return &SetupError{What: "ColdFront's claim function was denied a right it needs", Where: s.where, Hint: "grant the role what the message names", Err: err}
	}
	return err
}

// discard ends a transaction whose wait failed. If the claim was granted after
// all, the rollback releases it before Acquire returns.
func (c *coldFront) discard(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.server.cfg.Timing.Release)
	defer cancel()
	if !conn.IsClosed() {
		// If this fails, closing the connection does the same a moment later.
		_, _ = conn.Exec(ctx, "ROLLBACK")
	}
	c.server.close(ctx, conn)
}
