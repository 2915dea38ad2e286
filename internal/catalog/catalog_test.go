package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	icecat "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/catalog"
	"compactor/internal/store"
	"compactor/internal/testenv"
)

func TestMain(m *testing.M) {
	store.Register()
	store.Register() // more calls do nothing
	testenv.Main(m)
}

func lakeOptions(lake *testenv.Lake, uri string) catalog.Options {
	return catalog.Options{
		Catalog: catalog.Settings{
			Type: catalog.TypeREST, URI: uri, Warehouse: lake.Warehouse, Credential: lake.AccessKey + ":" + lake.SecretKey,
		},
		Storage: store.Options{S3: store.S3Options{
			Endpoint: lake.S3Endpoint, Region: lake.Region, AccessKeyID: lake.AccessKey, SecretAccessKey: lake.SecretKey,
		}},
		UserAgent: "compactor/test",
	}
}

func sqlOptions(dir string) catalog.Options {
	return catalog.Options{Catalog: catalog.Settings{
		Type: catalog.TypeSQL, URI: filepath.Join(dir, "db", "catalog.db"), Warehouse: "file://" + filepath.Join(dir, "wh"),
	}}
}

func open(t *testing.T, o catalog.Options) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

var testSchema = iceberg.NewSchema(0,
	iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
	iceberg.NestedField{ID: 2, Name: "s", Type: iceberg.PrimitiveTypes.String})

func createTable(t *testing.T, c *catalog.Catalog, ns, name string) table.Identifier {
	t.Helper()
	ctx := c.Context(t.Context())
	err := c.Client().CreateNamespace(ctx, table.Identifier{ns}, nil)
	if !errors.Is(err, icecat.ErrNamespaceAlreadyExists) {
		require.NoError(t, err)
	}
	ident := table.Identifier{ns, name}
	_, err = c.Client().CreateTable(ctx, ident, testSchema)
	require.NoError(t, err)
	return ident
}

// commit sets a property of the table it last saw and returns the error.
func commit(ctx context.Context, t *testing.T, c *catalog.Catalog, tbl *table.Table, value string) error {
	t.Helper()
	meta, location, err := c.CommitTable(ctx, tbl.Identifier(),
		[]table.Requirement{table.AssertTableUUID(tbl.Metadata().TableUUID()), table.AssertRefSnapshotID(table.MainBranch, nil)},
		[]table.Update{table.NewSetPropertiesUpdate(iceberg.Properties{"mark": value})})
	if err == nil {
		require.Equal(t, value, meta.Properties()["mark"])
		require.NotEmpty(t, location)
	}
	return err
}

// stale is a commit on top of a snapshot that is not the head.
func stale(ctx context.Context, c *catalog.Catalog, ident table.Identifier) error {
	old := int64(42)
	_, _, err := c.CommitTable(ctx, ident, []table.Requirement{table.AssertRefSnapshotID(table.MainBranch, &old)},
		[]table.Update{table.NewSetPropertiesUpdate(iceberg.Properties{"mark": "stale"})})
	return err
}

func load(t *testing.T, c *catalog.Catalog, ident table.Identifier) *table.Table {
	t.Helper()
	tbl, err := c.LoadTable(t.Context(), ident)
	require.NoError(t, err)
	return tbl
}

