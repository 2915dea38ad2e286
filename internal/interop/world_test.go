//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	icebergtable "github.com/apache/iceberg-go/table"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/internal/catalog"
	"compactor/internal/store"
	"compactor/internal/testenv"
)

func TestMain(m *testing.M) {
	store.Register()
	testenv.Main(m)
}

// program builds compactor once for all tests of the package.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "compactor-interop-")
	if err != nil {
		return "", err
	}
	testenv.AtEnd(func() { _ = os.RemoveAll(dir) })
	bin := filepath.Join(dir, "compactor")
	build := exec.Command("go", "build", "-o", bin, "compactor/cmd/compactor")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}

	return bin, nil
})

// world is a namespace on the lake with a bucket of its own: the lake's table
// bucket takes Parquet files only, the plain one takes Puffin files too.
type world struct {
	t      *testing.T
	lake   *testenv.Lake
	bucket string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, lake: testenv.SharedLake(t)}
	w.bucket = strings.ReplaceAll(w.lake.Namespace, "_", "-")
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(w.lake.S3Endpoint), Region: w.lake.Region, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(w.lake.AccessKey, w.lake.SecretKey, ""),
	})
	_, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &w.bucket})
	require.NoError(t, err)
	w.run(python, fmt.Sprintf("catalog.create_namespace(%q)", w.lake.Namespace))

	return w
}

// table is a table's full name.
func (w *world) table(name string) string { return w.lake.Namespace + "." + name }

// data is where a table's files go when they may not be in the table bucket.
func (w *world) data(name string) string { return "s3://" + w.bucket + "/" + name }

// run has an engine do something.
func (w *world) run(e *engine, source string) {
	w.t.Helper()
	require.NoError(w.t, e.ask(w.t, source, nil), source)
}

// duck has DuckDB run statements, in which {t} is the table.
func (w *world) duck(table string, statements ...string) {
	w.t.Helper()
	for _, s := range statements {
		s = strings.ReplaceAll(s, "{t}", "lake."+w.table(table))
		w.run(python, fmt.Sprintf("duck.execute(%q)", s))
	}
}

// load reads the table with iceberg-go.
func (w *world) load(name string) *icebergtable.Table {
	w.t.Helper()
	tbl, err := w.catalog().LoadTable(context.Background(), icebergtable.Identifier{w.lake.Namespace, name})
	require.NoError(w.t, err)

	return tbl
}

func (w *world) catalog() *catalog.Catalog {
	w.t.Helper()
	cat, err := catalog.Open(context.Background(), catalog.Options{
		Catalog: catalog.Settings{
			Type: "rest", Name: "test", URI: w.lake.CatalogURI, Warehouse: w.lake.Warehouse,
			Credential: w.lake.AccessKey + ":" + w.lake.SecretKey,
		},
		Storage: store.Options{S3: store.S3Options{
			Endpoint: w.lake.S3Endpoint, Region: w.lake.Region,
			AccessKeyID: w.lake.AccessKey, SecretAccessKey: w.lake.SecretKey, URLStyle: store.StylePath,
		}},
		Logger: zerolog.Nop(),
	})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, cat.Close()) })

	return cat
}

// step is what the report says about one step.
type step struct {
	Step      string `json:"step"`
	Status    string `json:"status"`
	Reason    string `json:"reason"`
	Rewritten struct {
		FilesIn  int `json:"files_in"`
		FilesOut int `json:"files_out"`
	} `json:"rewritten"`
}

// compactor runs the program on a table and returns its exit code and steps.
func (w *world) compactor(table, command string, flags ...string) (code int, steps []step, log string) {
	w.t.Helper()
	bin, err := program()
	require.NoError(w.t, err)
	args := append([]string{
		command, "--output", "json", "--claim-mode", "none", "--catalog-type", "rest", "--catalog-uri", w.lake.CatalogURI,
		"--warehouse", w.lake.Warehouse, "--s3-endpoint", w.lake.S3Endpoint, "--s3-region", w.lake.Region, "--s3-url-style", "path",
	}, flags...)
	cmd := exec.Command(bin, append(args, w.table(table))...)
	cmd.Env = append(os.Environ(),
		"COMPACTOR_CATALOG_CREDENTIAL="+w.lake.AccessKey+":"+w.lake.SecretKey,
		"COMPACTOR_STORAGE_S3_ACCESS_KEY_ID="+w.lake.AccessKey, "COMPACTOR_STORAGE_S3_SECRET_ACCESS_KEY="+w.lake.SecretKey)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // The exit code tells.
	var doc struct {
		Tables []struct {
			Steps []step `json:"steps"`
		} `json:"tables"`
	}
	require.NoError(w.t, json.Unmarshal(stdout.Bytes(), &doc), "stdout %s\nstderr %s", &stdout, &stderr)
	require.Len(w.t, doc.Tables, 1)

	return cmd.ProcessState.ExitCode(), doc.Tables[0].Steps, stderr.String()
}

// sight is what one engine saw of a table.
type sight struct {
	reader reader
	where  string
	rows   []string
}

// look reads the table with every reader, whole and by each condition.
func (w *world) look(table string, readers []reader, conditions ...string) []sight {
	w.t.Helper()
	var out []sight
	for _, r := range readers {
		for _, where := range append([]string{""}, conditions...) {
			rows, err := r.rows(w.t, w.table(table), where)
			require.NoError(w.t, err)
			out = append(out, sight{r, where, rows})
		}
	}

	return out
}

// maintain compacts the table, merges its manifests and expires its history,
// and expects every engine to see what it saw before.
func (w *world) maintain(table string, readers []reader, conditions ...string) []step {
	w.t.Helper()
	before := w.look(table, readers, conditions...)
	for _, s := range before {
		require.NotEmpty(w.t, s.rows, "a condition that holds for no row shows nothing: %s", s.where)
	}
	code, steps, log := w.compactor(table, "run", "--rewrite-all", "--verify")
	require.Zero(w.t, code, "%+v\n%s", steps, log)
	require.Equal(w.t, "done", steps[0].Status, steps[0].Reason)
	for i, s := range w.look(table, readers, conditions...) {
		assert.Equal(w.t, before[i].rows, s.rows, "%s where %q", s.reader.name, s.where)
	}

	return steps
}
