package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	icebergcatalog "github.com/apache/iceberg-go/catalog"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"compactor/internal/catalog"
	"compactor/internal/store"
	"compactor/internal/tabletest"
	"compactor/internal/testenv"
	"compactor/pkg/claim"
	"compactor/pkg/maintenance"
	"compactor/pkg/rewrite"
)

// world is one table on the real S3 server and REST catalog, with the claim in
// a real PostgreSQL. The program reaches catalog and store through proxies; the
// test itself goes straight to the servers.
type world struct {
	t       *testing.T
	lake    *testenv.Lake
	db      *testenv.Database
	catalog *testenv.Proxy
	s3      *testenv.Proxy
	direct  *catalog.Catalog
	ident   table.Identifier
	env     map[string]string
	config  string
	mode    claim.Mode
	now     func() time.Time // nil: the real time
	// rewriting injects faults into the rewrite of data files.
	rewriting func(*rewrite.Options)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	lake := testenv.SharedLake(t)
	w := &world{
		t: t, lake: lake, db: testenv.Postgres(t),
		catalog: testenv.NewProxy(t, lake.CatalogURI), s3: testenv.NewProxy(t, lake.S3Endpoint),
		ident: table.Identifier{lake.Namespace, "events"},
	}
	w.env = map[string]string{
		"COMPACTOR_CATALOG_CREDENTIAL":           lake.AccessKey + ":" + lake.SecretKey,
		"COMPACTOR_STORAGE_S3_ACCESS_KEY_ID":     lake.AccessKey,
		"COMPACTOR_STORAGE_S3_SECRET_ACCESS_KEY": lake.SecretKey,
		"COMPACTOR_CLAIM_POSTGRES":               w.db.DSN,
	}
	w.config = filepath.Join(t.TempDir(), "compactor.yaml")
	w.mode = claim.ModeAdvisory
	w.writeConfig(string(w.mode), "")
	store.Register()
	w.direct = w.open(lake.CatalogURI)

	return w
}

// open opens the catalog, by itself or through its proxy, and reaches the store
// directly.
func (w *world) open(uri string) *catalog.Catalog { return w.openAt(uri, w.lake.S3Endpoint) }

// openAt opens the catalog with the store at an endpoint.
func (w *world) openAt(uri, s3 string) *catalog.Catalog {
	w.t.Helper()
	opened, err := catalog.Open(context.Background(), catalog.Options{
		Catalog: catalog.Settings{
			Type: "rest", Name: "test", URI: uri, Warehouse: w.lake.Warehouse,
			Credential: w.lake.AccessKey + ":" + w.lake.SecretKey,
		},
		Storage: store.Options{S3: store.S3Options{
			Endpoint: s3, Region: w.lake.Region,
			AccessKeyID: w.lake.AccessKey, SecretAccessKey: w.lake.SecretKey, URLStyle: store.StylePath,
		}},
		Logger: zerolog.Nop(),
	})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, opened.Close()) })

	return opened
}

func (w *world) writeConfig(mode, extra string) {
	w.t.Helper()
	text := fmt.Sprintf(`catalog:
  type: rest
  uri: %s
  warehouse: %s
storage:
  s3:
    endpoint: %s
    region: %s
    url_style: path
claim:
  mode: %s
  realm: %s
%s`, w.catalog.URL, w.lake.Warehouse, w.s3.URL, w.lake.Region, mode, w.realm(), extra)
	require.NoError(w.t, os.WriteFile(w.config, []byte(text), 0o600))
}

func (w *world) realm() string { return "test" }

func (w *world) name() string { return strings.Join(w.ident, ".") }

func (w *world) key() claim.Key {
	return claim.Key{Realm: w.realm(), Namespace: w.ident[:1], Table: w.ident[1]}
}

// create makes the table with the plain schema.
func (w *world) create(opts ...icebergcatalog.CreateTableOpt) *table.Table {
	w.t.Helper()

	tabletest.Create(w.direct.Context(context.Background()), w.t, w.direct.Client(), w.ident, tabletest.Schema(), opts...)

	return w.load()
}

// createPartitioned makes the table with a column p more, which partitions it
// only if opts say so.
func (w *world) createPartitioned(opts ...icebergcatalog.CreateTableOpt) *table.Table {
	w.t.Helper()

	tabletest.Create(w.direct.Context(context.Background()), w.t, w.direct.Client(), w.ident, tabletest.PartitionedSchema(), opts...)

	return w.load()
}

func (w *world) load() *table.Table {
	w.t.Helper()
	tbl, err := w.direct.LoadTable(context.Background(), w.ident)
	require.NoError(w.t, err)

	return tbl
}

// result is what a run of the program left behind.
type result struct {
	code           int
	stdout, stderr string
}

func (r result) step(t *testing.T) stepDoc {
	t.Helper()
	steps := r.steps(t)
	require.Len(t, steps, 1)

	return steps[0]
}

