package claim

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// bakeryPool keeps the sessions of released claims for a moment, because a login costs more than a claim. A session in it holds no
// lock and no claim. Safe for concurrent use.
type bakeryPool struct {
	server *pgServer
	// keep is how long a session is kept; well under the server's own limit on idle sessions.
	keep time.Duration

	mu     sync.Mutex
	idle   []idleSession
	timer  *time.Timer
	closed bool
}

type idleSession struct {
	conn  *pgx.Conn
	since time.Time
}

// get takes the session that was used last, nil when there is none.
func (p *bakeryPool) get() *pgx.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	last := len(p.idle) - 1
	conn := p.idle[last].conn
	p.idle = p.idle[:last]
	return conn
}

// put gives a session back. It is closed when it is not fit for another claim.
func (p *bakeryPool) put(ctx context.Context, conn *pgx.Conn) {
	p.mu.Lock()
	if p.closed || conn.IsClosed() || conn.PgConn().TxStatus() != 'I' {
		p.mu.Unlock()
		p.server.close(ctx, conn)
		return
	}
	defer p.mu.Unlock()
	p.idle = append(p.idle, idleSession{conn, p.server.cfg.Now()})
	if p.timer == nil {
		p.timer = time.AfterFunc(p.keep, p.expire)
	}
}

// expire closes what was not used for long enough.
func (p *bakeryPool) expire() {
	p.mu.Lock()
	now := p.server.cfg.Now()
	var old []idleSession
	for len(p.idle) > 0 && now.Sub(p.idle[0].since) >= p.keep {
		old, p.idle = append(old, p.idle[0]), p.idle[1:]
	}
	p.timer = nil
	if len(p.idle) > 0 {
		p.timer = time.AfterFunc(p.keep, p.expire)
	}
	p.mu.Unlock()
	for _, s := range old {
		p.server.close(context.Background(), s.conn)
	}
}

// close ends all sessions; later ones are not kept.
func (p *bakeryPool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	for _, s := range idle {
		p.server.close(context.Background(), s.conn)
	}
}

// Close releases every claim that is still held and closes all sessions.
func (b *bakery) Close() error {
	err := b.registry.Close()
	b.pool.close()
	return err
}

// session returns a session that is fit for a claim on the key, and has looked at the peers.
func (b *bakery) session(ctx context.Context, key Key, o waitOptions) (*bakerySession, error) {
	if conn := b.pool.get(); conn != nil {
		s := newBakerySession(b, conn, key, o)
		if _, _, err := s.look(ctx, 0, false); err == nil {
			return s, nil
		}
		b.server.close(ctx, conn) // The server ended it while nobody looked.
	}
	conn, err := b.server.connect(ctx)
	if err != nil {
		return nil, err
	}
	s := newBakerySession(b, conn, key, o)
	err = b.prepare(ctx, conn)
	if err == nil {
		_, _, err = s.look(ctx, 0, false)
	}
	if err != nil {
		b.server.close(ctx, conn)
		return nil, err
	}
	return s, nil
}
