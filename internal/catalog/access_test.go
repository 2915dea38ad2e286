package catalog_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/catalog"
	"compactor/internal/store"
	"compactor/internal/testenv"
)

// vend makes a catalog that answers every load with these FileIO properties.
func vend(proxy *testenv.Proxy, props func() map[string]any, inCredentials bool) {
	proxy.Handle(testenv.Rule{
		Match: testenv.MethodPath(http.MethodGet, "/v1/*/namespaces/*/tables/*"),
		Action: testenv.RewriteAnswer(func(status int, _ http.Header, body []byte) (int, []byte) {
			var answer map[string]any
			if json.Unmarshal(body, &answer) != nil {
				return status, body
			}
			answer["config"] = map[string]any{}
			if inCredentials {
				answer["storage-credentials"] = []any{map[string]any{"prefix": "s3://", "config": props()}}
			} else {
				answer["config"] = props()
			}
			changed, err := json.Marshal(answer)
			if err != nil {
				return http.StatusInternalServerError, nil
			}
			return status, changed
		}),
	})
}

func isLoad(r testenv.Request) bool {
	return testenv.Is(http.MethodGet, "/v1/*/namespaces/*/tables/*")(r)
}

func TestVendedCredentialsServeTheTableAndAreRenewed(t *testing.T) {
	for name, inCredentials := range map[string]bool{"in config": false, "in storage-credentials": true} {
		t.Run(name, func(t *testing.T) {
			lake := testenv.SharedLake(t)
			ident := createTable(t, open(t, lakeOptions(lake, lake.CatalogURI)), lake.Namespace, "t")
			proxy := testenv.NewProxy(t, lake.CatalogURI)
			life := -time.Minute // over when they arrive
			vend(proxy, func() map[string]any {
				return map[string]any{
					"s3.access-key-id": lake.AccessKey, "s3.secret-access-key": lake.SecretKey,
					"s3.endpoint": lake.S3Endpoint, "s3.region": lake.Region,
					"s3.session-token-expires-at-ms": strconv.FormatInt(time.Now().Add(life).UnixMilli(), 10),
				}
			}, inCredentials)
			o := lakeOptions(lake, proxy.URL)
			o.Storage.S3 = store.S3Options{}
			c := open(t, o)
			tbl := load(t, c, ident)
			proxy.ResetRequests()

			life = time.Hour
			for range 3 {
				f, err := tbl.FS(t.Context())
				require.NoError(t, err)
				_, err = f.(*store.FS).ReadFile(tbl.MetadataLocation())
				require.NoError(t, err)
				require.WithinDuration(t, time.Now().Add(time.Hour), f.(*store.FS).CredentialsExpire(), time.Minute)
			}
			require.Equal(t, 1, proxy.Count(isLoad), "renewed once, then good for an hour")
		})
	}
}

func TestTheOperatorsKeysWinAndTheCatalogsWordOnDeletesIsKept(t *testing.T) {
	lake := testenv.SharedLake(t)
	ident := createTable(t, open(t, lakeOptions(lake, lake.CatalogURI)), lake.Namespace, "t")
	proxy := testenv.NewProxy(t, lake.CatalogURI)
	vend(proxy, func() map[string]any {
		return map[string]any{
			"s3.access-key-id": "other", "s3.secret-access-key": "other", "s3.session-token": "other",
			"s3.endpoint": "http://127.0.0.1:1", "s3.delete-enabled": "false", "s3.remote-signing-enabled": "true",
			"s3.session-token-expires-at-ms": "1",
		}
	}, false)
	tbl := load(t, open(t, lakeOptions(lake, proxy.URL)), ident)
	f, err := tbl.FS(t.Context())
	require.NoError(t, err)
	_, err = f.(*store.FS).ReadFile(tbl.MetadataLocation())
	require.NoError(t, err)
	require.True(t, f.(*store.FS).DeletesDisabled())
	require.Equal(t, 1, proxy.Count(isLoad), "vended keys that are not used need no renewal")

	o := lakeOptions(lake, proxy.URL)
	o.Storage.S3 = store.S3Options{}
	tbl = load(t, open(t, o), ident)
	f, err = tbl.FS(t.Context())
	require.NoError(t, err)
	_, err = f.Open(tbl.MetadataLocation())
	require.ErrorIs(t, err, store.ErrRemoteSigning)
}

func TestSigV4AndATokenOpenTheCatalogToo(t *testing.T) {
	lake := testenv.SharedLake(t)
	ident := createTable(t, open(t, lakeOptions(lake, lake.CatalogURI)), lake.Namespace, "t")

	signed := lakeOptions(lake, lake.CatalogURI)
	signed.Catalog.Credential = ""
	signed.Catalog.SigV4, signed.Catalog.SigningName, signed.Catalog.SigningRegion = true, "s3tables", lake.Region
	c := open(t, signed)
	require.NoError(t, commit(t.Context(), t, c, load(t, c, ident), "signed"))

	resp, err := http.PostForm(lake.CatalogURI+"/v1/oauth/tokens", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {lake.AccessKey}, "client_secret": {lake.SecretKey}, "scope": {"catalog"},
	})
	require.NoError(t, err)
	var token struct {
		AccessToken string `json:"access_token"`
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&token))
	require.NoError(t, resp.Body.Close())
	static := lakeOptions(lake, lake.CatalogURI)
	static.Catalog.Credential, static.Catalog.Token = "", token.AccessToken
	c = open(t, static)
	require.Equal(t, "signed", load(t, c, ident).Properties()["mark"])
	require.NoError(t, commit(t.Context(), t, c, load(t, c, ident), "token"))

	static.Catalog.Token = "wrong"
	_, err = catalog.Open(t.Context(), static)
	if err == nil { // this server hands out its configuration to anybody
		_, err = open(t, static).LoadTable(t.Context(), ident)
	}
	require.ErrorContains(t, err, "catalog.token")
}

