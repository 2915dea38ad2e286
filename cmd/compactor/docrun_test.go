package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"compactor/internal/store"
	"compactor/internal/tabletest"
	"compactor/internal/testenv"
)

// docWorld is the lake of the documentation, on servers of its own, so that names
// can be the ones in the pages.
type docWorld struct {
	*world
	server *testenv.PostgresServer
	bin    string // folder with the program, as it is built for use
	deploy string // ColdFront's deployment file
}

func newDocWorld(t *testing.T) *docWorld {
	t.Helper()
	lake, server := testenv.NewLake(t), testenv.NewPostgres(t, testenv.PostgresOptions{})
	conn, err := pgx.Connect(t.Context(), server.DSN("postgres"))
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "CREATE DATABASE claims")
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	w := &world{t: t, lake: lake, catalog: testenv.NewProxy(t, lake.CatalogURI), s3: testenv.NewProxy(t, lake.S3Endpoint), mode: "advisory"}
	store.Register()
	w.direct = w.open(lake.CatalogURI)
	d := &docWorld{world: w, server: server, bin: t.TempDir()}
	require.NoError(t, os.Rename(built(t), filepath.Join(d.bin, "compactor")))

	catalog, err := url.Parse(w.catalog.URL)
	require.NoError(t, err)
	lakekeeper := httptest.NewServer(http.StripPrefix("/catalog", httputil.NewSingleHostReverseProxy(catalog)))
	t.Cleanup(lakekeeper.Close)
	d.deploy = fmt.Sprintf("postgres: {dsn: %q}\niceberg: {warehouse: %q, lakekeeper_endpoint: %s}\ns3: {endpoint: %s, region: %s, access_key: %q, secret_key: %q, use_ssl: false}\n",
		server.DSN("claims"), lake.Warehouse, lakekeeper.URL, strings.TrimPrefix(w.s3.URL, "http://"), lake.Region, lake.AccessKey, lake.SecretKey)

	return d
}

// docTables are the tables that the pages speak of.
func docTables() []table.Identifier {
	return []table.Identifier{{"sales", "orders"}, {"sales", "returns"}, {"hr", "people"}, {"scratch", "tmp"}, {"public", "orders"}}
}

// fragment makes those that are missing, with a dozen small files each, and adds as
// many to those in sales; sales.returns has a row deleted as well.
func (d *docWorld) fragment() {
	d.t.Helper()
	for _, ident := range docTables() {
		ctx := context.Background()
		tbl, err := d.direct.LoadTable(ctx, ident)
		if err != nil {
			tabletest.Create(d.direct.Context(ctx), d.t, d.direct.Client(), ident, tabletest.Schema(),
				props(table.WriteDeleteModeKey, table.WriteModeMergeOnRead))
			tbl, err = d.direct.LoadTable(ctx, ident)
		} else if ident[0] != "sales" {
			continue
		}
		require.NoError(d.t, err)
		tbl = tabletest.FragmentAtOnce(d.t, tbl, 12, 3)
		if ident[1] == "returns" {
			tabletest.DeleteWhere(d.t, tbl, iceberg.EqualTo(iceberg.Reference("id"), int64(2)))
		}
	}
}

// shell is the environment of a reader who has set everything up.
func (d *docWorld) shell() []string {
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "COMPACTOR_") })

	return append(own,
		"PATH="+d.bin+string(filepath.ListSeparator)+os.Getenv("PATH"),
		"CATALOG_URI="+d.catalog.URL, "WAREHOUSE="+d.lake.Warehouse, "S3_ENDPOINT="+d.s3.URL, "TABLE=sales.orders",
		"COMPACTOR_CATALOG_CREDENTIAL="+d.lake.AccessKey+":"+d.lake.SecretKey,
		"COMPACTOR_STORAGE_S3_ACCESS_KEY_ID="+d.lake.AccessKey,
		"COMPACTOR_STORAGE_S3_SECRET_ACCESS_KEY="+d.lake.SecretKey,
		"COMPACTOR_CLAIM_POSTGRES="+d.server.DSN("claims"),
		"ADMIN_DSN="+d.server.DSN("postgres"),
		fmt.Sprintf("ROLE_DSN=postgres://compactor:change-me@127.0.0.1:%d/claims", d.server.Port),
	)
}

