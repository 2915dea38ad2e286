package store_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"compactor/internal/store"
	"compactor/internal/testenv"
)

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
