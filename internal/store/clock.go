package store

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// serverClock remembers how far a server's clock is from ours, by the dates of
// its answers, which have whole seconds. The zero value has seen no answer.
type serverClock struct {
	offset atomic.Pointer[time.Duration]
	name   atomic.Pointer[string]
}

func (c *serverClock) note(resp *http.Response) {
	if name := resp.Header.Get("Server"); name != "" {
		c.name.Store(&name)
	}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		d := time.Until(at)
		c.offset.Store(&d)
	}
}

// now is the server's time, zero before its first answer.
func (c *serverClock) now() time.Time {
	if d := c.offset.Load(); d != nil {
		return time.Now().Add(*d)
	}
	return time.Time{}
}

// ClockOffset is how far the clock of the store was ahead of this machine's
// when it last answered, to about a second, and whether it has answered with a
// date yet. Local folders have this machine's clock and tell nothing.
func (s *Store) ClockOffset() (ahead time.Duration, known bool) {
	if d := s.clock.offset.Load(); d != nil {
		return *d, true
	}
	return 0, false
}

// ServerName is what the store calls itself in its answers; empty when it did
// not say.
func (s *Store) ServerName() string {
	if name := s.clock.name.Load(); name != nil {
		return *name
	}
	return ""
}

// blobTransport carries the requests of the stores that are reached through the
// Go CDK: each waits for its turn, repeated ones included, and the date of the answer is noted.
type blobTransport struct {
	base  http.RoundTripper
	limit *limiter
	own   *serverClock // of this store
	all   *serverClock
}

func (s *Store) blobTransport() *blobTransport {
	return &blobTransport{base: s.http.Transport, limit: s.limit, own: &serverClock{}, all: &s.clock}
}

// RoundTrip sends the request.
func (t *blobTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.limit.wait(r.Context()); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // A transport closes what it was given; the wait's error counts.
		}
		return nil, fmt.Errorf("send request: %w", err)
	}
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err //nolint:wrapcheck // http.Client names method and URL
	}
	t.own.note(resp)
	t.all.note(resp)
	return resp, nil
}
