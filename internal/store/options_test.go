package store

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
)

func backendWith(t *testing.T, o S3Options, props map[string]string) *s3Backend {
	t.Helper()
	// The machine's own AWS settings are not part of the test.
	for _, name := range []string{"AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
		t.Setenv(name, "")
		require.NoError(t, os.Unsetenv(name))
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	empty := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_CONFIG_FILE", empty)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", empty)
	s, err := New(Options{S3: o})
	require.NoError(t, err)
	b, err := s.s3Factory(t.Context(), props)
	require.NoError(t, err)
	return b.(*s3Backend)
}

// url is where a GET of s3://lake/a/b goes.
func (b *s3Backend) url(t *testing.T) string {
	t.Helper()
	bucket, key := "lake", "a/b"
	req, err := s3.NewPresignClient(b.api).PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	require.NoError(t, err)
	u, _, _ := strings.Cut(req.URL, "?")
	return u
}

func TestAddressingStyles(t *testing.T) {
	keys := S3Options{AccessKeyID: "k", SecretAccessKey: "s", Region: "eu-west-1"}
	with := func(endpoint, style string) S3Options {
		o := keys
		o.Endpoint, o.URLStyle = endpoint, style
		return o
	}
	const own = "https://s3.example.com:9000/"
	for _, test := range []struct {
		o     S3Options
		props map[string]string
		want  string
	}{
		{o: with("", StyleAuto), want: "https://lake.s3.eu-west-1.amazonaws.com/a/b"},
		{o: with("", StylePath), want: "https://s3.eu-west-1.amazonaws.com/lake/a/b"},
		{o: with(own, StyleAuto), want: "https://s3.example.com:9000/lake/a/b"},
		{o: with(own, StyleVirtual), want: "https://lake.s3.example.com:9000/a/b"},
		{o: with(own, StyleAuto), props: map[string]string{propVirtualStyle: "true"}, want: "https://lake.s3.example.com:9000/a/b"},
		{o: with(own, StyleAuto), props: map[string]string{propPathStyle: "false"}, want: "https://lake.s3.example.com:9000/a/b"},
		{o: with("", StyleAuto), props: map[string]string{propPathStyle: "true"}, want: "https://s3.eu-west-1.amazonaws.com/lake/a/b"},
		{o: with("", StyleAuto), props: map[string]string{propEndpoint: "http://minio:9000"}, want: "http://minio:9000/lake/a/b"},
		{o: with(own, StyleAuto), props: map[string]string{propEndpoint: "http://minio:9000"}, want: "https://s3.example.com:9000/lake/a/b"},
	} {
		require.Equal(t, test.want, backendWith(t, test.o, test.props).url(t), "%+v %v", test.o, test.props)
	}
}

func TestKeysAndTokenComeFromOneSource(t *testing.T) {
	vended := map[string]string{propAccessKeyID: "vk", propSecretKey: "vs", propSessionToken: "vt", propRegion: "r1"}
	got, err := S3Options{}.fill(vended)
	require.NoError(t, err)
	require.Equal(t, S3Options{AccessKeyID: "vk", SecretAccessKey: "vs", SessionToken: "vt", Region: "r1"}, got)

	got, err = S3Options{AccessKeyID: "k", SecretAccessKey: "s"}.fill(vended)
	require.NoError(t, err)
	require.Equal(t, S3Options{AccessKeyID: "k", SecretAccessKey: "s", Region: "r1"}, got, "no token of another key")

	_, err = S3Options{}.fill(map[string]string{propAccessKeyID: "vk"})
	require.ErrorContains(t, err, propSecretKey)
	_, err = S3Options{}.fill(map[string]string{propRemoteSigning: "true"})
	require.ErrorIs(t, err, ErrRemoteSigning)
	got, err = S3Options{}.fill(map[string]string{propCompat: "true", propClientRegion: "r2"})
	require.NoError(t, err)
	require.Equal(t, S3Options{Interop: true, Region: "r2"}, got)
}

func TestValidateReportsEverything(t *testing.T) {
	err := Options{
		S3:       S3Options{AccessKeyID: "k", Endpoint: "minio:9000", URLStyle: "odd"},
		PartSize: 1, Concurrency: -1,
	}.Validate()
	for _, want := range []string{"given together", "http://", `"odd"`, "part size 1", "negative"} {
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, Options{}.Validate())
}