func TestTablesAreLoadedAndCommittedOnEveryKind(t *testing.T) {
	lake := testenv.SharedLake(t)
	for name, o := range map[string]catalog.Options{
		"rest":   lakeOptions(lake, lake.CatalogURI),
		"sqlite": sqlOptions(t.TempDir()),
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, o)
			ident := createTable(t, c, lake.Namespace, "events")
			tbl := load(t, c, ident)
			require.Equal(t, ident, tbl.Identifier())
			require.NoError(t, commit(t.Context(), t, c, tbl, "one"))
			require.Equal(t, "one", load(t, c, ident).Properties()["mark"], "a load is always fresh")

			f, err := tbl.FS(t.Context())
			require.NoError(t, err)
			require.IsType(t, &store.FS{}, f)
			files := f.(*store.FS)
			require.NoError(t, files.WriteFile(tbl.Location()+"/data/x.parquet", []byte("x")))
			var listed []string
			for o, err := range files.List(t.Context(), tbl.Location()) {
				require.NoError(t, err)
				listed = append(listed, strings.TrimPrefix(o.Path, tbl.Location()))
			}
			require.Contains(t, listed, "/data/x.parquet")

			err = stale(t.Context(), c, ident)
			require.Equal(t, catalog.Conflict, catalog.Classify(err), "%v", err)

			var names []string
			for id, err := range c.ListTables(t.Context(), table.Identifier{lake.Namespace}) {
				require.NoError(t, err)
				names = append(names, strings.Join(id, "."))
			}
			require.Equal(t, []string{lake.Namespace + ".events"}, names)
			namespaces, err := c.ListNamespaces(t.Context(), nil)
			require.NoError(t, err)
			require.Contains(t, namespaces, table.Identifier{lake.Namespace})
		})
	}
}

func TestAFileIOIsBoundToTheCallersContext(t *testing.T) {
	c := open(t, sqlOptions(t.TempDir()))
	tbl := load(t, c, createTable(t, c, "n", "t"))
	first, cancel := context.WithCancel(t.Context())
	f, err := tbl.FS(first)
	require.NoError(t, err)
	cancel()
	_, err = f.Open(tbl.MetadataLocation())
	require.ErrorIs(t, err, context.Canceled)
	f, err = tbl.FS(t.Context())
	require.NoError(t, err)
	file, err := f.Open(tbl.MetadataLocation())
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

func TestMissingTablesComeWithTheNearestNames(t *testing.T) {
	c := open(t, sqlOptions(t.TempDir()))
	createTable(t, c, "sales", "orders")
	createTable(t, c, "sales", "order_lines")
	for want, ident := range map[string]table.Identifier{
		"namespace sales has orders":                  {"sales", "order"},
		"2 tables and none with a similar name":       {"sales", "unrelated"},
		"there is no namespace sale, but sales":       {"sale", "orders"},
		"there is no namespace something.else.at.all": {"something", "else", "at", "all", "t"},
	} {
		_, err := c.LoadTable(t.Context(), ident)
		require.ErrorIs(t, err, icecat.ErrNoSuchTable)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "load table "+strings.Join(ident, "."))
	}
}

func TestCanonicalNamesAreTheCatalogsOwn(t *testing.T) {
	c := open(t, sqlOptions(t.TempDir()))
	ident := createTable(t, c, "sales", "Orders")
	got, err := c.Canonical(t.Context(), table.Identifier{"sales", "Orders"})
	require.NoError(t, err)
	require.Equal(t, ident, got)
	got, err = c.Canonical(t.Context(), table.Identifier{"sales", "orders"})
	require.NoError(t, err)
	require.Equal(t, table.Identifier{"sales", "orders"}, got, "this catalog tells case apart")
}

func TestBindPutsAnotherCommitBehindATable(t *testing.T) {
	c := open(t, sqlOptions(t.TempDir()))
	ident := createTable(t, c, "n", "t")
	guard := &recorder{Catalog: c}
	tbl := catalog.Bind(load(t, c, ident), guard)
	txn := tbl.NewTransaction()
	require.NoError(t, txn.SetProperties(iceberg.Properties{"mark": "guarded"}))
	_, err := txn.Commit(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, guard.commits)
	require.Equal(t, "guarded", load(t, c, ident).Properties()["mark"])
}

type recorder struct {
	*catalog.Catalog
	commits int
}

func (r *recorder) CommitTable(ctx context.Context, id table.Identifier, reqs []table.Requirement, ups []table.Update) (table.Metadata, string, error) {
	r.commits++
	return r.Catalog.CommitTable(ctx, id, reqs, ups)
}

