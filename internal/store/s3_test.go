package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"compactor/internal/store"
	"compactor/internal/store/storetest"
	"compactor/internal/testenv"
)

const mib = 1 << 20

func s3Options(lake *testenv.Lake, endpoint string) store.Options {
	return store.Options{
		S3: store.S3Options{
			Endpoint: endpoint, Region: lake.Region, AccessKeyID: lake.AccessKey, SecretAccessKey: lake.SecretKey,
		},
		SmallObject: 2 * mib, PartSize: 5 * mib,
	}
}

// api is a plain client of the lake's S3 server.
func api(t *testing.T, lake *testenv.Lake) *s3.Client {
	t.Helper()
	cfg, err := newStore(t, s3Options(lake, lake.S3Endpoint)).AWSConfig(t.Context())
	require.NoError(t, err)
	return s3.NewFromConfig(cfg, func(o *s3.Options) { o.BaseEndpoint, o.UsePathStyle = &lake.S3Endpoint, true })
}

// bucket makes a bucket of the test's own: the lake's table bucket takes only
// keys that look like files of a table.
func bucket(t *testing.T, lake *testenv.Lake) string {
	t.Helper()
	name := strings.ReplaceAll(lake.Namespace, "_", "-")
	_, err := api(t, lake).CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name})
	require.NoError(t, err)
	return name
}

// proxied is a store behind a proxy of its own, with a folder of its own.
func proxied(t *testing.T, change ...func(*store.Options)) (*store.Store, *testenv.Proxy, string) {
	t.Helper()
	lake := testenv.SharedLake(t)
	proxy := testenv.NewProxy(t, lake.S3Endpoint)
	o := s3Options(lake, proxy.URL)
	for _, c := range change {
		c(&o)
	}
	return newStore(t, o), proxy, "s3://" + bucket(t, lake) + "/root"
}

func TestS3Conforms(t *testing.T) {
	for name, change := range map[string]func(*store.Options){
		"defaults":        func(*store.Options) {},
		"interop signing": func(o *store.Options) { o.S3.Interop = true },
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Conformance(t, func(t *testing.T) storetest.Target {
				lake := testenv.SharedLake(t)
				o := s3Options(lake, lake.S3Endpoint)
				change(&o)
				name := bucket(t, lake)
				return storetest.Target{
					Store: newStore(t, o), Root: "s3://" + name + "/root",
					Pending: func(t *testing.T) []string { return uploads(t, lake, name) },
				}
			})
		})
	}
}

func uploads(t *testing.T, lake *testenv.Lake, bucket string) []string {
	t.Helper()
	out, err := api(t, lake).ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &bucket})
	require.NoError(t, err)
	var keys []string
	for _, u := range out.Uploads {
		keys = append(keys, *u.Key)
	}
	return keys
}

func TestSchemesOfS3AreEqual(t *testing.T) {
	s, _, root := proxied(t)
	f := s.FS(t.Context(), nil)
	require.NoError(t, f.WriteFile(root+"/x", []byte("same")))
	for _, scheme := range []string{"s3a", "s3n", "S3"} {
		other := scheme + strings.TrimPrefix(root, "s3")
		got, err := f.ReadFile(other + "/x")
		require.NoError(t, err)
		require.Equal(t, "same", string(got))
		for o, err := range f.List(t.Context(), other) {
			require.NoError(t, err)
			require.Equal(t, other+"/x", o.Path)
		}
	}
}

func TestSmallObjectsCostOneRequest(t *testing.T) {
	s, proxy, root := proxied(t)
	f := s.FS(t.Context(), nil)
	require.NoError(t, f.WriteFile(root+"/small", make([]byte, 2*mib)))
	require.NoError(t, f.WriteFile(root+"/empty", nil))
	require.Equal(t, 2, len(proxy.Requests()), "one PUT each")
	proxy.ResetRequests()

	before := f.Counters().Totals()
	file, err := f.Open(root + "/small")
	require.NoError(t, err)
	for off := int64(0); off < 2*mib; off += 100_000 {
		_, err := file.ReadAt(make([]byte, 1000), off)
		require.NoError(t, err)
	}
	require.NoError(t, file.Close())
	got, err := f.ReadFile(root + "/empty")
	require.NoError(t, err)
	require.Empty(t, got)
	require.NotNil(t, got)

	requests := proxy.Requests()
	require.Len(t, requests, 2, "one GET each, no HEAD")
	for _, r := range requests {
		require.Equal(t, http.MethodGet, r.Method)
	}
	diff := f.Counters().Totals().Sub(before)
	require.Equal(t, store.Totals{Gets: 2, BytesRead: 2 * mib}, diff)
}

