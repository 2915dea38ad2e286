package claim

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// pgLease is a claim that lives in one PostgreSQL session.
type pgLease struct {
	server *pgServer
	conn   *pgx.Conn
	// inTransaction says that the claim lives in the open transaction.
	inTransaction bool
	// held is one query with one boolean: does this session have the claim?
	held string
	args []any
	// free is the statement that gives the claim back.
	free     string
	freeArgs []any
}

// check asks PostgreSQL over the claim's own connection, which also feeds the
// server's idle timer.
func (l *pgLease) check(ctx context.Context) error {
	var held bool
	if err := l.conn.QueryRow(ctx, l.held, l.args...).Scan(&held); err != nil {
		return fmt.Errorf("ask PostgreSQL %s: %w", l.server.where, err)
	}
	if !held || (l.inTransaction && l.conn.PgConn().TxStatus() != 'T') {
		return errNotOurs
	}
	return nil
}

// idle reads from the connection while nothing is asked of it, so that the
// server's farewell or a broken connection is seen at once and not at the next
// probe.
func (l *pgLease) idle(ctx context.Context) error {
	for ctx.Err() == nil {
		_, err := l.conn.WaitForNotification(ctx)
		if err != nil && (ctx.Err() == nil || l.conn.IsClosed()) {
			return fmt.Errorf("connection to PostgreSQL %s ended: %w", l.server.where, err)
		}
	}
	return nil
}

// release gives the claim back and closes the connection. If the server did not
// confirm, closing is what frees the claim.
func (l *pgLease) release(ctx context.Context) error {
	defer l.server.close(ctx, l.conn)
	if _, err := l.conn.Exec(ctx, l.free, l.freeArgs...); err != nil {
		return fmt.Errorf("release claim at PostgreSQL %s: %w", l.server.where, err)
	}
	return nil
}

// abandon cuts the connection without a word: the other side may not be listening.
func (l *pgLease) abandon() {
	err := l.conn.PgConn().Conn().Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	// Both errors mean that the connection is closed already.
	_ = errors.Join(err, l.conn.Close(ctx))
}