func TestTheWholeHistoryIsAskedForWhateverTheServerPrefers(t *testing.T) {
	lake := testenv.SharedLake(t)
	proxy := testenv.NewProxy(t, lake.CatalogURI)
	proxy.Handle(testenv.Rule{
		Match: testenv.MethodPath(http.MethodGet, "/v1/config"),
		Action: testenv.RewriteAnswer(func(status int, _ http.Header, body []byte) (int, []byte) {
			var conf map[string]any
			require.NoError(t, json.Unmarshal(body, &conf))
			conf["defaults"] = map[string]any{"snapshot-loading-mode": "refs"}
			overrides, _ := conf["overrides"].(map[string]any)
			if overrides == nil {
				overrides = map[string]any{}
			}
			overrides["snapshot-loading-mode"] = "refs"
			conf["overrides"] = overrides
			changed, err := json.Marshal(conf)
			require.NoError(t, err)
			return status, changed
		}),
	})
	c := open(t, lakeOptions(lake, proxy.URL))
	ident := createTable(t, c, lake.Namespace, "t")
	proxy.ResetRequests()
	load(t, c, ident)
	requests := proxy.Requests()
	require.Len(t, requests, 1)
	require.Equal(t, "all", requests[0].Query.Get("snapshots"))
	require.Equal(t, "compactor/test", requests[0].Header.Get("User-Agent"))
}

func TestWrongSettingsAreExplained(t *testing.T) {
	lake := testenv.SharedLake(t)
	for name, test := range map[string]struct {
		change func(*catalog.Options)
		want   string
	}{
		"hive":           {func(o *catalog.Options) { o.Catalog.Type = catalog.TypeHive }, "no compare-and-swap"},
		"hadoop":         {func(o *catalog.Options) { o.Catalog.Type = catalog.TypeHadoop }, "no compare-and-swap"},
		"unknown type":   {func(o *catalog.Options) { o.Catalog.Type = "nessie" }, "not one of rest, sql, glue"},
		"no URL":         {func(o *catalog.Options) { o.Catalog.URI = "localhost:8181" }, "has to be an http or https URL"},
		"two secrets":    {func(o *catalog.Options) { o.Catalog.Token = "x" }, "not both"},
		"skip verify":    {func(o *catalog.Options) { o.Catalog.Properties = map[string]string{"rest.tls.skip-verify": "true"} }, "CA certificate"},
		"unreachable":    {func(o *catalog.Options) { o.Catalog.URI = "http://127.0.0.1:1" }, "cannot be reached: check catalog.uri"},
		"wrong secret":   {func(o *catalog.Options) { o.Catalog.Credential = "admin:wrong" }, "no token was granted"},
		"wrong path":     {func(o *catalog.Options) { o.Catalog.URI += "/elsewhere" }, "often with a path such as /catalog"},
		"other database": {func(o *catalog.Options) { o.Catalog.Type, o.Catalog.URI = catalog.TypeSQL, "mysql://h/db" }, "only SQLite"},
	} {
		t.Run(name, func(t *testing.T) {
			o := lakeOptions(lake, lake.CatalogURI)
			test.change(&o)
			_, err := catalog.Open(t.Context(), o)
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, err.Error(), lake.SecretKey)
		})
	}
	o := lakeOptions(lake, "nowhere")
	o.Storage.S3.SecretAccessKey, o.Catalog.Timeout = "", -time.Second
	_, err := catalog.Open(t.Context(), o)
	for _, want := range []string{"URL", "secret key", "timeout"} {
		require.ErrorContains(t, err, want, "all violations at once")
	}
}

func TestTheDatabaseIsMadeOnDemandUnderItsOwnName(t *testing.T) {
	for _, prefix := range []string{"", "sqlite:", "sqlite://", "file://"} {
		dir := filepath.Join(t.TempDir(), "a b?c")
		o := sqlOptions(dir)
		o.Catalog.URI = prefix + o.Catalog.URI
		c := open(t, o)
		createTable(t, c, "n", "t")
		_, err := os.Stat(filepath.Join(dir, "db", "catalog.db"))
		require.NoError(t, err, prefix)

		other := open(t, o)
		require.Equal(t, table.Identifier{"n", "t"}, load(t, other, table.Identifier{"n", "t"}).Identifier())
	}
}