func TestATokenServerElsewhereIsUsed(t *testing.T) {
	lake := testenv.SharedLake(t)
	tokens := testenv.NewProxy(t, lake.CatalogURI)
	o := lakeOptions(lake, lake.CatalogURI)
	o.Catalog.OAuth2ServerURI, o.Catalog.Scope = tokens.URL+"/v1/oauth/tokens", "PRINCIPAL_ROLE:ALL"
	tokens.Handle(testenv.Rule{Before: func(r *http.Request) {
		if err := r.ParseForm(); err == nil && r.Form.Get("scope") != "PRINCIPAL_ROLE:ALL" {
			t.Errorf("scope %q", r.Form.Get("scope"))
		}
	}})
	open(t, o)
	require.NotZero(t, tokens.Count(testenv.Is(http.MethodPost, "/v1/oauth/tokens")))
}

func TestACertificateOfOnesOwnIsTrustedByName(t *testing.T) {
	lake := testenv.SharedLake(t)
	secure := func(target string) (string, string) {
		u, err := url.Parse(target)
		require.NoError(t, err)
		server := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = u.Scheme, u.Host, r.In.Host // the signature covers the host
		}})
		t.Cleanup(server.Close)
		file := filepath.Join(t.TempDir(), "ca.pem")
		cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		require.NoError(t, os.WriteFile(file, cert, 0o600))
		return server.URL, file
	}
	o := lakeOptions(lake, lake.CatalogURI)
	o.Catalog.URI, o.Catalog.CACert = secure(lake.CatalogURI)
	o.Storage.S3.Endpoint, o.Storage.S3.CACert = secure(lake.S3Endpoint)
	c := open(t, o)
	tbl := load(t, c, createTable(t, c, lake.Namespace, "t"))
	f, err := tbl.FS(t.Context())
	require.NoError(t, err)
	require.NoError(t, f.(*store.FS).WriteFile(tbl.Location()+"/data/x.parquet", make([]byte, 9<<20)))
	data, err := f.(*store.FS).ReadFile(tbl.Location() + "/data/x.parquet")
	require.NoError(t, err)
	require.Len(t, data, 9<<20)

	o.Catalog.CACert = ""
	_, err = catalog.Open(t.Context(), o)
	require.ErrorContains(t, err, "certificate")
	o.Catalog.CACert = filepath.Join(t.TempDir(), "none.pem")
	_, err = catalog.Open(t.Context(), o)
	require.ErrorContains(t, err, "read CA certificates")
}

func TestRequestsWithoutADeadlineEndAtTheTimeout(t *testing.T) {
	lake := testenv.SharedLake(t)
	proxy := testenv.NewProxy(t, lake.CatalogURI)
	o := lakeOptions(lake, proxy.URL)
	o.Catalog.Timeout = 2 * time.Second
	c := open(t, o)
	tbl := load(t, c, createTable(t, c, lake.Namespace, "t"))
	proxy.Handle(testenv.Rule{Match: testenv.MethodPath("", "/v1/*/namespaces/*/tables/*"), Action: testenv.Delay(time.Minute)})
	start := time.Now()
	_, err := c.LoadTable(t.Context(), tbl.Identifier())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "did not answer in time")
	err = commit(context.WithoutCancel(t.Context()), t, c, tbl, "x")
	require.Equal(t, catalog.Unknown, catalog.Classify(err))
	require.Less(t, time.Since(start), 20*time.Second)
}

func TestACatalogServesTablesSideBySide(t *testing.T) {
	// Two catalogs with different stores in one process do not mix them up.
	lake := testenv.SharedLake(t)
	counted := &store.Counters{}
	o := sqlOptions(t.TempDir())
	o.Counters = counted
	local, remote := open(t, o), open(t, lakeOptions(lake, lake.CatalogURI))
	createTable(t, local, "n", "t")
	before := counted.Totals()
	tbl := load(t, remote, createTable(t, remote, lake.Namespace, "t"))
	f, err := tbl.FS(t.Context())
	require.NoError(t, err)
	_, err = f.(*store.FS).ReadFile(tbl.MetadataLocation())
	require.NoError(t, err)
	require.Equal(t, before, counted.Totals())
	require.NotZero(t, remote.Store().Counters().Gets.Load())
	load(t, local, table.Identifier{"n", "t"})
	require.NotEqual(t, before, counted.Totals())
	require.True(t, strings.HasPrefix(tbl.Location(), lake.Warehouse))
}

func TestAVendedFileIOOutlivesTheContextOfItsFirstUse(t *testing.T) {
	lake := testenv.SharedLake(t)
	ident := createTable(t, open(t, lakeOptions(lake, lake.CatalogURI)), lake.Namespace, "t")
	proxy := testenv.NewProxy(t, lake.CatalogURI)
	vend(proxy, func() map[string]any {
		return map[string]any{
			"s3.access-key-id": lake.AccessKey, "s3.secret-access-key": lake.SecretKey, "s3.endpoint": lake.S3Endpoint,
			"s3.session-token-expires-at-ms": strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10),
		}
	}, true)
	o := lakeOptions(lake, proxy.URL)
	o.Storage.S3 = store.S3Options{}
	tbl := load(t, open(t, o), ident)

	first, cancel := context.WithCancel(t.Context())
	_, err := tbl.FS(first)
	require.NoError(t, err)
	cancel()
	f, err := tbl.FS(t.Context()) // the client library keeps the FileIO it made under the first context
	require.NoError(t, err)
	_, err = f.(*store.FS).ReadFile(tbl.MetadataLocation())
	require.NoError(t, err)
}