// steps are those of the one table of the run.
func (r result) steps(t *testing.T) []stepDoc {
	t.Helper()
	var doc struct {
		Tables []struct {
			Steps []stepDoc `json:"steps"`
		} `json:"tables"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &doc), "stdout is one JSON document: %s\nstderr: %s", r.stdout, r.stderr)
	require.Len(t, doc.Tables, 1)
	validReport(t, r.stdout)

	return doc.Tables[0].Steps
}

// stepDoc is the part of the report's JSON that tests look at.
type stepDoc struct {
	Step           string   `json:"step"`
	Status         string   `json:"status"`
	Reason         string   `json:"reason"`
	SnapshotBefore *int64   `json:"snapshot_before"`
	SnapshotAfter  *int64   `json:"snapshot_after"`
	GroupsLeft     int      `json:"groups_left"`
	Kept           []string `json:"kept_files"`
	Rewritten      struct {
		FilesIn  int   `json:"files_in"`
		FilesOut int   `json:"files_out"`
		RowsIn   int64 `json:"rows_in"`
		RowsOut  int64 `json:"rows_out"`
	} `json:"rewritten"`
	Failed  []maintenance.Refusal `json:"failed"`
	Refused []maintenance.Refusal `json:"refused"`
	Rounds  []struct {
		Parent   *int64 `json:"parent_snapshot"`
		Snapshot *int64 `json:"snapshot"`
		Found    bool   `json:"found_by_search"`
	} `json:"rounds"`
	Plan      *maintenance.PlanReport      `json:"plan"`
	Expire    *maintenance.ExpireReport    `json:"expire"`
	Manifests *maintenance.ManifestsReport `json:"manifests"`
	Orphans   *maintenance.OrphanReport    `json:"orphans"`
}

// compactor runs the program in this process, with JSON on stdout.
func (w *world) compactor(args ...string) result {
	w.t.Helper()
	var stdout, stderr bytes.Buffer
	err := run(context.Background(), environment{
		args:   append([]string{"compactor"}, args...),
		getenv: func(k string) (string, bool) { v, ok := w.env[k]; return v, ok },
		stdout: &stdout, stderr: &stderr, now: w.now, rewriting: w.rewriting,
	})
	if err != nil && !wasReported(err) {
		fmt.Fprintln(&stderr, "compactor:", err)
	}

	return result{code: exitCode(err), stdout: stdout.String(), stderr: stderr.String()}
}

// compact is compactor for the usual command.
func (w *world) compact(flags ...string) result {
	w.t.Helper()

	return w.compactor(w.compactArgs(flags...)...)
}

// do is compactor for another command on the table.
func (w *world) do(command string, flags ...string) result {
	w.t.Helper()

	return w.compactor(w.args(command, flags...)...)
}

func (w *world) args(command string, flags ...string) []string {
	return slices.Concat([]string{command, "--config", w.config, "--output", "json"}, flags, []string{w.name()})
}

func (w *world) compactArgs(flags ...string) []string {
	return slices.Concat([]string{"compact", "--config", w.config, "--output", "json"}, flags, []string{w.name()})
}

// objects lists every object below the table's location.
func (w *world) objects() []string {
	w.t.Helper()
	prefix := strings.TrimPrefix(w.load().Location(), "s3://"+w.lake.Bucket+"/")
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(w.lake.S3Endpoint), Region: w.lake.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(w.lake.AccessKey, w.lake.SecretKey, ""),
	})
	var keys []string
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: &w.lake.Bucket, Prefix: aws.String(prefix + "/")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(context.Background())
		require.NoError(w.t, err)
		for _, o := range page.Contents {
			keys = append(keys, "s3://"+w.lake.Bucket+"/"+*o.Key)
		}
	}
	slices.Sort(keys)

	return keys
}

// dataObjects are the objects of the table that are Parquet files.
func (w *world) dataObjects() []string {
	return slices.DeleteFunc(w.objects(), func(k string) bool { return !strings.HasSuffix(k, ".parquet") })
}

// commits counts the commit requests that reached the proxy of the catalog.
func (w *world) commits() int {
	return w.catalog.Count(func(r testenv.Request) bool {
		return r.Method == "POST" && strings.HasSuffix(r.Path, "/tables/"+w.ident[1])
	})
}

// isCommit matches the commit request of the world's table.
func (w *world) isCommit() func(method, path string) bool {
	return func(method, path string) bool {
		return method == "POST" && strings.HasSuffix(path, "/tables/"+w.ident[1])
	}
}

// claimFree says whether another writer gets the table's claim at once.
func (w *world) claimFree() bool {
	w.t.Helper()
	claimer := w.openClaimer()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := claimer.Acquire(ctx, w.key(), claim.AcquireOptions{Timeout: 2 * time.Second})
	if err != nil {
		return false
	}
	require.NoError(w.t, c.Release(context.Background()))

	return true
}

func (w *world) openClaimer() claim.Claimer {
	w.t.Helper()

	return w.openClaimerOn(w.db)
}

// openClaimerOn is openClaimer on a given node of a mesh.
func (w *world) openClaimerOn(db *testenv.Database) claim.Claimer {
	w.t.Helper()
	claimer, err := claim.Open(context.Background(), claim.Config{Mode: w.mode, DSN: db.DSN, Holder: "writer@test"})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, claimer.Close()) })

	return claimer
}

// writer is the part of a FileIO that spoil needs.
type writer interface {
	Create(name string) (icebergio.FileWriter, error)
}
