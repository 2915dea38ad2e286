package claim

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// partiesSQL returns the query that lists who has or awaits the advisory lock
// whose 64-bit key the given expression computes from $1, the holder first and
// then the queue in its order. What a role may not read of another's session is
// null.
//
// A session that took the lock without stating the time may be known by its
// silence: while it is idle it takes no lock, so it has had this one since its
// last statement ended, or longer.
func partiesSQL(keyExpr string) string {
	return `SELECT l.pid::bigint, l.granted, coalesce(a.application_name, ''), coalesce(a.usename::text, ''),
       extract(epoch FROM clock_timestamp())::bigint,
       coalesce(extract(epoch FROM clock_timestamp() - CASE WHEN a.state LIKE 'idle%' THEN a.state_change END), 0)::float8,
       coalesce(extract(epoch FROM clock_timestamp() - l.waitstart), 0)::float8
  FROM (SELECT ` + keyExpr + ` AS h) AS k
  JOIN pg_locks l ON l.locktype = 'advisory' AND l.objsubid = 1
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND l.classid = ((k.h >> 32) & 4294967295)::oid AND l.objid = (k.h & 4294967295)::oid
  LEFT JOIN pg_stat_activity a ON a.pid = l.pid
 ORDER BY l.granted DESC, l.waitstart NULLS LAST, l.pid`
}

// look makes one short connection for a question that changes nothing.
func (s *pgServer) look(ctx context.Context, ask func(ctx context.Context, conn *pgx.Conn) error) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close(ctx, conn)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timing.Connect)
	defer cancel()
	return ask(ctx, conn)
}

// parties fills in who has and who awaits a lock.
func (s *pgServer) parties(ctx context.Context, conn *pgx.Conn, keyExpr string, into *Status) error {
	rows, err := conn.Query(ctx, partiesSQL(keyExpr), into.Reference)
	if err != nil {
		return fmt.Errorf("list who has claim %s at PostgreSQL %s: %w", into.Reference, s.where, err)
	}
	defer rows.Close()
	for rows.Next() {
		var r lockRow
		var granted bool
		var silent, waits float64
		if err := rows.Scan(&r.pid, &granted, &r.app, &r.user, &r.now, &silent, &waits); err != nil {
			return fmt.Errorf("read who has claim %s: %w", into.Reference, err)
		}
		p := r.party()
		if !granted {
			p.For = seconds(waits)
			into.Waiters = append(into.Waiters, p)
			continue
		}
		if p.For == 0 && silent > 0 {
			p.For, p.AtLeast = seconds(silent), true
		}
		into.Holder = &p
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("list who has claim %s at PostgreSQL %s: %w", into.Reference, s.where, err)
	}
	return nil
}

// party is the session of a row, with its age if it states since when it has the
// lock.
func (r lockRow) party() Party {
	name, since := r.stated()
	return Party{Name: name, Role: r.user, PID: r.pid, For: since}
}

// Status implements Observer.
func (a *advisory) Status(ctx context.Context, key Key) (Status, error) {
	if err := key.Validate(); err != nil {
		return Status{}, err
	}
	s := Status{Key: key, Mode: ModeAdvisory, Reference: key.String()}
	err := a.server.look(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return a.server.parties(ctx, conn, advisoryKey, &s)
	})
	return s, err
}

// Status implements Observer. On a mesh the node-local queue is only half of it:
// the claims of other nodes are read too, as far as this node knows them and the
// role may read them.
func (c *coldFront) Status(ctx context.Context, key Key) (Status, error) {
	if err := key.Validate(); err != nil {
		return Status{}, err
	}
	s := Status{Key: key, Mode: ModeColdFront, Reference: key.ColdFront(c.server.cfg.CatalogAlias)}
	err := c.server.look(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if err := c.server.parties(ctx, conn, coldLockKey, &s); err != nil {
			return err
		}
		m, err := c.server.mesh(ctx, conn)
		if err != nil {
			return err
		}
		switch {
		case !m.armed:
		case !m.readable:
			s.Notes = append(s.Notes, "only this node's queue is shown: the role may not read coldfront.claims")
		default:
			return c.meshStatus(ctx, conn, &s)
		}
		return nil
	})
	return s, err
}

// coldRows lists the claims on a table as this node knows them, in ticket order,
// with the nodes that have not let each pass.
const coldRows = `SELECT c.ticket, snowflake.get_node(c.ticket)::int,
       snowflake.get_node(c.ticket) = current_setting('snowflake.node')::int
  FROM coldfront.claims c WHERE c.iceberg_table = $1::text ORDER BY c.ticket`

// meshStatus puts the claims of the mesh over the node-local queue. The session
// at the head of that queue holds the table when its claim has every answer; when
// it has not, it waits for the oldest claim of another node.
func (c *coldFront) meshStatus(ctx context.Context, conn *pgx.Conn, s *Status) error {
	rows, err := conn.Query(ctx, coldRows, s.Reference)
	if err != nil {
		return fmt.Errorf("list claims on %s at PostgreSQL %s: %w", s.Reference, c.server.where, err)
	}
	type row struct {
		Ticket int64
		Node   int
		Ours   bool
	}
	claims, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return fmt.Errorf("read claims on %s: %w", s.Reference, err)
	}
	local := s.Holder
	s.Holder = nil
	var others []Party
	for _, r := range claims {
		p := Party{Node: fmt.Sprint(r.Node), Ticket: fmt.Sprint(r.Ticket)}
		if !r.Ours {
			others = append(others, p)
			continue
		}
		if local == nil {
			s.Notes = append(s.Notes, "ticket "+p.Ticket+" of this node has no session any more; the next claim of this node removes it")
			continue
		}
		local.Node, local.Ticket = p.Node, p.Ticket
		local.Detail = meshView(ctx, conn, s.Reference, r.Ticket, view{}).detail
	}
	if local != nil {
		if len(others) == 0 || local.Ticket != "" && local.Detail == "" {
			s.Holder = local
		} else {
			s.Waiters = append([]Party{*local}, s.Waiters...)
		}
	}
	if s.Holder == nil && len(others) > 0 {
		s.Holder, others = &others[0], others[1:]
	}
	s.Waiters = append(others, s.Waiters...)
	return nil
}

// seconds turns PostgreSQL's epoch into a duration, never a negative one: clocks
// of two nodes differ.
func seconds(s float64) time.Duration { return max(0, time.Duration(s*float64(time.Second))) }
