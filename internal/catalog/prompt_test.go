package catalog_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/catalog"
	"compactor/internal/testenv"
)

// stopped is a cause with a type of its own, as the end by a signal has.
type stopped struct{ signal string }

func (s *stopped) Error() string { return "stopped by " + s.signal }

const tokenPath = "/v1/oauth/tokens"

// stuck makes a proxy hold the requests and tells when one is held.
func stuck(proxy *testenv.Proxy, method, path string) <-chan struct{} {
	held := make(chan struct{}, 100)
	proxy.Handle(testenv.Rule{
		Match: testenv.MethodPath(method, path), Before: func(*http.Request) { held <- struct{}{} },
		Action: testenv.BlockUntil(nil),
	})
	return held
}

// endsPromptly runs f, ends its context once a request is held, and wants
// the cause back at once.
func endsPromptly(t *testing.T, held <-chan struct{}, f func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	<-held
	cancel(&stopped{"SIGTERM"})
	select {
	case err := <-ended:
		var cause *stopped
		require.ErrorAs(t, err, &cause)
		require.Equal(t, "SIGTERM", cause.signal)
		return err
	case <-time.After(5 * time.Second):
		t.Fatal("the end of the context had no effect")
		return nil
	}
}

func TestOpenEndsWithItsContextWhereverTheCatalogHangs(t *testing.T) {
	lake := testenv.SharedLake(t)
	for path, method := range map[string]string{tokenPath: http.MethodPost, "/v1/config": http.MethodGet} {
		t.Run(path, func(t *testing.T) {
			proxy := testenv.NewProxy(t, lake.CatalogURI)
			err := endsPromptly(t, stuck(proxy, method, path), func(ctx context.Context) error {
				_, err := catalog.Open(ctx, lakeOptions(lake, proxy.URL))
				return err
			})
			require.NotContains(t, err.Error(), "check catalog.", "nothing is wrong with the settings")
		})
	}
}

func TestCallsEndWithTheirContextWhileATokenIsAskedFor(t *testing.T) {
	lake := testenv.SharedLake(t)
	proxy := testenv.NewProxy(t, lake.CatalogURI)
	proxy.Handle(testenv.Rule{
		Match: testenv.MethodPath(http.MethodPost, tokenPath),
		Action: testenv.RewriteAnswer(func(status int, _ http.Header, body []byte) (int, []byte) {
			return status, shortLived(t, body)
		}),
	})
	c := open(t, lakeOptions(lake, proxy.URL))
	ident := createTable(t, c, lake.Namespace, "t")
	tbl := load(t, c, ident)
	proxy.ClearRules()
	held := stuck(proxy, http.MethodPost, tokenPath)
	proxy.ResetRequests()

	// The commit waits for a token first; a load made after it would wait for that commit's token.
	err := endsPromptly(t, held, func(ctx context.Context) error { return commit(ctx, t, c, tbl, "late") })
	require.Equal(t, catalog.Rejected, catalog.Classify(err), "%v", err)
	require.Zero(t, proxy.Count(isCommit))
	waiting := make(chan struct{}, 1)
	waiting <- struct{}{}
	_ = endsPromptly(t, waiting, func(ctx context.Context) error {
		_, err := c.LoadTable(ctx, ident)
		return err
	})
	waiting <- struct{}{}
	_ = endsPromptly(t, waiting, func(ctx context.Context) error {
		for _, err := range c.ListTables(ctx, ident[:1]) {
			return err
		}
		return nil
	})
	waiting <- struct{}{}
	_ = endsPromptly(t, waiting, func(ctx context.Context) error {
		_, err := c.ListNamespaces(ctx, nil)
		return err
	})
}

// Calls that wait for one token have its wait counted, each from its own start:
// one after the other they would wait for many times the timeout.
func TestTheWaitForATokenCountsInTheTimeout(t *testing.T) {
	lake := testenv.SharedLake(t)
	proxy := testenv.NewProxy(t, lake.CatalogURI)
	proxy.Handle(testenv.Rule{
		Match: testenv.MethodPath(http.MethodPost, tokenPath),
		Action: testenv.RewriteAnswer(func(status int, _ http.Header, body []byte) (int, []byte) {
			return status, shortLived(t, body)
		}),
	})
	o := lakeOptions(lake, proxy.URL)
	o.Catalog.Timeout = 3 * time.Second
	c := open(t, o)
	ident := createTable(t, c, lake.Namespace, "t")
	tbl := load(t, c, ident)
	proxy.ClearRules()
	stuck(proxy, http.MethodPost, tokenPath)
	calls := map[string]func() error{
		"load":   func() error { _, err := c.LoadTable(t.Context(), ident); return err },
		"commit": func() error { return commit(t.Context(), t, c, tbl, "late") },
		"list tables": func() error {
			for _, err := range c.ListTables(t.Context(), ident[:1]) {
				return err
			}
			return nil
		},
		"list namespaces": func() error { _, err := c.ListNamespaces(t.Context(), nil); return err },
		"open":            func() error { _, err := catalog.Open(t.Context(), o); return err },
	}
	type ended struct {
		name string
		err  error
	}
	ends := make(chan ended)
	for name, call := range calls {
		go func() { ends <- ended{name, call()} }()
	}
	for range calls {
		select {
		case e := <-ends:
			require.ErrorIs(t, e.err, context.DeadlineExceeded, e.name)
			require.ErrorContains(t, e.err, "no answer within 3s, the wait for a token included", e.name)
		case <-time.After(time.Minute):
			t.Fatal("a call does not end")
		}
	}
}