func TestLargeObjectsAreReadByRangeWithReadAhead(t *testing.T) {
	s, proxy, root := proxied(t)
	f := s.FS(t.Context(), nil)
	const size = 12 * mib
	require.NoError(t, f.WriteFile(root+"/large", make([]byte, size)))
	require.Equal(t, store.Totals{Puts: 5, BytesWritten: f.Counters().BytesWritten.Load()}, f.Counters().Totals(),
		"begin, three parts, complete")
	require.GreaterOrEqual(t, f.Counters().BytesWritten.Load(), int64(size))
	proxy.ResetRequests()
	before := f.Counters().Totals()

	file, err := f.Open(root + "/large")
	require.NoError(t, err)
	read := func(off int64, n int) {
		t.Helper()
		_, err := file.ReadAt(make([]byte, n), off)
		require.NoError(t, err)
	}
	read(size-8, 8) // the last bytes of a footer, then the rest of it, then the head
	read(size-100_000, 99_000)
	read(4, 1000)
	require.Len(t, proxy.Requests(), 2, "first block, last block")
	for off := int64(4 * mib); off < 5*mib; off += 50_000 {
		read(off, 10_000)
	}
	require.Len(t, proxy.Requests(), 3, "one window for small reads side by side")
	read(6*mib, 3*mib)
	require.Len(t, proxy.Requests(), 4, "a large read is one request")
	require.NoError(t, file.Close())
	diff := f.Counters().Totals().Sub(before)
	require.Equal(t, store.Totals{Gets: 4, BytesRead: 2*mib + 512<<10 + mib + 3*mib}, diff)
}

func TestACutBodyIsContinuedWhereItStopped(t *testing.T) {
	s, proxy, root := proxied(t)
	f := s.FS(t.Context(), nil)
	want := []byte(strings.Repeat("0123456789", 20_000))
	require.NoError(t, f.WriteFile(root+"/cut", want))
	cut := 0
	proxy.Handle(testenv.Rule{
		Match: testenv.MethodPath(http.MethodGet, "/**"), Times: 2,
		Action: testenv.RewriteAnswer(func(status int, h http.Header, body []byte) (int, []byte) {
			cut++
			h.Set("Content-Length", fmt.Sprint(len(body)))
			return status, body[:len(body)/2]
		}),
	})
	proxy.ResetRequests()
	got, err := f.ReadFile(root + "/cut")
	require.NoError(t, err)
	require.Equal(t, want, got)
	var ranges []string
	for _, r := range proxy.Requests() {
		ranges = append(ranges, r.Header.Get("Range"))
		if len(ranges) > 1 {
			require.NotEmpty(t, r.Header.Get("If-Match"), "the rest has to be of the same object")
		}
	}
	require.Equal(t, []string{"bytes=0-2097151", "bytes=100000-199999", "bytes=150000-199999"}, ranges)
}

func TestAnObjectReplacedWhileItIsReadIsAnError(t *testing.T) {
	s, _, root := proxied(t)
	f := s.FS(t.Context(), nil)
	require.NoError(t, f.WriteFile(root+"/x", make([]byte, 8*mib)))
	file, err := f.Open(root + "/x")
	require.NoError(t, err)
	require.NoError(t, f.WriteFile(root+"/x", []byte(strings.Repeat("y", 8*mib))))
	_, err = file.ReadAt(make([]byte, 10), 4*mib)
	require.ErrorContains(t, err, "replaced while it was read")
	require.ErrorContains(t, err, root+"/x")
}

func TestServerErrorsAreRetriedAndBounded(t *testing.T) {
	s, proxy, root := proxied(t, func(o *store.Options) { o.S3.MaxAttempts = 3 })
	f := s.FS(t.Context(), nil)
	slow := func(times int) {
		proxy.ClearRules()
		proxy.ResetRequests()
		proxy.Handle(testenv.Rule{Times: times, Action: testenv.AnswerWithoutForward(http.StatusServiceUnavailable, "")})
	}
	slow(2)
	require.NoError(t, f.WriteFile(root+"/x", []byte("x")))
	require.Len(t, proxy.Requests(), 3)
	slow(2)
	_, err := f.ReadFile(root + "/x")
	require.NoError(t, err)
	slow(0)
	_, err = f.ReadFile(root + "/x")
	require.ErrorContains(t, err, "open "+root+"/x")
	require.Len(t, proxy.Requests(), 3, "bounded")

	proxy.ClearRules()
	proxy.ResetRequests()
	proxy.Handle(testenv.Rule{Action: testenv.AnswerWithoutForward(http.StatusForbidden, "")})
	_, err = f.ReadFile(root + "/x")
	require.ErrorIs(t, err, fs.ErrPermission)
	require.Len(t, proxy.Requests(), 1, "a refusal is not asked again")
}

