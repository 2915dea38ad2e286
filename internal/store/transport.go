package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	dialTimeout = 10 * time.Second
	idleConns   = 128
	idleTimeout = 50 * time.Second
)

// newHTTPClient makes the connections of a store. A connection that makes no
// progress for the stall time fails, in either direction, so that neither a body that
// hangs nor an upload that is not taken can block for ever.
func newHTTPClient(o S3Options, b *bandwidth) (*http.Client, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CACert != "" {
		pool, err := certPool(o.CACert)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = pool
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	return &http.Client{
		// The SDK treats redirects itself; following one here would send a
		// signature to a host that it was not made for.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:           http.ProxyFromEnvironment,
			TLSClientConfig: conf,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dialer.DialContext(ctx, network, addr)
				if err != nil {
					return nil, err //nolint:wrapcheck // net/http and the SDK look at the dialer's own error
				}
				return b.shape(&stallConn{Conn: conn, limit: o.Stall}), nil
			},
			TLSHandshakeTimeout: dialTimeout,
			MaxIdleConns:        2 * idleConns,
			MaxIdleConnsPerHost: idleConns,
			IdleConnTimeout:     idleTimeout,
			// The objects are compressed already.
			DisableCompression: true,
		},
	}, nil
}

func certPool(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read CA certificates: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read CA certificates %s: no PEM certificate in it", file)
	}
	return pool, nil
}

// stallConn moves its deadline with every step of progress. Writing moves the
// deadline for reading too, which a reader may already be waiting under
// since the connection was idle.
type stallConn struct {
	net.Conn
	limit time.Duration
}

func (c *stallConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err //nolint:wrapcheck // a net.Conn returns what its connection returns
	}
	return c.Conn.Read(p) //nolint:wrapcheck // as above
}

func (c *stallConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err //nolint:wrapcheck // a net.Conn returns what its connection returns
	}
	return c.Conn.Write(p) //nolint:wrapcheck // as above
}

// countingClient counts what really goes over the wire, retries included.
type countingClient struct {
	http     *http.Client
	counters *Counters
	limit    *limiter
	clock    *serverClock
}

// Do sends one request, when its turn has come.
func (c countingClient) Do(req *http.Request) (*http.Response, error) {
	if err := c.limit.wait(req.Context()); err != nil {
		return nil, err
	}
	payload := c.count(req)
	if payload && req.Body != nil && req.Body != http.NoBody {
		req.Body = &countedBody{ReadCloser: req.Body, n: c.counters.BytesWritten.Add}
	}
	if last := lastRequestOf(req.Context()); last != nil {
		return last.send(c.http, req)
	}
	resp, err := c.http.Do(req)
	if err == nil {
		c.clock.note(resp)
	}
	if err == nil && payload && req.Method == http.MethodGet && resp.StatusCode < 300 {
		resp.Body = &countedBody{ReadCloser: resp.Body, n: c.counters.BytesRead.Add}
	}
	return resp, err //nolint:wrapcheck // the SDK classes the client's own error
}

// count adds the request to its counter and tells whether it carries object
// content.
func (c countingClient) count(req *http.Request) bool {
	query := req.URL.Query()
	switch req.Method {
	case http.MethodGet:
		if query.Has("list-type") {
			c.counters.Lists.Add(1)
			return false
		}
		c.counters.Gets.Add(1)
		return true
	case http.MethodHead:
		c.counters.Heads.Add(1)
	case http.MethodPut:
		c.counters.Puts.Add(1)
		return true
	case http.MethodDelete:
		if query.Has("uploadId") {
			c.counters.Puts.Add(1)
			return false
		}
		c.counters.Deletes.Add(1)
	case http.MethodPost:
		if query.Has("delete") {
			c.counters.Deletes.Add(1)
			return false
		}
		c.counters.Puts.Add(1)
	}
	return false
}

type countedBody struct {
	io.ReadCloser
	n func(int64) int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n(int64(n))
	return n, err //nolint:wrapcheck // a reader passes on what it reads from
}
