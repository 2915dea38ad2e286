package store_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"

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