func TestDroppedConnectionsAreRetried(t *testing.T) {
	s, proxy, root := proxied(t)
	f := s.FS(t.Context(), nil)
	proxy.Handle(testenv.Rule{Times: 1, Action: testenv.DropWithoutForward()})
	require.NoError(t, f.WriteFile(root+"/x", []byte("x")))
	got, err := f.ReadFile(root + "/x")
	require.NoError(t, err)
	require.Equal(t, "x", string(got))
}

func TestCancellingStopsTheRetries(t *testing.T) {
	s, proxy, root := proxied(t)
	proxy.Handle(testenv.Rule{Action: testenv.AnswerWithoutForward(http.StatusServiceUnavailable, "")})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := s.FS(ctx, nil).ReadFile(root + "/x")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	n := len(proxy.Requests())
	_, err = s.FS(ctx, nil).ReadFile(root + "/x")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Len(t, proxy.Requests(), n, "a dead context makes no attempt")
}

func TestAFailedPartAbortsTheUpload(t *testing.T) {
	lake := testenv.SharedLake(t)
	s, proxy, root := proxied(t)
	proxy.Handle(testenv.Rule{
		Match: func(r *http.Request) bool {
			return r.Method == http.MethodPut && r.URL.Query().Get("partNumber") == "2"
		},
		Action: testenv.AnswerWithoutForward(http.StatusForbidden, ""),
	})
	f := s.FS(t.Context(), nil)
	err := f.WriteFile(root+"/x", make([]byte, 30*mib))
	require.ErrorIs(t, err, fs.ErrPermission)
	_, err = f.Stat(root + "/x")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Empty(t, uploads(t, lake, strings.Split(root, "/")[2]))
	require.Equal(t, 1, proxy.Count(func(r testenv.Request) bool {
		return r.Method == http.MethodDelete && r.Query.Has("uploadId")
	}))
}

func TestACompletionWhoseAnswerWasLostCounts(t *testing.T) {
	s, proxy, root := proxied(t)
	proxy.Handle(testenv.Rule{
		Match:  func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("uploadId") },
		Action: testenv.ForwardThenClose(), Times: 1,
	})
	// AWS forgets an upload some time after it was completed.
	gone := testenv.Rule{
		Match: func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("uploadId") },
		Action: testenv.AnswerWithoutForward(http.StatusNotFound,
			`<?xml version="1.0"?><Error><Code>NoSuchUpload</Code><Message>no such upload</Message></Error>`),
	}
	proxy.Handle(gone)
	f := s.FS(t.Context(), nil)
	require.NoError(t, f.WriteFile(root+"/x", make([]byte, 11*mib)))
	info, err := f.Stat(root + "/x")
	require.NoError(t, err)
	require.EqualValues(t, 11*mib, info.Size())

	proxy.ClearRules()
	proxy.Handle(gone)
	require.ErrorContains(t, f.WriteFile(root+"/y", make([]byte, 11*mib)), "NoSuchUpload", "an upload that somebody else aborted")
}

func TestDeletesGoInBatchesAndNameWhatIsLeft(t *testing.T) {
	s, proxy, root := proxied(t)
	f := s.FS(t.Context(), nil)
	paths := make([]string, 2500)
	for i := range paths {
		paths[i] = fmt.Sprintf("%s/many/%04d", root, i)
	}
	for i := 0; i < len(paths); i += 250 {
		require.NoError(t, f.WriteFile(paths[i], []byte("x")))
	}
	proxy.ResetRequests()
	deleted, err := f.DeleteFiles(t.Context(), paths)
	require.NoError(t, err)
	require.Equal(t, paths, deleted)
	require.Len(t, proxy.Requests(), 3, "1000 + 1000 + 500")
	require.EqualValues(t, 3, f.Counters().Deletes.Load())
	for _, err := range f.List(t.Context(), root) {
		require.NoError(t, err)
		t.Fatal("an object is left")
	}

	const denied = `<?xml version="1.0"?><DeleteResult><Error><Key>%s</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>`
	key := strings.SplitN(paths[1], "/", 4)[3]
	proxy.Handle(testenv.Rule{
		Match: testenv.MethodPath(http.MethodPost, "/**"),
		Action: testenv.RewriteAnswer(func(_ int, h http.Header, _ []byte) (int, []byte) {
			h.Set("Content-Type", "application/xml")
			return http.StatusOK, []byte(fmt.Sprintf(denied, key))
		}),
	})
	deleted, err = f.DeleteFiles(t.Context(), paths[:3])
	require.Equal(t, []string{paths[0], paths[2]}, deleted)
	var de *store.DeleteError
	require.ErrorAs(t, err, &de)
	require.Len(t, de.Failed, 1)
	require.Equal(t, paths[1], de.Failed[0].Path)
	require.ErrorIs(t, err, fs.ErrPermission)
}