func TestClientsAreSharedBetweenViewsWithTheSameSettings(t *testing.T) {
	s, err := New(Options{S3: S3Options{Region: "r"}})
	require.NoError(t, err)
	props := map[string]string{propAccessKeyID: "k", propSecretKey: "s", "other": "1"}
	a, err := s.s3Factory(t.Context(), props)
	require.NoError(t, err)
	props["other"] = "2"
	b, err := s.s3Factory(t.Context(), props)
	require.NoError(t, err)
	require.Same(t, a, b)
	props[propAccessKeyID] = "k2"
	c, err := s.s3Factory(t.Context(), props)
	require.NoError(t, err)
	require.NotSame(t, a, c)
}

// recorded serves one handler and keeps the headers of the requests.
func recorded(t *testing.T, o Options, handler http.HandlerFunc) *FS {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	o.S3.Endpoint, o.S3.Region, o.S3.AccessKeyID, o.S3.SecretAccessKey = server.URL, "r", "k", "s"
	s, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s.FS(t.Context(), nil)
}

func TestInteropSigningLeavesAcceptEncodingAndChecksumsOut(t *testing.T) {
	for interop, signed := range map[bool]bool{true: false, false: true} {
		var auth, encoding string
		checksums := false
		f := recorded(t, Options{S3: S3Options{Interop: interop}}, func(w http.ResponseWriter, r *http.Request) {
			auth, encoding = r.Header.Get("Authorization"), r.Header.Get("Accept-Encoding")
			for name := range r.Header {
				checksums = checksums || strings.HasPrefix(strings.ToLower(name), "x-amz-checksum")
			}
			w.WriteHeader(http.StatusOK)
		})
		require.NoError(t, f.WriteFile("s3://b/k", []byte("x")))
		require.Equal(t, signed, checksums, "checksum of a PUT, interop %v", interop)
		_, err := f.ReadFile("s3://b/k")
		require.NoError(t, err)
		require.Equal(t, signed, strings.Contains(auth, "accept-encoding"), "interop %v: %s", interop, auth)
		require.NotEmpty(t, encoding, "the header is still sent")
	}
}

func TestABodyThatStallsIsGivenUpAndContinued(t *testing.T) {
	gate := make(chan struct{})
	t.Cleanup(func() { close(gate) })
	var ranges []string
	f := recorded(t, Options{S3: S3Options{Stall: time.Second}}, func(w http.ResponseWriter, r *http.Request) {
		ranges = append(ranges, r.Header.Get("Range"))
		w.Header().Set("ETag", `"e"`)
		if len(ranges) == 1 {
			w.Header().Set("Content-Range", "bytes 0-9/10")
			w.Header().Set("Content-Length", "10")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write([]byte("0123"))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-gate:
			case <-r.Context().Done():
			}
			return
		}
		w.Header().Set("Content-Range", "bytes 4-9/10")
		w.Header().Set("Content-Length", "6")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write([]byte("456789"))
	})
	data, err := f.ReadFile("s3://b/k")
	require.NoError(t, err)
	require.Equal(t, "0123456789", string(data))
	require.GreaterOrEqual(t, len(ranges), 2)
	require.True(t, strings.HasPrefix(ranges[1], "bytes=4-"), ranges[1])
}

func TestAServerWithoutRangesIsReadFromTheStart(t *testing.T) {
	body := strings.Repeat("0123456789", 300_000)
	f := recorded(t, Options{SmallObject: 1000}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"e"`)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write([]byte(body))
	})
	file, err := f.Open("s3://b/k")
	require.NoError(t, err)
	p := make([]byte, 7)
	_, err = file.ReadAt(p, 2_000_005)
	require.NoError(t, err)
	require.Equal(t, "5678901", string(p))
	require.NoError(t, file.Close())
}

func TestAWriterHoldsAFewPartsOnly(t *testing.T) {
	const part = minPartSize
	inFlight, most := make(chan int, 1), 0
	inFlight <- 0
	f := recorded(t, Options{PartSize: part, Concurrency: 2}, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && r.URL.Query().Has("uploads"):
			_, _ = w.Write([]byte(`<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>`))
		case r.Method == http.MethodPost:
			_, _ = w.Write([]byte(`<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>`))
		case r.Method == http.MethodPut:
			n := <-inFlight + 1
			most = max(most, n)
			inFlight <- n
			buf := make([]byte, 64<<10)
			for {
				if _, err := r.Body.Read(buf); err != nil {
					break
				}
			}
			n = <-inFlight - 1
			w.Header().Set("ETag", "e")
			inFlight <- n
		}
	})
	w, err := f.CreateWriter("s3://b/k")
	require.NoError(t, err)
	buf := make([]byte, part)
	for range 12 {
		_, err := w.Write(buf)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.LessOrEqual(t, most, 2)
	require.EqualValues(t, 14, f.Counters().Puts.Load())
}
