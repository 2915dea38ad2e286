package claim

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// mesh is what a session says about ColdFront's mesh.
type mesh struct {
	// armed says that both settings that make ColdFront's function take a mesh
	// claim are set in this session.
	armed bool
	// hasSpock says that spock's node list exists, mayList that we may read it.
	hasSpock, mayList bool
	// readable says that we may read the claims and tell which are our node's.
	readable bool
	// removable says that we may call coldfront._release_iceberg_lock.
	removable bool
}

const meshSQL = `
SELECT coalesce(current_setting('snowflake.node', true), '') <> ''
       AND coalesce(current_setting('coldfront.dblink_self', true), '') <> '',
       EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'spock' AND c.relname = 'node'),
       EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'spock' AND c.relname = 'node'
                  AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')),
       EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'coldfront' AND c.relname = 'claims'
                  AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'))
       AND EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                WHERE n.nspname = 'snowflake' AND p.proname = 'get_node'
                  AND has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE')),
       EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                WHERE n.nspname = 'coldfront' AND p.proname = '_release_iceberg_lock'
                  AND has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE'))`

// mesh reads the state of this session and refuses the silent local lock: on a
// mesh with one of the settings empty, ColdFront's function would lock this node
// only and the other nodes' writers would commit at the same time.
func (s *pgServer) mesh(ctx context.Context, conn *pgx.Conn) (mesh, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timing.Connect)
	defer cancel()
	var m mesh
	if err := conn.QueryRow(ctx, meshSQL).Scan(&m.armed, &m.hasSpock, &m.mayList, &m.readable, &m.removable); err != nil {
		return m, fmt.Errorf("inspect ColdFront at PostgreSQL %s: %w", s.where, err)
	}
	if m.armed || !m.hasSpock {
		return m, nil
	}
	const fix = "set snowflake.node and coldfront.dblink_self for the database or the role"
	if !m.mayList {
		return m, &SetupError{What: "spock is installed, ColdFront's mesh settings are empty, and the role may not read spock.node", Where: s.where, Hint: fix + ", or grant USAGE on schema spock and SELECT on spock.node"}
	}
	var nodes int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM spock.node").Scan(&nodes); err != nil {
		return m, fmt.Errorf("count nodes of the mesh at PostgreSQL %s: %w", s.where, err)
	}
	if nodes > 1 {
		return m, &SetupError{What: fmt.Sprintf("the mesh has %d nodes but ColdFront would lock this one only", nodes), Where: s.where, Hint: fix}
	}
	return m, nil
}

// cannotLeave says which right is missing to end a wait on a mesh, "" for none.
func (m mesh) cannotLeave() string {
	var missing []string
	if !m.readable {
		missing = append(missing, "SELECT on coldfront.claims and EXECUTE on snowflake.get_node")
	}
	if !m.removable {
		missing = append(missing, "EXECUTE on coldfront._release_iceberg_lock")
	}
	if !m.armed || len(missing) == 0 {
		return ""
	}
	return "the role lacks " + strings.Join(missing, " and ") + ", and a wait that is merely cancelled leaves a claim that blocks every writer"
}

// lookCold looks at the node-local queue, and on a mesh at the claims of the
// other nodes as far as the role may.
func lookCold(ctx context.Context, second *pgx.Conn, held coldHeld) (view, error) {
	row, err := lookAt(ctx, second, lookSQL(coldLockKey), held.ref, held.pid)
	if err != nil {
		return view{}, err
	}
	if row.pid != held.pid {
		return row.view(), nil
	}
	if !held.armed {
		return view{}, nil
	}
	// We have the node-local lock: what we wait for is other nodes.
	v := view{queued: true}
	var ticket int64
	if err := second.QueryRow(ctx, coldTicket, held.ref).Scan(&ticket); err != nil {
		v.detail = "waiting for other nodes; the role may not read coldfront.claims"
		return v, nil //nolint:nilerr // What cannot be read is said in the detail.
	}
	return meshView(ctx, second, held.ref, ticket, v), nil
}

const (
	// meshHolder is the oldest claim of another node that stands before ours.
	meshHolder = `SELECT snowflake.get_node(ticket), ticket FROM coldfront.claims
 WHERE iceberg_table = $1::text AND ticket <> $2::bigint
   AND snowflake.get_node(ticket) <> current_setting('snowflake.node')::int
 ORDER BY ticket LIMIT 1`

	// meshMissing lists the nodes that have not let our ticket pass.
	meshMissing = `SELECT coalesce(string_agg(n.node_name::text, ', ' ORDER BY n.node_name), '') FROM spock.node n
 WHERE n.node_id NOT IN (SELECT node_id FROM spock.local_node)
   AND NOT EXISTS (SELECT FROM coldfront.claim_acks a WHERE a.ticket = $1::bigint AND a.ack_from_name = n.node_name)`
)

// meshView names the other node that holds or the nodes that have not answered.
// What cannot be read is left out.
func meshView(ctx context.Context, second *pgx.Conn, ref string, ticket int64, v view) view {
	var node, other int64
	if err := second.QueryRow(ctx, meshHolder, ref, ticket).Scan(&node, &other); err == nil {
		v.holder = "node " + strconv.FormatInt(node, 10) + " (ticket " + strconv.FormatInt(other, 10) + ")"
	}
	var missing string
	if err := second.QueryRow(ctx, meshMissing, ticket).Scan(&missing); err == nil && missing != "" {
		v.detail = "no answer yet from " + missing
	}
	return v
}