func TestAStoreWithoutBatchDeleteGetsSingleDeletes(t *testing.T) {
	s, proxy, root := proxied(t)
	f := s.FS(t.Context(), nil)
	paths := []string{root + "/a", root + "/b", root + "/c"}
	for _, p := range paths {
		require.NoError(t, f.WriteFile(p, []byte("x")))
	}
	proxy.Handle(testenv.Rule{
		Match:  func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("delete") },
		Action: testenv.AnswerWithoutForward(http.StatusNotImplemented, ""),
	})
	deleted, err := f.DeleteFiles(t.Context(), paths)
	require.NoError(t, err)
	require.Equal(t, paths, deleted)
	for _, err := range f.List(t.Context(), root) {
		require.NoError(t, err)
		t.Fatal("an object is left")
	}
}

func TestAListingHasAllPages(t *testing.T) {
	s, proxy, root := proxied(t)
	f := s.FS(t.Context(), nil)
	const n = 1100
	work := make(chan int)
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() {
			var err error
			for i := range work {
				err = errors.Join(err, f.WriteFile(fmt.Sprintf("%s/l/%05d", root, i), []byte("x")))
			}
			errs <- err
		}()
	}
	for i := range n {
		work <- i
	}
	close(work)
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	proxy.ResetRequests()
	seen := map[string]bool{}
	for o, err := range f.List(t.Context(), root) {
		require.NoError(t, err)
		seen[o.Path] = true
	}
	require.Len(t, seen, n)
	require.Len(t, proxy.Requests(), 2)
}

func TestErrorsSayWhatToDo(t *testing.T) {
	lake := testenv.SharedLake(t)
	missing := newStore(t, s3Options(lake, lake.S3Endpoint)).FS(t.Context(), nil)
	_, err := missing.Open("s3://no-such-bucket-here/x")
	require.ErrorContains(t, err, "check the bucket's name")
	require.NotErrorIs(t, err, fs.ErrNotExist, "a wrong bucket says nothing about a file")

	o := s3Options(lake, lake.S3Endpoint)
	o.S3.SecretAccessKey = "wrong"
	_, err = newStore(t, o).FS(t.Context(), nil).Open(lake.Warehouse + "/x")
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorContains(t, err, "check the store's access key")

	o = s3Options(lake, "http://127.0.0.1:1")
	o.S3.MaxAttempts = 1
	_, err = newStore(t, o).FS(t.Context(), nil).Open(lake.Warehouse + "/x")
	require.ErrorContains(t, err, "cannot be reached")
	require.ErrorContains(t, err, "open "+lake.Warehouse+"/x")

	_, err = missing.Open("s3://")
	require.ErrorIs(t, err, fs.ErrInvalid)
	_, err = missing.Create(lake.Warehouse + "/folder/")
	require.ErrorIs(t, err, fs.ErrInvalid)
}

func TestFaultsHitTheCallTheyAreMeantFor(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/x"
	clean := newStore(t, store.Options{}).FS(t.Context(), nil)
	require.NoError(t, clean.WriteFile(path, []byte("0123456789")))

	faults := storetest.New(func(c storetest.Call) storetest.Fault {
		if c.Op == storetest.Open {
			return storetest.Fault{Truncate: 4}
		}
		return storetest.Fault{}
	})
	f := newStore(t, store.Options{Wrap: faults.Wrap}).FS(t.Context(), nil)
	_, err := f.ReadFile(path)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)

	for n := range 3 { // create, write, close
		one := storetest.FailCall(n)
		f := newStore(t, store.Options{Wrap: one.Wrap}).FS(t.Context(), nil)
		require.ErrorIs(t, f.WriteFile(dir+"/y", []byte("y")), storetest.ErrInjected)
		_, err := clean.Stat(dir + "/y")
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.Empty(t, partFiles(t, dir))
		require.NoError(t, f.WriteFile(dir+"/z", []byte("z")), "only that call fails")
	}
}
