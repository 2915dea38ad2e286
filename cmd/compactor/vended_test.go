package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/internal/testenv"
)

// vendor makes the catalog hand out S3 keys that end after a time, and stands
// before the S3 server as the one that knows them: a key that has ended is
// refused. What it lets through it signs with the server's own key.
type vendor struct {
	w     *world
	life  time.Duration
	pause time.Duration // before each answer to a read of a data file, one after the other
	turn  chan struct{}
	next  http.Handler

	mu      sync.Mutex
	ends    map[string]time.Time
	used    map[string]bool
	refused int
}

func newVendor(w *world, life, pause time.Duration, inCredentials bool) (v *vendor, endpoint string) {
	target, err := url.Parse(w.lake.S3Endpoint)
	require.NoError(w.t, err)
	v = &vendor{w: w, life: life, pause: pause, ends: map[string]time.Time{}, used: map[string]bool{}, turn: make(chan struct{}, 1)}
	v.next = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = target.Host
		v.sign(r.Out)
	}}
	server := httptest.NewServer(v)
	w.t.Cleanup(server.Close)
	w.catalog.Handle(testenv.Rule{
		Match: func(r *http.Request) bool {
			return r.Method == "GET" && strings.HasSuffix(r.URL.Path, "/tables/"+w.ident[1])
		},
		Action: testenv.RewriteAnswer(func(status int, h http.Header, body []byte) (int, []byte) {
			var doc map[string]json.RawMessage
			if json.Unmarshal(body, &doc) != nil {
				return status, body
			}
			if inCredentials {
				doc["storage-credentials"] = encode([]any{map[string]any{"prefix": "s3://", "config": v.vend()}})
			} else {
				doc["config"] = encode(v.vend())
			}
			h.Del("Content-Length")
			body = encode(doc)

			return status, body
		}),
	})

	return v, server.URL
}

// encode is for what cannot fail. Numbers of the original answer stay as they
// are written: ids of snapshots do not fit into a float.
func encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // Maps of strings and raw messages.

	return raw
}

func (v *vendor) vend() map[string]any {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := fmt.Sprintf("VENDED%d", len(v.ends))
	end := time.Now().Add(v.life)
	v.ends[key] = end

	return map[string]any{
		"s3.access-key-id": key, "s3.secret-access-key": "secret of " + key, "s3.session-token": "token of " + key,
		"s3.session-token-expires-at-ms": strconv.FormatInt(end.UnixMilli(), 10),
	}
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, key, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, _ = strings.Cut(key, "/")
	v.mu.Lock()
	end, known := v.ends[key]
	good := known && time.Now().Before(end) && r.Header.Get("X-Amz-Security-Token") == "token of "+key
	v.used[key] = true
	if !good {
		v.refused++
	}
	v.mu.Unlock()
	if !good {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>`)) // The client notices.

		return
	}
	if v.pause > 0 && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, ".parquet") {
		v.wait(r.Context())
	}
	v.next.ServeHTTP(w, r)
}

func (v *vendor) wait(ctx context.Context) {
	select {
	case v.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-v.turn }()
	timer := time.NewTimer(v.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (v *vendor) sign(r *http.Request) {
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token", "X-Forwarded-For"} {
		r.Header.Del(name)
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	err := signer.SignHTTP(r.Context(), aws.Credentials{AccessKeyID: v.w.lake.AccessKey, SecretAccessKey: v.w.lake.SecretKey},
		r, r.Header.Get("X-Amz-Content-Sha256"), "s3", v.w.lake.Region, time.Now())
	if err != nil {
		v.w.t.Errorf("sign: %v", err)
	}
}

// jobOutlivesItsCredentials compacts with keys that end several times while
// the one group is being read.
func jobOutlivesItsCredentials(t *testing.T, life, pause time.Duration, inCredentials bool) {
	t.Helper()
	w := newWorld(t)
	tbl := tabletest.FragmentAtOnce(t, w.create(), 30, 5)
	before := tabletest.Rows(t, tbl)
	v, endpoint := newVendor(w, life, pause, inCredentials)
	delete(w.env, "COMPACTOR_STORAGE_S3_ACCESS_KEY_ID")
	delete(w.env, "COMPACTOR_STORAGE_S3_SECRET_ACCESS_KEY")
	started := time.Now()
	r := w.compact("--s3-endpoint", endpoint, "--max-hold", "0", "--parallel-groups", "1", "--claim-timeout", "10s")
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	took := time.Since(started)
	require.Greater(t, took, 3*life, "the job outlived three lives of its keys")
	require.Equal(t, before, tabletest.Rows(t, w.load()))
	require.Len(t, tabletest.Files(t, w.load()), 1)
	v.mu.Lock()
	defer v.mu.Unlock()
	require.GreaterOrEqual(t, len(v.used), 3)
	require.Zero(t, v.refused, "keys are renewed before they end")
	require.Less(t, len(v.ends), 12*int(took/life)+12, "a key is used for a while, not for one request")
}

func TestAJobOutlivesItsVendedCredentials(t *testing.T) {
	t.Parallel()
	t.Run("in storage-credentials", func(t *testing.T) {
		t.Parallel()
		jobOutlivesItsCredentials(t, 4*time.Second, 450*time.Millisecond, true)
	})
	t.Run("in config", func(t *testing.T) {
		t.Parallel()
		jobOutlivesItsCredentials(t, 4*time.Second, 450*time.Millisecond, false)
	})
}

// A catalog that wants to sign every request itself is refused in words.
func TestRemoteSigningIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tabletest.FragmentAtOnce(t, w.create(), 6, 2)
	w.catalogSends("s3.remote-signing-enabled", "true")
	delete(w.env, "COMPACTOR_STORAGE_S3_ACCESS_KEY_ID")
	delete(w.env, "COMPACTOR_STORAGE_S3_SECRET_ACCESS_KEY")
	for _, command := range []string{"compact", "orphans"} {
		r := w.compactor(command, "--config", w.config, "--output", "json", w.name())
		require.Equal(t, 1, r.code, r.stdout+r.stderr)
		require.Contains(t, r.stdout, "remote signing")
	}
}
