package store

import (
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// MinBytesPerSecond is the least that BytesPerSecond may be: a connection that has
// to wait for its turn must stay far from the time after which it counts as dead.
const MinBytesPerSecond = 1 << 20

// piece is what a connection moves in one turn, in bytes. Connections take turns
// by it, so that a large object does not keep small ones waiting.
const piece = 64 << 10

// bandwidth bounds what all connections of a store move together, in both
// directions. A nil one lets everything pass. It is safe for concurrent use.
type bandwidth struct{ bucket *rate.Limiter }

func newBandwidth(bytesPerSecond int64) *bandwidth {
	if bytesPerSecond <= 0 {
		return nil
	}

	return &bandwidth{bucket: rate.NewLimiter(rate.Limit(bytesPerSecond), int(bytesPerSecond/4))}
}

// shape returns conn, slowed down where there is a bound.
func (b *bandwidth) shape(conn net.Conn) net.Conn {
	if b == nil {
		return conn
	}

	return &shapedConn{Conn: conn, bandwidth: b, closed: make(chan struct{})}
}

// shapedConn takes turns with the others. The connection below sets its deadlines
// anew at each step, after the wait. A reader of an answer is bound by the deadline
// of the piece that was written last, hence MinBytesPerSecond.
type shapedConn struct {
	net.Conn
	bandwidth *bandwidth
	once      sync.Once
	closed    chan struct{}
}

// Read waits after it has read, when it is known how much it was.
func (c *shapedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p[:min(len(p), piece)])
	if werr := c.wait(n); werr != nil && err == nil {
		err = werr
	}

	return n, err
}

// Write waits before each piece.
func (c *shapedConn) Write(p []byte) (int, error) {
	written := 0
	for {
		next := p[written:min(len(p), written+piece)]
		if err := c.wait(len(next)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(next)
		written += n
		if err != nil || written == len(p) {
			return written, err //nolint:wrapcheck // as above
		}
	}
}

// Close ends a wait as well. It may be called more than once.
func (c *shapedConn) Close() error {
	c.once.Do(func() { close(c.closed) })

	return c.Conn.Close() //nolint:wrapcheck // as above
}

// wait returns when n bytes may pass, or with net.ErrClosed.
func (c *shapedConn) wait(n int) error {
	delay := c.bandwidth.bucket.ReserveN(time.Now(), n).Delay()
	if delay == 0 {
		return nil
	}
	if !elapsed(delay, c.closed) {
		return net.ErrClosed
	}

	return nil
}
