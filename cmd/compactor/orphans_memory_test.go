package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
)

// crowd stands before the S3 server and lists a million objects that are not
// there, beside the table's own. It takes the deletes of those that it made up.
type crowd struct {
	next    http.Handler
	prefix  string
	own     []string
	deletes atomic.Int64
}

const (
	crowdPages = 1000
	crowdPage  = 1000
	crowdOld   = 400 // of each page
)

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case isList(r):
		c.list(w, r)
	case r.Method == http.MethodPost && r.URL.Query().Has("delete"):
		c.deletes.Add(1)
		w.Header().Set("Content-Type", "application/xml")
		_, _ = w.Write([]byte(`<?xml version="1.0"?><DeleteResult></DeleteResult>`)) // The client notices.
	default:
		c.next.ServeHTTP(w, r)
	}
}

func (c *crowd) list(w http.ResponseWriter, r *http.Request) {
	page, _ := strconv.Atoi(r.URL.Query().Get("continuation-token")) // The first has none.
	now := time.Now().UTC()
	var b strings.Builder
	fmt.Fprintf(&b, `<?xml version="1.0"?><ListBucketResult><IsTruncated>%t</IsTruncated>`, page+1 < crowdPages)
	if page+1 < crowdPages {
		fmt.Fprintf(&b, "<NextContinuationToken>%d</NextContinuationToken>", page+1)
	}
	entry := func(key string, at time.Time) {
		fmt.Fprintf(&b, `<Contents><Key>%s</Key><LastModified>%s</LastModified><Size>1048576</Size></Contents>`, key, at.Format("2006-01-02T15:04:05.000Z"))
	}
	if page == 0 {
		for _, key := range c.own {
			entry(key, now)
		}
	}
	for i := range crowdPage {
		at := now
		if i < crowdOld {
			at = now.Add(-240 * time.Hour)
		}
		entry(fmt.Sprintf("%s/data/p=%04d/%05d-%d-5d0f8c3a-71b6-4e0e-9f0e-3c1f0f7a0001.parquet", c.prefix, page, i, page), at)
	}
	b.WriteString("</ListBucketResult>")
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("Date", now.Format(http.TimeFormat))
	_, _ = w.Write([]byte(b.String())) // The client notices.
}

// A million listed objects, four hundred thousand of them orphans, are dealt
// with in less than 512 MiB of the whole process.
func TestOrphansMemoryOfAMillionObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tbl := tabletest.Fragment(t, w.create(), 3, 3)
	target, err := url.Parse(w.lake.S3Endpoint)
	require.NoError(t, err)
	c := &crowd{
		next:   &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }},
		prefix: strings.TrimPrefix(tbl.Location(), "s3://"+w.lake.Bucket+"/"),
	}
	for _, p := range w.objects() {
		c.own = append(c.own, strings.TrimPrefix(p, "s3://"+w.lake.Bucket+"/"))
	}
	server := httptest.NewServer(c)
	defer server.Close()

	p := w.startFile(built(t), "orphans", "--config", w.config, "--output", "json", "--s3-endpoint", server.URL,
		"--memory", "400MiB", "--max-hold", "0", "--quiet", w.name())
	most := p.largestResident(10 * time.Minute)
	r := p.result(time.Second)
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	step := r.orphanStep(t)
	require.Equal(t, crowdPages*crowdPage+len(c.own), step.Orphans.Listed)
	require.Equal(t, crowdPages*crowdOld, step.Orphans.Deleted)
	require.Equal(t, crowdPages*(crowdPage-crowdOld), step.Orphans.Kept.Young)
	require.EqualValues(t, crowdPages*crowdOld/1000, c.deletes.Load(), "a thousand to a request")
	t.Logf("largest resident set: %d MiB", most>>20)
	require.Less(t, most, int64(512<<20))
	require.NotEmpty(t, tabletest.Rows(t, w.load()))
}
