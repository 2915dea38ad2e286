package testenv

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo is a server that answers with method, path and body, and remembers what it saw.
type echo struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	e := &echo{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text := r.Method + " " + r.URL.Path + " " + string(body)
		e.mu.Lock()
		e.seen = append(e.seen, text)
		e.mu.Unlock()
		w.Header().Set("X-Host", r.Host)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *echo) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.seen...)
}

// post sends a body on a connection of its own, so that nothing is retried behind the test's back.
func post(ctx context.Context, url, body string) (status int, answer string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), errors.Join(err, response.Body.Close())
}

func TestProxyForwardsAndRecords(t *testing.T) {
	server := newEcho(t)
	p := NewProxy(t, server.URL)
	status, answer, err := post(t.Context(), p.URL+"/v1/a%2Fb/tables?x=1&x=2", "body")
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Equal(t, "POST /v1/a/b/tables body", answer)

	records := p.Requests()
	require.Len(t, records, 1)
	r := records[0]
	require.Equal(t, []string{"1", "2"}, r.Query["x"])
	require.Equal(t, []any{"POST", "/v1/a/b/tables", 200, 200, true, int64(4), int64(len(answer))},
		[]any{r.Method, r.Path, r.Status, r.ServerStatus, r.Forwarded, r.BodyBytes, r.AnswerBytes})
	require.Equal(t, 1, p.Count(Is("POST", "/v1/**")))
	require.Equal(t, 0, p.Count(Is("GET", "/v1/**")))
	p.ResetRequests()
	require.Empty(t, p.Requests())
}

func TestProxyKeepsTheClientsHost(t *testing.T) {
	server := newEcho(t)
	p := NewProxy(t, server.URL)
	response, err := http.Get(p.URL + "/x")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, strings.TrimPrefix(p.URL, "http://"), response.Header.Get("X-Host"))
}

func TestProxyActionsDoWhatTheySay(t *testing.T) {
	for _, c := range []struct {
		name       string
		action     Action
		status     int // 0: the connection is closed without an answer.
		answer     string
		reached    bool
		wantStatus int
	}{
		{"forward", Forward(), 200, "POST /x body", true, 200},
		{"answer in the server's place", AnswerWithoutForward(500, "no"), 500, "no", false, 500},
		{"forward and falsify the answer", ForwardThenAnswer(504, "late"), 504, "late", true, 504},
		{"forward and change the answer", RewriteAnswer(func(s int, h http.Header, b []byte) (int, []byte) {
			h.Set("X-Changed", "yes")
			return s + 1, append(b, '!')
		}), 201, "POST /x body!", true, 201},
		{"forward and close", ForwardThenClose(), 0, "", true, 0},
		{"drop", DropWithoutForward(), 0, "", false, 0},
		{"delay", Delay(time.Millisecond), 200, "POST /x body", true, 200},
		{"delay, then falsify", Delay(time.Millisecond, ForwardThenAnswer(409, "")), 409, "", true, 409},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := newEcho(t)
			p := NewProxy(t, server.URL)
			var forwarded atomic.Int32 // The end of a connection orders nothing for the race detector.
			p.Handle(Rule{Match: MethodPath("POST", "/x"), Action: c.action, Times: 1, OnForwarded: func(_ *http.Request, status int) {
				require.Equal(t, 200, status)
				forwarded.Add(1)
			}})
			status, answer, err := post(t.Context(), p.URL+"/x", "body")
			if c.status == 0 {
				require.ErrorIs(t, err, io.EOF)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, c.status, status)
			require.Equal(t, c.answer, answer)
			if c.reached {
				require.Equal(t, []string{"POST /x body"}, server.all())
				require.EqualValues(t, 1, forwarded.Load())
			} else {
				require.Empty(t, server.all())
				require.Zero(t, forwarded.Load())
			}
			require.Equal(t, c.wantStatus, p.Requests()[0].Status)
			require.Equal(t, c.reached, p.Requests()[0].Forwarded)

			// The rule is used up: the next request passes.
			status, _, err = post(t.Context(), p.URL+"/x", "again")
			require.NoError(t, err)
			require.Equal(t, 200, status)
		})
	}
}

