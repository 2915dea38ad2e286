package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"

	"compactor/internal/store"
	"compactor/internal/store/storetest"
)

// What the other backends promise holds for the Go CDK too.
func TestBlobConformance(t *testing.T) {
	storetest.Conformance(t, func(t *testing.T) storetest.Target {
		dir := t.TempDir()
		bucket, err := fileblob.OpenBucket(dir, &fileblob.Options{NoTempDir: true, Metadata: fileblob.MetadataDontWrite})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, bucket.Close()) })
		var s *store.Store
		s, err = store.New(store.Options{
			SmallObject: 1 << 20, PartSize: 5 << 20,
			Schemes: map[string]store.Factory{"mem": func(context.Context, map[string]string) (store.Backend, error) {
				return s.BlobBackend(func(context.Context, string) (*blob.Bucket, error) { return bucket, nil }), nil
			}},
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return storetest.Target{Store: s, Root: "mem://bucket/root", Pending: func(t *testing.T) []string {
			var pending []string
			require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
				if strings.Contains(d.Name(), ".tmp") {
					pending = append(pending, p)
				}
				return err
			}))
			return pending
		}}
	})
}

// cloud is a server that knows just enough of Google's and Azure's protocols
// to list, and remembers what it was asked with.
type cloud struct {
	mu       sync.Mutex
	requests []*http.Request
	answer   func(w http.ResponseWriter, r *http.Request)
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // Nothing of it matters.
	c.mu.Lock()
	c.requests = append(c.requests, r.Clone(context.WithoutCancel(r.Context())))
	c.mu.Unlock()
	w.Header().Set("Date", time.Now().Add(48*time.Hour).UTC().Format(http.TimeFormat))
	c.answer(w, r)
}

func (c *cloud) first(t *testing.T) *http.Request {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.NotEmpty(t, c.requests)
	return c.requests[0]
}

func listAll(t *testing.T, o store.Options, props map[string]string, prefix string) []store.Object {
	t.Helper()
	s, err := store.New(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	var out []store.Object
	for obj, err := range s.FS(t.Context(), props).List(t.Context(), prefix) {
		require.NoError(t, err)
		out = append(out, obj)
	}
	return out
}

func TestGoogleIsReachedByItsOwnProtocol(t *testing.T) {
	updated := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := &cloud{answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "storage#objects", "items": []any{
			map[string]any{"name": "t/data/a b%20c.parquet", "bucket": "b", "size": "7", "updated": updated.Format(time.RFC3339)},
		}}) // The client notices.
	}}
	server := httptest.NewServer(c)
	defer server.Close()
	got := listAll(t, store.Options{GCS: store.GCSOptions{Endpoint: server.URL + "/storage/v1/", NoAuth: true}}, nil, "gs://b/t")
	require.Len(t, got, 1)
	require.Equal(t, "gs://b/t/data/a b%20c.parquet", got[0].Path)
	require.EqualValues(t, 7, got[0].Size)
	require.True(t, updated.Equal(got[0].ModTime))
	require.WithinDuration(t, time.Now().Add(48*time.Hour), got[0].Listed, time.Minute, "by the server's clock")
	require.Empty(t, c.first(t).Header.Get("Authorization"))

	c.requests = nil
	listAll(t, store.Options{GCS: store.GCSOptions{Endpoint: server.URL + "/storage/v1/"}}, map[string]string{
		"gcs.oauth2.token": "vended", "gcs.oauth2.token-expires-at": fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()),
	}, "gs://b/t")
	require.Equal(t, "Bearer vended", c.first(t).Header.Get("Authorization"))
}

func TestAzureIsReachedWithEveryKindOfCredential(t *testing.T) {
	c := &cloud{answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		_, _ = io.WriteString(w, `<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="c"><Blobs><Blob><Name>t/data/x y.parquet</Name>`+
			`<Properties><Last-Modified>Fri, 02 Jan 2026 03:04:05 GMT</Last-Modified><Content-Length>7</Content-Length></Properties></Blob></Blobs>`+
			`<NextMarker/></EnumerationResults>`) // The client notices.
	}}
	server := httptest.NewServer(c)
	defer server.Close()
	const key = "c2VjcmV0" // base64 of a word
	u, err := url.Parse(server.URL)
	require.NoError(t, err)
	connection := "DefaultEndpointsProtocol=http;AccountName=acct;AccountKey=" + key + ";BlobEndpoint=http://" + u.Host + "/acct;"
	for name, k := range map[string]struct {
		o     store.AzureOptions
		props map[string]string
		sas   bool
	}{
		"connection string": {o: store.AzureOptions{ConnectionString: connection}},
		"shared key":        {o: store.AzureOptions{AccountName: "acct", AccountKey: key, Endpoint: server.URL + "/acct"}},
		"sas token":         {o: store.AzureOptions{AccountName: "acct", SASToken: "?sv=1&sig=abc", Endpoint: server.URL + "/acct"}, sas: true},
		"vended sas token": {o: store.AzureOptions{Endpoint: server.URL + "/acct"},
			props: map[string]string{"adls.sas-token.acct.dfs.core.windows.net": "sv=1&sig=abc"}, sas: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.requests = nil
			got := listAll(t, store.Options{Azure: k.o}, k.props, "abfss://c@acct.dfs.core.windows.net/t")
			require.Len(t, got, 1)
			require.Equal(t, "abfss://c@acct.dfs.core.windows.net/t/data/x y.parquet", got[0].Path)
			require.WithinDuration(t, time.Now().Add(48*time.Hour), got[0].Listed, time.Minute)
			r := c.first(t)
			require.Equal(t, "/acct/c", strings.TrimSuffix(r.URL.Path, "/"))
			require.Equal(t, k.sas, r.URL.Query().Get("sig") == "abc")
			require.Equal(t, !k.sas, strings.HasPrefix(r.Header.Get("Authorization"), "SharedKey acct:"))
		})
	}
}

// The limit of requests holds for Azure and Google too: the second of two has to wait for its second.
func TestRequestsToEveryStoreAreSpread(t *testing.T) {
	c := &cloud{answer: func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/acct/") {
			w.Header().Set("Content-Type", "application/xml")
			_, _ = io.WriteString(w, `<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="c"><Blobs/><NextMarker/></EnumerationResults>`) // The client notices.
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind": "storage#objects"}`) // The client notices.
	}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	for prefix, o := range map[string]store.Options{
		"gs://b/t": {GCS: store.GCSOptions{Endpoint: server.URL + "/storage/v1/", NoAuth: true}},
		"abfss://c@acct.dfs.core.windows.net/t": {Azure: store.AzureOptions{
			AccountName: "acct", SASToken: "sv=1&sig=abc", Endpoint: server.URL + "/acct",
		}},
	} {
		t.Run(prefix, func(t *testing.T) {
			t.Parallel()
			o.RequestsPerSecond = 1
			s, err := store.New(o)
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			_, known := s.ClockOffset()
			require.False(t, known, "nothing was asked yet")
			began := time.Now()
			for range 2 {
				for _, err := range s.FS(t.Context(), nil).List(t.Context(), prefix) {
					require.NoError(t, err)
				}
			}
			require.GreaterOrEqual(t, time.Since(began), time.Second)
			ahead, known := s.ClockOffset()
			require.True(t, known)
			require.InDelta(t, 48*time.Hour, ahead, float64(time.Minute))
		})
	}
}