// retreat gives up a wait on a mesh. Effects, in order, and why each point where
// this process may die is safe or who cleans up:
//
//  1. A second connection takes the table's gate, the lock under which ColdFront
//     draws a ticket and inserts its row. From now on our backend either has its
//     row or cannot get one.
//  2. It reads the ticket, while our backend holds the node-local lock: no other
//     writer of this node can have a newer row.
//  3. It cancels our backend and waits for the statement's end. A crash from here
//     on leaves the row, as a crash of any ColdFront writer does; ColdFront's next
//     claim on this node removes it.
//  4. It removes the row by its exact ticket, and only if the statement failed. If
//     the grant came first, the end of the transaction releases instead.
//  5. It lets the gate go.
type retreat struct {
	wait *pgWait
	mesh mesh
	held coldHeld
}

func newRetreat(w *pgWait, m mesh, held coldHeld) *retreat {
	return &retreat{wait: w, mesh: m, held: held}
}

const (
	// retreatGate is taken for the transaction. Its wait is bounded by retreatBegin:
	// ColdFront holds the gate for moments only.
	retreatBegin = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '2s'`
	retreatGate  = `SELECT pg_advisory_xact_lock(hashtext('coldfront_claim:' || $1::text)::bigint)`

	// retreatTicket is our ticket if our backend is past the node-local lock and
	// has inserted its row; otherwise 0.
	retreatTicket = `SELECT coalesce(max(c.ticket), 0) FROM coldfront.claims c
 WHERE c.iceberg_table = $1::text AND snowflake.get_node(c.ticket) = current_setting('snowflake.node')::int
   AND EXISTS (SELECT FROM (SELECT ` + coldLockKey + ` AS h) AS k JOIN pg_locks l
        ON l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted AND l.pid = $2
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND l.classid = ((k.h >> 32) & 4294967295)::oid AND l.objid = (k.h & 4294967295)::oid)`
	retreatRemove = `SELECT coldfront._release_iceberg_lock($1::bigint)`
)

// leave is the wait's leave function.
func (r *retreat) leave(ctx context.Context, end func() error) (leftAlone string) {
	if why := r.mesh.cannotLeave(); why != "" {
		return why
	}
	s := r.wait.server
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*s.cfg.Timing.Connect+s.cfg.Timing.Release)
	defer stop()
	second, err := s.connect(ctx)
	if err != nil {
		return "no second connection to end the wait: " + err.Error()
	}
	defer s.close(ctx, second)
	ticket, err := r.cancel(ctx, second)
	if err != nil {
		return "the wait could not be ended safely: " + err.Error()
	}
	if err := end(); err != nil && ticket != 0 {
		r.remove(ctx, second, ticket)
	}
	return ""
}

// cancel does steps 1 to 3, but for the statement's end, and returns the ticket, 0
// for none. On error nothing has been done.
func (r *retreat) cancel(ctx context.Context, second *pgx.Conn) (int64, error) {
	if _, err := second.PgConn().Exec(ctx, retreatBegin).ReadAll(); err != nil {
		return 0, fmt.Errorf("begin: %w", err)
	}
	if _, err := second.Exec(ctx, retreatGate, r.held.ref); err != nil {
		return 0, fmt.Errorf("take the gate of %s: %w", r.held.ref, err)
	}
	var ticket int64
	if err := second.QueryRow(ctx, retreatTicket, r.held.ref, r.held.pid).Scan(&ticket); err != nil {
		return 0, fmt.Errorf("read our ticket on %s: %w", r.held.ref, err)
	}
	if _, err := second.Exec(ctx, "SELECT pg_cancel_backend($1::int)", r.held.pid); err != nil {
		// It may have been sent all the same. If not, the statement's connection is
		// cut, which ends it too; either way the ticket has to go.
		r.wait.server.cfg.Logger.Debug().Err(err).Int64("pid", r.held.pid).Msg("cancel of our own wait was not confirmed")
	}
	return ticket, nil
}

// remove does step 4. It tries for a while, because the row blocks every writer
// of the table; if it stays, the log says how to remove it by hand.
func (r *retreat) remove(ctx context.Context, second *pgx.Conn, ticket int64) {
	_, err := second.Exec(ctx, retreatRemove, ticket)
	if err == nil {
		return
	}
	retry := time.NewTicker(200 * time.Millisecond)
	defer retry.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-retry.C:
		}
		if fresh, connErr := r.wait.server.connect(ctx); connErr == nil {
			_, err = fresh.Exec(ctx, retreatRemove, ticket)
			r.wait.server.close(ctx, fresh)
			if err == nil {
				return
			}
		}
	}
	r.wait.server.cfg.Logger.Error().Err(err).Str("table", r.held.ref).Int64("ticket", ticket).
		Msg("our claim is left behind and blocks every writer of the table; remove it with SELECT coldfront._release_iceberg_lock(ticket)")
}
