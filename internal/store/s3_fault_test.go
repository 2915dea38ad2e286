package store_test

import (
	"context"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/store"
	"compactor/internal/store/storetest"
	"compactor/internal/testenv"
)

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
