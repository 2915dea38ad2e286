package bakery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// member is a node while it is being worked on: its connection and what was read from it.
type member struct {
	Node
	conn *pgx.Conn

	version   int  // server_version_num.
	super     bool // The installing role is a superuser; known after checkRights.
	installed bool // Schema bakery is there.
	joined    bool // The node has a number, a name and a state.
	mesh      string
	id        int
	state     string
	as        string // The name under which the node is a member.
	shows     int64  // Membership version.
	peers     map[int]string
}

// States of a node, as bakery.self says them.
const (
	stateJoining = "joining"
	stateActive  = "active"
	stateLeaving = "leaving"
)

// connect opens a session and reads the node's state. The error is a *CheckError when the role may not.
func connect(ctx context.Context, n Node) (*member, error) {
	conn, err := pgx.Connect(ctx, n.DSN)
	if err != nil {
		return nil, fmt.Errorf("connect to node %s: %w", n.Name, err)
	}
	m := &member{Node: n, conn: conn}
	if err := m.read(ctx); err != nil {
		m.close(ctx)
		return nil, m.denied(err)
	}
	return m, nil
}

// close ends the session; nothing depends on how that goes.
func (m *member) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = m.conn.Close(ctx)
}

// read fills in what the database says about the node.
func (m *member) read(ctx context.Context) error {
	err := m.conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, to_regclass('bakery.self') IS NOT NULL").
		Scan(&m.version, &m.installed)
	if err != nil {
		return fmt.Errorf("read version of node %s: %w", m.Name, err)
	}
	m.joined, m.peers = false, map[int]string{}
	if !m.installed {
		return nil
	}
	err = m.conn.QueryRow(ctx, "SELECT mesh, node, name, state, membership FROM bakery.self").
		Scan(&m.mesh, &m.id, &m.as, &m.state, &m.shows)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read state of node %s: %w", m.Name, err)
	}
	m.joined = true
	rows, err := m.conn.Query(ctx, "SELECT node, name FROM bakery.peers")
	if err != nil {
		return fmt.Errorf("read peers of node %s: %w", m.Name, err)
	}
	var id int
	var name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		m.peers[id] = name
		return nil
	})
	if err != nil {
		return fmt.Errorf("read peers of node %s: %w", m.Name, err)
	}
	return nil
}

// exec runs one statement on the node.
func (m *member) exec(ctx context.Context, what, sql string, args ...any) error {
	if _, err := m.conn.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("%s on node %s: %w", what, m.Name, err)
	}
	return nil
}

// secret runs one statement that holds a connection string, with the server's log shut for it as far as the role may do that.
func (m *member) secret(ctx context.Context, what, sql string) error {
	const quiet = `SELECT set_config(name, value, true) FROM (VALUES ('log_statement', 'none'), ('log_min_error_statement', 'panic'),
  ('log_min_duration_statement', '-1'), ('log_min_duration_sample', '-1')) s (name, value) WHERE has_parameter_privilege(name, 'SET')`
	err := pgx.BeginFunc(ctx, m.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, quiet); err != nil {
			return fmt.Errorf("shut the log: %w", err)
		}
		_, err := tx.Exec(ctx, sql)
		return err //nolint:wrapcheck // Wrapped below.
	})
	if err != nil {
		return fmt.Errorf("%s on node %s: %w", what, m.Name, err)
	}
	return nil
}

// ask runs one query that returns one row.
func (m *member) ask(ctx context.Context, what string, dest []any, sql string, args ...any) error {
	if err := m.conn.QueryRow(ctx, sql, args...).Scan(dest...); err != nil {
		return fmt.Errorf("%s on node %s: %w", what, m.Name, err)
	}
	return nil
}

// poll asks until done is true, for as long as limit allows. A question that is under way is not cut short by the limit, because that
// would end the session.
func poll(ctx context.Context, limit time.Duration, what string, done func(context.Context) (bool, error)) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done(ctx)
		if err != nil {
			return fmt.Errorf("wait until %s: %w", what, err)
		}
		if ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return fmt.Errorf("wait until %s: not within %s", what, limit)
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		}
	}
}
