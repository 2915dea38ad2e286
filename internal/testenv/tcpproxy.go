package testenv

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// TCPProxy forwards bytes between its clients and one server, and can stall, cut and refuse them.
type TCPProxy struct {
	// Addr is host:port for clients.
	Addr string

	target   string
	listener net.Listener
	wait     sync.WaitGroup

	mu      sync.Mutex
	flowing chan struct{} // Closed while bytes flow; open while they are held back.
	refuse  bool
	closed  bool
	conns   map[net.Conn]struct{}
}

// NewTCPProxy listens on a free loopback port and forwards to the target (host:port) until the test ends.
func NewTCPProxy(tb testing.TB, target string) *TCPProxy {
	tb.Helper()
	listener, err := net.Listen("tcp", loopback(0))
	if err != nil {
		tb.Fatalf("listen for proxy: %v", err)
	}
	p := &TCPProxy{
		Addr: listener.Addr().String(), target: target, listener: listener,
		flowing: make(chan struct{}), conns: map[net.Conn]struct{}{},
	}
	close(p.flowing)
	p.wait.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// Stall holds back all bytes in both directions; connections stay open, and new ones are accepted but silent.
func (p *TCPProxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.flowing:
		p.flowing = make(chan struct{})
	default: // Stalled already.
	}
}

// Resume lets bytes and new connections through again, the bytes held back first.
func (p *TCPProxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = false
	select {
	case <-p.flowing:
	default:
		close(p.flowing)
	}
}

// Cut resets every open connection on both sides; bytes held back are lost. New connections are still accepted.
func (p *TCPProxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		reset(conn)
	}
}

// Refuse resets every open connection, and every new one until Resume.
func (p *TCPProxy) Refuse() {
	p.mu.Lock()
	p.refuse = true
	p.mu.Unlock()
	p.Cut()
}

// accept serves clients until the listener is closed.
func (p *TCPProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wait.Go(func() { p.serve(client) })
	}
}

// serve joins one client with the server until either side ends.
func (p *TCPProxy) serve(client net.Conn) {
	if !p.add(client) {
		return
	}
	defer p.remove(client)
	server, err := net.DialTimeout("tcp", p.target, 10*time.Second)
	if err != nil || !p.add(server) {
		return
	}
	defer p.remove(server)
	var pumps sync.WaitGroup
	pumps.Go(func() { p.pump(server, client) })
	pumps.Go(func() { p.pump(client, server) })
	pumps.Wait()
}

// pump copies one direction. When its source ends it ends the connection of its destination too.
func (p *TCPProxy) pump(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !p.awaitFlow(to) {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				reset(from)
				return
			}
		}
		if errors.Is(err, io.EOF) {
			_ = to.(*net.TCPConn).CloseWrite() // The other direction may still carry an answer.
			return
		}
		if err != nil {
			reset(to)
			return
		}
	}
}

// awaitFlow waits while the proxy is stalled; it is false when the connection was cut meanwhile.
func (p *TCPProxy) awaitFlow(conn net.Conn) bool {
	p.mu.Lock()
	flowing := p.flowing
	p.mu.Unlock()
	<-flowing
	p.mu.Lock()
	defer p.mu.Unlock()
	_, open := p.conns[conn]
	return open && !p.closed
}

// add registers a connection, or resets it when connections are refused.
func (p *TCPProxy) add(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse || p.closed {
		reset(conn)
		return false
	}
	p.conns[conn] = struct{}{}
	return true
}

// remove closes a connection and forgets it.
func (p *TCPProxy) remove(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
	_ = conn.Close() // Reset already, or ended by its peer.
}

// close ends the proxy and waits for its goroutines.
func (p *TCPProxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close() // Ends accept.
	p.Cut()
	p.Resume()
	p.wait.Wait()
}

// reset closes a connection so that its peer sees a reset instead of an orderly end.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // Closed already is as good.
	}
	_ = conn.Close()
}
