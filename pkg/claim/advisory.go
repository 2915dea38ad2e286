package claim

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// advisoryKey computes the lock's key from the table's, in the way any other
// writer can with plain SQL.
const advisoryKey = `hashtextextended('iceberg:' || $1::text, 0)`

const (
	// advisoryLock blocks in PostgreSQL's queue and then stamps the session with
	// the time of the grant, by the server's clock, for those who wait next.
	advisoryLock = `WITH granted AS MATERIALIZED (SELECT pg_advisory_lock(` + advisoryKey + `))
SELECT set_config('application_name', $2::text || ' +' || extract(epoch FROM clock_timestamp())::bigint, false) FROM granted`

	// advisoryHeld is true when the very server process that was granted the lock
	// still has it; behind a pooler that switched sessions it is false.
	advisoryHeld = `SELECT pg_backend_pid()::bigint = $2::bigint AND EXISTS (
	SELECT FROM (SELECT ` + advisoryKey + ` AS h) AS k JOIN pg_locks l
	    ON l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted AND l.pid = pg_backend_pid()
	   AND l.classid = ((k.h >> 32) & 4294967295)::oid AND l.objid = (k.h & 4294967295)::oid)`

	advisoryFree = `SELECT pg_advisory_unlock(` + advisoryKey + `)`
)

// advisory claims with a session-level advisory lock of one PostgreSQL.
type advisory struct {
	registry
	server *pgServer
}

// openAdvisory checks the server and the way to it.
func openAdvisory(ctx context.Context, cfg Config) (Claimer, error) {
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
	return &advisory{server: server}, nil
}

// direct refuses a pooler, unless the operator says that it keeps sessions.
func (s *pgServer) direct(f facts) error {
	if !f.pooled || s.cfg.Pooler == PoolerSession {
		return nil
	}
	return &SetupError{
		What:  "a connection pooler stands between us and PostgreSQL",
		Where: s.where,
		Hint:  "a lock of a session needs that session: connect directly, or, if the pooler keeps sessions, set claim.pooler to session",
	}
}

// Mode returns ModeAdvisory.
func (a *advisory) Mode() Mode { return ModeAdvisory }

// Acquire implements Claimer.
func (a *advisory) Acquire(ctx context.Context, key Key, o AcquireOptions) (*Claim, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	started := a.server.cfg.Now()
	conn, err := a.server.connect(ctx)
	if err != nil {
		return nil, refused(ctx, key, err)
	}
	pid, err := a.lock(ctx, conn, key, waitOptions{AcquireOptions: o, started: started})
	if err != nil {
		a.discard(ctx, conn)
		return nil, refused(ctx, key, err)
	}
	l := &pgLease{
		server: a.server, conn: conn,
		held: advisoryHeld, args: []any{key.String(), pid},
		free: advisoryFree, freeArgs: []any{key.String()},
	}
	return a.adopt(ctx, a.server.cfg, grant{
		key: key, mode: ModeAdvisory, reference: key.String(), ticket: strconv.FormatInt(pid, 10),
		started: started, lease: l, expires: true, term: a.server.cfg.Timing.Lease,
	})
}

// lock prepares the session and waits. It returns the server process that has the
// lock.
func (a *advisory) lock(ctx context.Context, conn *pgx.Conn, key Key, o waitOptions) (int64, error) {
	f, err := a.server.inspect(ctx, conn)
	if err != nil {
		return 0, err
	}
	// Asked again for each claim: what a DSN leads to may have changed since Open.
	if err := a.server.fit(f); err != nil {
		return 0, err
	}
	if err := a.server.direct(f); err != nil {
		return 0, err
	}
	if err := a.server.settings(ctx, conn); err != nil {
		return 0, err
	}
	query := lookSQL(advisoryKey)
	w := &pgWait{server: a.server, key: key, conn: conn, o: o.AcquireOptions, started: o.started}
	w.block = func(ctx context.Context) error {
		_, err := conn.Exec(ctx, advisoryLock, key.String(), a.server.holder)
		return err //nolint:wrapcheck // pgWait names the key.
	}
	w.look = func(ctx context.Context, second *pgx.Conn) (view, error) {
		row, err := lookAt(ctx, second, query, key.String(), f.pid)
		return row.view(), err
	}
	w.leave = w.cancel
	return f.pid, w.run(ctx)
}

// settings makes the session a lease: the server ends it when its client stands
// still, and nothing the role or database has set ends it earlier.
func (s *pgServer) settings(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timing.Connect)
	defer cancel()
	sql := fmt.Sprintf(`SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0;
SET idle_session_timeout = %d; SET client_connection_check_interval = %d; %s`,
		s.cfg.Timing.Lease.Milliseconds(), s.cfg.Timing.ConnectionCheck.Milliseconds(), keepalives("SET"))
	if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		return fmt.Errorf("set session timeouts at PostgreSQL %s: %w", s.where, err)
	}
	return nil
}

// keepalives lets the server notice within half a minute that a client's machine
// is gone; on a Unix socket the settings have no effect.
func keepalives(set string) string {
	return fmt.Sprintf("%[1]s tcp_keepalives_idle = 10; %[1]s tcp_keepalives_interval = 5; %[1]s tcp_keepalives_count = 4;", set)
}

// discard ends a session whose wait failed. A grant that crossed with the giving
// up is given back first, so that it is free when Acquire returns.
func (a *advisory) discard(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.server.cfg.Timing.Release)
	defer cancel()
	if !conn.IsClosed() {
		// If this fails, closing the connection does the same a moment later.
		_, _ = conn.Exec(ctx, "SELECT pg_advisory_unlock_all()")
	}
	a.server.close(ctx, conn)
}