// run carries out the commands of a page as they stand there, in one shell, in a
// folder with the two configuration files that the pages name.
func (d *docWorld) run(t *testing.T, page string, blocks []docBlock) string {
	t.Helper()
	dir := t.TempDir()
	script := "set -euo pipefail\n"
	for _, b := range blocks {
		script += fmt.Sprintf("echo '== %s'\n%s\n", b.where(), b.text)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "deploy.yaml"), []byte(d.deploy), 0o600))
	if page != "docs/getting-started.md" { // That one makes its own.
		text := fmt.Sprintf("catalog: {type: rest, uri: %q, warehouse: %q}\nstorage: {s3: {endpoint: %q, region: %s, url_style: path}}\nclaim: {mode: advisory}\n",
			d.catalog.URL, d.lake.Warehouse, d.s3.URL, d.lake.Region)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "compactor.yaml"), []byte(text), 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir, cmd.Env = dir, d.shell()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)

	return string(out)
}

// The commands of the documentation work, page by page, in the order in which they
// stand.
func TestDocCommands(t *testing.T) {
	t.Parallel()
	d := newDocWorld(t)
	ran := 0
	for _, page := range docPages(t) {
		blocks := slices.DeleteFunc(docBlocks(t, page), func(b docBlock) bool { return b.kind != "sh" || b.reason(t) != "" })
		if len(blocks) == 0 {
			continue
		}
		d.fragment()
		ok := t.Run(page, func(t *testing.T) {
			before := d.rows(t)
			out := d.run(t, page, blocks)
			require.Equal(t, before, d.rows(t), "no command changes a row")
			if page == "docs/getting-started.md" {
				d.startedWell(t, out)
			}
		})
		if ok {
			ran++
		}
	}
	require.GreaterOrEqual(t, ran, 11)
	d.policyCoversRequests(t)
}

// rows are those of every table.
func (d *docWorld) rows(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, ident := range docTables() {
		tbl, err := d.direct.LoadTable(context.Background(), ident)
		require.NoError(t, err)
		out[strings.Join(ident, ".")] = tabletest.Rows(t, tbl)
	}

	return out
}

// startedWell checks the path of a newcomer: fewer than ten commands, and a table
// of their own is maintained.
func (d *docWorld) startedWell(t *testing.T, out string) {
	t.Helper()
	n := 0
	for _, b := range docBlocks(t, "docs/getting-started.md") {
		if b.kind == "sh" {
			n += commandsOf(b.text)
		}
	}
	require.Equal(t, 9, n, "the page says so")
	tbl, err := d.direct.LoadTable(context.Background(), table.Identifier{"sales", "orders"})
	require.NoError(t, err)
	require.Len(t, tabletest.Files(t, tbl), 1, out)
}

// policyCoversRequests checks that the rights in docs/security.md are enough for
// every request that the pages led to, and that none of them is of no use.
func (d *docWorld) policyCoversRequests(t *testing.T) {
	t.Helper()
	used := map[string]bool{}
	for _, r := range d.s3.Requests() {
		used[s3Action(r)] = true
	}
	text := readPage(t, "docs/security.md")
	for action := range used {
		require.Contains(t, text, `"`+action+`"`)
	}
	for _, action := range []string{"s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject"} {
		require.True(t, used[action], "%s was needed", action)
	}
}

// s3Action is the right that a request to an S3 store needs.
func s3Action(r testenv.Request) string {
	_, key, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
	switch {
	case r.Method == http.MethodGet && key == "":
		return "s3:ListBucket"
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		return "s3:GetObject"
	case r.Method == http.MethodDelete && r.Query.Has("uploadId"):
		return "s3:AbortMultipartUpload"
	case r.Method == http.MethodDelete, r.Method == http.MethodPost && r.Query.Has("delete"):
		return "s3:DeleteObject"
	case r.Method == http.MethodPut, r.Method == http.MethodPost && (r.Query.Has("uploads") || r.Query.Has("uploadId")):
		return "s3:PutObject"
	}

	return "no action for " + r.Method + " " + r.Path + "?" + r.Query.Encode()
}
