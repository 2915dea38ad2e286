package testenv

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy is an HTTP proxy in front of one server, for example a catalog or an S3 server. It passes the client's Host header on, which
// S3 signatures cover. Without rules it only forwards and keeps a record.
type Proxy struct {
	// URL is the base address for clients, without a slash at the end.
	URL string

	target    *url.URL
	transport *http.Transport
	ctx       context.Context // Ended with the proxy; frees requests that a rule holds.
	mu        sync.Mutex
	rules     []*activeRule
	requests  []*Request
}

// Request is the record of one request, made when it arrives.
type Request struct {
	Method string
	Path   string
	Query  url.Values
	Header http.Header
	// Status is what the client was answered; 0 while there is no answer, and when the connection was closed instead.
	Status int
	// Forwarded tells whether the request reached the server, and ServerStatus what that answered.
	Forwarded    bool
	ServerStatus int
	// BodyBytes and AnswerBytes count the bodies as they went over the wire.
	BodyBytes   int64
	AnswerBytes int64
	// Body is the request's body when it is JSON or was read by a rule.
	Body []byte
	At   time.Time
}

// NewProxy starts a proxy before the target (a base URL) that ends with the test. Requests still held by a rule are dropped then.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	parsed, err := url.Parse(target)
	if err != nil || parsed.Host == "" {
		tb.Fatalf("start proxy: bad target %q: %v", target, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{
		target: parsed, ctx: ctx,
		// Compression is the client's business: a body decoded here would not have the length and hash that were promised.
		transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64, ExpectContinueTimeout: time.Second},
	}
	server := httptest.NewServer(p)
	p.URL = server.URL
	tb.Cleanup(func() {
		cancel()
		server.CloseClientConnections()
		server.Close()
		p.transport.CloseIdleConnections()
	})
	return p
}

// Handle adds a rule. The first rule that matches a request and has not been used up decides about it.
func (p *Proxy) Handle(rule Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, &activeRule{Rule: rule})
}

// ClearRules removes all rules; requests that a rule holds stay held.
func (p *Proxy) ClearRules() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// Requests returns the records so far in order of arrival.
func (p *Proxy) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Request, len(p.requests))
	for i, r := range p.requests {
		list[i] = *r
	}
	return list
}

// Count returns how many requests satisfy the condition.
func (p *Proxy) Count(condition func(Request) bool) int {
	n := 0
	for _, r := range p.Requests() {
		if condition(r) {
			n++
		}
	}
	return n
}

// ResetRequests forgets the records so far.
func (p *Proxy) ResetRequests() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = nil
}

// ServeHTTP records a request, asks the rules, and lets the action answer it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	record := &Request{
		Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header.Clone(), At: time.Now(),
	}
	p.mu.Lock()
	p.requests = append(p.requests, record)
	p.mu.Unlock()

	x := &exchange{proxy: p, w: w, r: r, record: record}
	if strings.Contains(r.Header.Get("Content-Type"), "json") && !x.buffer() {
		return
	}
	rule := p.pick(x)
	if rule == nil {
		Forward().serve(x, nil)
		return
	}
	if rule.Before != nil {
		if !x.buffer() {
			return
		}
		rule.Before(r)
		x.rewind()
	}
	rule.Action.serve(x, rule.OnForwarded)
}

// pick returns the rule for a request and takes one of its uses. Rules are matched outside the lock, since they may call the proxy.
func (p *Proxy) pick(x *exchange) *activeRule {
	p.mu.Lock()
	rules := append([]*activeRule(nil), p.rules...)
	p.mu.Unlock()
	for _, rule := range rules {
		if rule.Match != nil && !rule.Match(x.r) {
			continue
		}
		p.mu.Lock()
		usable := rule.Times == 0 || rule.used < rule.Times
		if usable {
			rule.used++
		}
		p.mu.Unlock()
		if usable {
			return rule
		}
	}
	return nil
}

// update changes a record under the proxy's lock.
func (p *Proxy) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// exchange is one request on its way through the proxy.
type exchange struct {
	proxy  *Proxy
	w      http.ResponseWriter
	r      *http.Request
	record *Request
	body   []byte // The whole body once it was buffered.
}

// buffer reads the whole body, so that rules may read it and it can still be forwarded. It is false when the client went away.
func (x *exchange) buffer() bool {
	if x.body != nil {
		return true
	}
	body, err := io.ReadAll(x.r.Body)
	if err != nil {
		return false
	}
	if body == nil {
		body = []byte{}
	}
	x.body = body
	x.proxy.update(func() { x.record.Body, x.record.BodyBytes = body, int64(len(body)) })
	x.rewind()
	return true
}

// rewind makes a buffered body readable from its start.
func (x *exchange) rewind() { x.r.Body = io.NopCloser(bytes.NewReader(x.body)) }

// hopHeaders concern one connection and are not passed on.
var hopHeaders = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// roundTrip sends the request to the server as the client made it: same Host, same length, same encoding.
func (x *exchange) roundTrip() (*http.Response, error) {
	ctx := x.r.Context()
	if x.body != nil {
		x.rewind()
		ctx = x.proxy.ctx // All of it has arrived: the server gets it even when the client gives up.
	}
	out := x.r.Clone(ctx)
	out.RequestURI = ""
	out.URL.Scheme, out.URL.Host = x.proxy.target.Scheme, x.proxy.target.Host
	if base := strings.TrimSuffix(x.proxy.target.Path, "/"); base != "" {
		out.URL.Path, out.URL.RawPath = base+out.URL.Path, ""
	}
	out.Host = x.r.Host
	for _, name := range hopHeaders {
		out.Header.Del(name)
	}
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", "") // Keeps the transport from adding its own.
	}
	out.Body = &countingBody{ReadCloser: x.r.Body, add: func(n int) {
		if x.body == nil {
			x.proxy.update(func() { x.record.BodyBytes += int64(n) })
		}
	}}
	if x.r.ContentLength == 0 {
		out.Body = http.NoBody
	}
	x.proxy.update(func() { x.record.Forwarded = true })
	answer, err := x.proxy.transport.RoundTrip(out)
	if err == nil {
		x.proxy.update(func() { x.record.ServerStatus = answer.StatusCode })
	}
	return answer, err
}

// countingBody reports how many bytes were read from it.
type countingBody struct {
	io.ReadCloser
	add func(int)
}

// Read reads and reports.
func (b *countingBody) Read(buffer []byte) (int, error) {
	n, err := b.ReadCloser.Read(buffer)
	b.add(n)
	return n, err
}