func TestProxyRuleMayReadTheBodyAndActFirst(t *testing.T) {
	server := newEcho(t)
	p := NewProxy(t, server.URL)
	p.Handle(Rule{Match: MethodPath("", "/commit"), Before: func(r *http.Request) {
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, "ours", string(body))
		_, _, err = post(context.Background(), server.URL+"/commit", "foreign")
		require.NoError(t, err)
	}})
	_, answer, err := post(t.Context(), p.URL+"/commit", "ours")
	require.NoError(t, err)
	require.Equal(t, "POST /commit ours", answer)
	require.Equal(t, []string{"POST /commit foreign", "POST /commit ours"}, server.all())
	require.Equal(t, "ours", string(p.Requests()[0].Body))
}

func TestProxyReordersRequests(t *testing.T) {
	server := newEcho(t)
	p := NewProxy(t, server.URL)
	release, arrived := make(chan struct{}), make(chan struct{})
	p.Handle(Rule{Match: MethodPath("", "/first"), Before: func(*http.Request) { close(arrived) }, Action: BlockUntil(release)})
	done := make(chan error, 1)
	go func() {
		_, _, err := post(context.Background(), p.URL+"/first", "")
		done <- err
	}()
	<-arrived
	_, _, err := post(t.Context(), p.URL+"/second", "")
	require.NoError(t, err)
	close(release)
	require.NoError(t, <-done)
	require.Equal(t, []string{"POST /second ", "POST /first "}, server.all())
}

func TestProxyLetsARequestLandAfterItsClientGaveUp(t *testing.T) {
	server := newEcho(t)
	p := NewProxy(t, server.URL)
	release, arrived, landed := make(chan struct{}), make(chan struct{}), make(chan int, 1)
	p.Handle(Rule{
		Before: func(*http.Request) { close(arrived) }, Action: BlockUntil(release),
		OnForwarded: func(_ *http.Request, status int) { landed <- status },
	})
	ctx, giveUp := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, _, err := post(ctx, p.URL+"/late", "body")
		done <- err
	}()
	<-arrived
	giveUp()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Empty(t, server.all())
	close(release)
	require.Equal(t, 200, <-landed)
	require.Equal(t, []string{"POST /late body"}, server.all())
}

func TestProxyDropsHeldRequestsAtItsEnd(t *testing.T) {
	server := newEcho(t)
	done := make(chan error, 1)
	t.Run("a request that is never released", func(t *testing.T) {
		p := NewProxy(t, server.URL)
		arrived := make(chan struct{})
		p.Handle(Rule{Before: func(*http.Request) { close(arrived) }, Action: BlockUntil(make(chan struct{}))})
		go func() {
			_, _, err := post(context.Background(), p.URL+"/x", "")
			done <- err
		}()
		<-arrived
	})
	require.Error(t, <-done)
	require.Empty(t, server.all())
}

func TestPathPatterns(t *testing.T) {
	for _, c := range []struct {
		path, pattern string
		want          bool
	}{
		{"/v1/a/namespaces/n/tables/t", "/v1/*/namespaces/*/tables/*", true},
		{"/v1/a/namespaces/n/tables", "/v1/*/namespaces/*/tables/*", false},
		{"/v1/a/namespaces/n/tables/t/metrics", "/v1/*/namespaces/*/tables/*", false},
		{"/analytics/n/t/data/f.parquet", "/analytics/**", true},
		{"/other/n", "/analytics/**", false},
		{"/analytics", "/analytics/**", false},
		{"/analytics", "/analytics", true},
	} {
		require.Equal(t, c.want, pathMatches(c.path, c.pattern), "%s against %s", c.path, c.pattern)
	}
}
