package catalog

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	connectTimeout = 10 * time.Second
	idleConns      = 32
	// grace is what a request gets beyond the timeout of the call that needs
	// it, so that the call ends first: it knows more about why.
	grace = time.Second
)

// transport carries the requests to a REST catalog. Each is bounded in time,
// its body included. A commit gets a connection of its own over HTTP/1.1:
// net/http repeats a request only on a connection that was used before.
type transport struct {
	normal  *http.Transport
	commit  *http.Transport
	timeout time.Duration
	// done ends with close, and with it every request under way: one for a
	// token has no other context.
	done  context.Context //nolint:containedctx // it is the transport's life
	abort context.CancelFunc
	seen  atomic.Pointer[Server]
}

// Server is what the answers of a REST catalog tell about the server.
type Server struct {
	Name  string        // what it calls itself; may be empty
	Ahead time.Duration // how far its clock was ahead of this machine's, to about a second
	Clock bool          // it sent its time
}

// Server returns what the last answer told; false when there was none yet, or
// the catalog is no REST catalog.
func (c *Catalog) Server() (Server, bool) {
	if c.transport == nil {
		return Server{}, false
	}
	if s := c.transport.seen.Load(); s != nil {
		return *s, true
	}
	return Server{}, false
}

func (t *transport) note(resp *http.Response) {
	s := Server{Name: resp.Header.Get("Server")}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		s.Ahead, s.Clock = time.Until(at), true
	}
	t.seen.Store(&s)
}

func newTransport(s Settings) (*transport, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CACert != "" {
		pem, err := os.ReadFile(s.CACert)
		if err != nil {
			return nil, fmt.Errorf("read CA certificates: %w", err)
		}
		if conf.RootCAs, err = x509.SystemCertPool(); err != nil {
			conf.RootCAs = x509.NewCertPool()
		}
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read CA certificates %s: no PEM certificate in it", s.CACert)
		}
	}
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}
	base := func() *http.Transport {
		return &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext,
			TLSClientConfig: conf.Clone(), TLSHandshakeTimeout: connectTimeout,
			MaxIdleConns: idleConns, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: 50 * time.Second,
		}
	}
	t := &transport{normal: base(), commit: base(), timeout: s.Timeout}
	t.done, t.abort = context.WithCancel(context.Background())
	t.normal.ForceAttemptHTTP2 = true
	t.commit.DisableKeepAlives = true
	return t, nil
}

func (t *transport) close() error {
	t.abort()
	t.normal.CloseIdleConnections()
	t.commit.CloseIdleConnections()
	return nil
}

// RoundTrip sends one request.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if a := attemptOf(req.Context()); a != nil {
		return t.commitOnce(a, req)
	}
	resp, err := t.bounded(t.normal, req)
	if err != nil || !strings.HasSuffix(req.URL.Path, "/v1/config") {
		return resp, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		err = keepAllSnapshots(resp)
	case http.StatusNotFound:
		err = errors.Join(errNoCatalog, resp.Body.Close())
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// errNoCatalog is a server that does not know the first request of every client.
var errNoCatalog = errors.New("HTTP status 404 for the catalog's configuration")

// commitOnce lets one request through per attempt and notes whether it can
// have left and how it was answered. A redirect ends here: the client would send
// the body again.
func (t *transport) commitOnce(a *attempt, req *http.Request) (*http.Response, error) {
	if a.begun.Swap(true) {
		return nil, errSecondRequest
	}
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { a.sent.Store(true) }}
	req = req.Clone(httptrace.WithClientTrace(req.Context(), trace))
	req.GetBody = nil // what cannot be rewound cannot be repeated
	resp, err := t.bounded(t.commit, req)
	if err == nil {
		a.status.Store(int32(resp.StatusCode))
	}
	return resp, err
}

// bounded gives a request the timeout, unless its context ends earlier, as that of
// most calls does. The body counts: the clock stops when it is closed.
func (t *transport) bounded(rt *http.Transport, req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), t.timeout+grace)
	stop := context.AfterFunc(t.done, cancel) //nolint:contextcheck // the end of the transport ends its requests
	end := func() {
		stop()
		cancel()
	}
	resp, err := rt.RoundTrip(req.WithContext(ctx))
	if err != nil {
		end()
		return nil, err //nolint:wrapcheck // http.Client names method and URL
	}
	t.note(resp)
	resp.Body = &boundedBody{ReadCloser: resp.Body, cancel: end}
	return resp, nil
}

type boundedBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close ends the request's time.
func (b *boundedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close() //nolint:wrapcheck // the body's own error
}

// keepAllSnapshots takes the snapshot-loading-mode out of the server's
// overrides, which would win over the client's setting.
func keepAllSnapshots(resp *http.Response) error {
	body, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("read catalog configuration: %w", err)
	}
	var conf, overrides map[string]json.RawMessage
	if json.Unmarshal(body, &conf) == nil && json.Unmarshal(conf["overrides"], &overrides) == nil {
		if _, has := overrides[propSnapshotMode]; has {
			delete(overrides, propSnapshotMode)
			if conf["overrides"], err = json.Marshal(overrides); err == nil {
				body, err = json.Marshal(conf)
			}
			if err != nil {
				return fmt.Errorf("rewrite catalog configuration: %w", err)
			}
		}
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}
