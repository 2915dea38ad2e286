package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"compactor/internal/tabletest"
	"compactor/internal/testenv"
	"compactor/pkg/claim"
	"compactor/pkg/maintenance"
)

// orphans runs the command of that name.
func (w *world) orphans(flags ...string) result {
	w.t.Helper()

	return w.compactor(slices.Concat([]string{"orphans", "--config", w.config, "--output", "json"}, flags, []string{w.name()})...)
}

// orphanDoc is the part of the report's JSON that tests look at.
type orphanDoc struct {
	Status  string                    `json:"status"`
	Reason  string                    `json:"reason"`
	Orphans *maintenance.OrphanReport `json:"orphans"`
	Failed  []maintenance.Refusal     `json:"failed"`
}

func (r result) orphanStep(t *testing.T) orphanDoc {
	t.Helper()
	var doc struct {
		Tables []struct {
			Steps []orphanDoc `json:"steps"`
		} `json:"tables"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &doc), "stdout: %s\nstderr: %s", r.stdout, r.stderr)
	require.Len(t, doc.Tables, 1)
	require.Len(t, doc.Tables[0].Steps, 1)

	return doc.Tables[0].Steps[0]
}

var lastModified = regexp.MustCompile(`<LastModified>[^<]*</LastModified>`)

// ageEverything makes listings say that every object is ten days old: an S3
// store lets nobody write an old object.
func (w *world) ageEverything() { w.s3.Handle(testenv.Rule{Match: isList, Action: aged()}) }

func aged() testenv.Action {
	old := []byte("<LastModified>" + time.Now().Add(-240*time.Hour).UTC().Format("2006-01-02T15:04:05.000Z") + "</LastModified>")

	return testenv.RewriteAnswer(func(status int, h http.Header, body []byte) (int, []byte) {
		h.Del("Content-Length")

		return status, lastModified.ReplaceAll(body, old)
	})
}

func isList(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Query().Has("list-type")
}

func (w *world) s3client() *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(w.lake.S3Endpoint), Region: w.lake.Region, UsePathStyle: true,
		Credentials:                credentials.NewStaticCredentialsProvider(w.lake.AccessKey, w.lake.SecretKey, ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		HTTPClient: awshttp.NewBuildableClient().WithTransportOptions(func(tr *http.Transport) {
			tr.MaxIdleConnsPerHost = putters
		}),
	})
}

// putters is how many objects are written at once.
const putters = 32

// put writes objects of a few bytes, straight to the server.
func (w *world) put(paths ...string) {
	w.t.Helper()
	client := w.s3client()
	var work errgroup.Group
	work.SetLimit(putters)
	for _, p := range paths {
		work.Go(func() error {
			key := strings.TrimPrefix(p, "s3://"+w.lake.Bucket+"/")
			_, err := client.PutObject(context.Background(), &s3.PutObjectInput{
				Bucket: &w.lake.Bucket, Key: &key, Body: bytes.NewReader([]byte("content")),
			})

			return err
		})
	}
	require.NoError(w.t, work.Wait())
}

// refer commits data files of the given paths. Their content is never read.
func (w *world) refer(paths ...string) *table.Table {
	w.t.Helper()
	tbl := w.load()
	files := make([]iceberg.DataFile, 0, len(paths))
	for _, p := range paths {
		b, err := iceberg.NewDataFileBuilder(tbl.Spec(), iceberg.EntryContentData, p, iceberg.ParquetFile, nil, nil, nil, 1, 7)
		require.NoError(w.t, err)
		files = append(files, b.Build())
	}
	tx := tbl.NewTransaction()
	require.NoError(w.t, tx.AddDataFiles(context.Background(), files, nil, table.WithoutAutoNameMapping()))
	next, err := tx.Commit(context.Background())
	require.NoError(w.t, err)

	return next
}

// oddName is the n-th of names that clients, listings and XML are known to
// stumble over.
func oddName(n int) string {
	kinds := []string{
		"plain-%05d.parquet", "with space %05d.parquet", "p=a%%2Fb/esc-%05d.parquet", "käse 🧀 %05d.parquet", "plus+%05d&x=y.parquet",
		"a'b\"c<d>-%05d.parquet", "hash#%05d?q.parquet", "p=__HIVE_DEFAULT_PARTITION__/%05d.parquet", "deep/er/and/deeper/%05d.parquet",
		"0110/1001/0101/11110000-%05d.parquet", "%%zz-%05d.parquet", "semi;colon,%05d@x.parquet", "UPPER/Case-%05d.parquet", "dots..%05d...parquet",
	}

	return fmt.Sprintf(kinds[n%len(kinds)], n)
}

// Among more than 20,000 objects exactly the strays are found and deleted, with
// one request for a thousand of them.
func TestOrphansAmong20000Objects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.Fragment(t, w.create(), 3, 3)
	var live, strays []string
	for n := range 20_000 {
		p := tbl.Location() + "/data/" + oddName(n)
		if n/14%2 == 0 {
			live = append(live, p)
		} else {
			strays = append(strays, p)
		}
	}
	strays = strays[:9_990]
	w.put(slices.Concat(live, strays)...)
	tbl = w.refer(live...)
	kept := []string{
		tbl.Location() + "/data/_temporary/0/part.parquet", tbl.Location() + "/data/.hidden.parquet",
		tbl.Location() + "/metadata/v7.metadata.json", tbl.Location() + "/metadata/version-hint.text",
	}
	w.put(kept...)
	w.ageEverything()
	before := w.objects()
	require.Greater(t, len(before), 20_000-20)

	dsn := w.env["COMPACTOR_CLAIM_POSTGRES"]
	w.env["COMPACTOR_CLAIM_POSTGRES"] = "postgres://nobody@127.0.0.1:1/none"
	dry := w.orphans("--dry-run")
	require.Equal(t, 0, dry.code, dry.stderr)
	planned := []string{}
	for _, f := range dry.orphanStep(t).Orphans.Files {
		planned = append(planned, f.Path)
	}
	slices.Sort(strays)
	require.Equal(t, strays, planned, "a dry run without PostgreSQL names exactly the strays")
	require.Equal(t, before, w.objects(), "and deletes nothing")

	w.env["COMPACTOR_CLAIM_POSTGRES"] = dsn
	w.s3.ResetRequests()
	r := w.orphans("--max-hold", "0")
	require.Equal(t, 0, r.code, r.stderr)
	require.Equal(t, len(strays), r.orphanStep(t).Orphans.Deleted)
	want := slices.DeleteFunc(before, func(p string) bool { _, is := slices.BinarySearch(strays, p); return is })
	require.Equal(t, want, w.objects())
	deletes := w.s3.Count(func(r testenv.Request) bool {
		return r.Method == "POST" && r.Query.Has("delete") || r.Method == "DELETE"
	})
	require.LessOrEqual(t, deletes, 10, "one request deletes a thousand")
	require.Zero(t, w.commits())
	require.True(t, w.claimFree())
	require.Equal(t, "nothing-to-do", w.orphans().orphanStep(t).Status)
}

// s3, s3a and s3n are one scheme; a file that the table names in another
// store is never taken for an orphan, and the step says which they are.
func TestCase_C10_schemesAndSlashes(t *testing.T) {
	t.Parallel()
	t.Run("equal schemes", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tbl := tabletest.Fragment(t, w.create(), 2, 2)
		data := tbl.Location() + "/data/"
		w.put(data+"a.parquet", data+"n.parquet", data+"/double//slash.parquet", data+"stray.parquet", data+"/stray//double.parquet")
		w.refer("s3a"+strings.TrimPrefix(data, "s3")+"a.parquet", "s3n"+strings.TrimPrefix(data, "s3")+"n.parquet", data+"/double//slash.parquet")
		w.ageEverything()
		before := w.objects()
		r := w.orphans()
		require.Equal(t, 0, r.code, r.stdout+r.stderr)
		left := w.objects()
		var lost []string
		for _, p := range before {
			if !slices.Contains(left, p) {
				lost = append(lost, p)
			}
		}
		require.Len(t, lost, 2, "exactly the two strays: %v", lost)
		for _, p := range lost {
			require.Contains(t, p, "stray")
		}
		require.Equal(t, "nothing-to-do", w.orphans().orphanStep(t).Status)
	})
	for name, other := range map[string]func(w *world, key string) string{
		"another bucket":            func(_ *world, key string) string { return "s3://alias/" + key },
		"another scheme":            func(w *world, key string) string { return "gs://" + w.lake.Bucket + "/" + key },
		"the endpoint in the path":  func(w *world, key string) string { return w.lake.S3Endpoint + "/" + w.lake.Bucket + "/" + key },
		"the bucket in a host name": func(w *world, key string) string { return "https://" + w.lake.Bucket + ".s3.amazonaws.com/" + key },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tbl := tabletest.Fragment(t, w.create(), 2, 2)
			p := tbl.Location() + "/data/live under another name.parquet"
			w.put(p, tbl.Location()+"/data/stray.parquet")
			named := other(w, strings.TrimPrefix(p, "s3://"+w.lake.Bucket+"/"))
			w.refer(named)
			w.ageEverything()
			before := w.objects()
			r := w.orphans()
			require.Equal(t, 3, r.code, r.stdout+r.stderr)
			require.Contains(t, r.orphanStep(t).Reason, p, "the file is named")
			require.Equal(t, before, w.objects(), "nothing is deleted")
		})
	}
}

// Where the catalog keeps the deletion of files to itself the step refuses,
// unless the operator overrides it.
func TestCase_C19_deleteDisabledByTheCatalog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.Fragment(t, w.create(), 2, 2)
	stray := tbl.Location() + "/data/stray.parquet"
	w.put(stray)
	w.ageEverything()
	w.catalogSends("s3.delete-enabled", "false")
	for _, flags := range [][]string{nil, {"--dry-run"}} {
		r := w.orphans(flags...)
		require.Equal(t, 3, r.code, r.stdout+r.stderr)
		require.Contains(t, r.orphanStep(t).Reason, "s3.delete-enabled=false")
		require.Contains(t, w.objects(), stray)
	}
	r := w.orphans("--override-delete-disabled", "true")
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	require.NotContains(t, w.objects(), stray)
}

// An age below the floor has to be asked for by a flag that says what it risks.
func TestCase_C12_ageFloor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.Fragment(t, w.create(), 2, 2)
	stray := tbl.Location() + "/data/in flight.parquet"
	w.put(stray)
	for _, age := range []string{"0", "1h", "23h59m"} {
		r := w.orphans("--older-than", age)
		require.Equal(t, 2, r.code, r.stdout+r.stderr)
		require.Contains(t, r.stderr, riskFlag)
		require.Contains(t, w.objects(), stray)
	}
	r := w.orphans("--older-than", "72h")
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	require.Equal(t, 1, r.orphanStep(t).Orphans.Kept.Young)
	require.Contains(t, w.objects(), stray)
	r = w.orphans("--older-than", "0", "--"+riskFlag)
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	require.NotContains(t, w.objects(), stray)
	require.Len(t, tabletest.Rows(t, w.load()), 4)
}

// The deletes wait for the claim, and give up with the holder's name.
func TestOrphansDeletesUnderTheClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.Fragment(t, w.create(), 2, 2)
	stray := tbl.Location() + "/data/stray.parquet"
	w.put(stray)
	w.ageEverything()
	held, err := w.openClaimer().Acquire(context.Background(), w.key(), claim.AcquireOptions{})
	require.NoError(t, err)
	r := w.orphans("--claim-timeout", "1s")
	require.Equal(t, 10, r.code, r.stdout+r.stderr)
	require.Contains(t, r.orphanStep(t).Reason, "writer@test")
	require.Contains(t, w.objects(), stray)
	p := w.start("remove-orphan-files", "--config", w.config, "--output", "json", w.name())
	w.waitQueued()
	require.Contains(t, w.objects(), stray)
	require.NoError(t, held.Release(context.Background()))
	require.Equal(t, 0, p.wait(time.Minute), p.stderr.String())
	require.NotContains(t, w.objects(), stray)
}
