package store_test

import (
	"context"
	"io/fs"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/store"
	"compactor/internal/testenv"
)

// lastRequests matches the request that makes an object visible: a single PUT, or
// the completion of an upload in parts.
func lastRequests(r *http.Request) bool {
	return r.Method == http.MethodPut && !r.URL.Query().Has("partNumber") ||
		r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
}

var lastSizes = map[string]int{"a single PUT": 1000, "an upload in parts": 11 * mib}

func TestACancellationDuringTheLastRequestLeavesNoLateObject(t *testing.T) {
	for name, size := range lastSizes {
		t.Run(name, func(t *testing.T) {
			s, proxy, root := proxied(t)
			landed, release := make(chan struct{}), make(chan struct{})
			proxy.Handle(testenv.Rule{
				Match: lastRequests, Times: 1,
				Before: func(*http.Request) { close(landed) },
				Action: testenv.BlockUntil(release),
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- s.FS(ctx, nil).WriteFile(root+"/x", make([]byte, size)) }()
			<-landed
			cancel()
			clean := s.FS(t.Context(), nil)
			select {
			case err := <-ended:
				// Whoever is told of an error cleans up now, before the request lands.
				require.Error(t, err)
				require.NoError(t, clean.Remove(root+"/x"))
				close(release)
				t.Fatalf("the write ended before its last request: %v", err)
			case <-time.After(300 * time.Millisecond): // Long enough for a write that does not wait.
			}
			close(release)
			require.NoError(t, <-ended, "the object is there, so the write succeeded")
			info, err := clean.Stat(root + "/x")
			require.NoError(t, err)
			require.EqualValues(t, size, info.Size())
		})
	}
}

func TestAContextThatEndedStartsNoFurtherAttemptOfTheLastRequest(t *testing.T) {
	s, proxy, root := proxied(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	proxy.Handle(testenv.Rule{
		Match: lastRequests, Before: func(*http.Request) { cancel() },
		Action: testenv.AnswerWithoutForward(http.StatusServiceUnavailable, ""),
	})
	require.Error(t, s.FS(ctx, nil).WriteFile(root+"/x", []byte("x")))
	require.Equal(t, 1, proxy.Count(func(r testenv.Request) bool { return r.Method == http.MethodPut }))
}

func TestAWriteThatFailedLeavesNoObjectThoughItsAnswerWasLost(t *testing.T) {
	for name, size := range lastSizes {
		t.Run(name, func(t *testing.T) {
			s, proxy, root := proxied(t, func(o *store.Options) { o.S3.MaxAttempts = 1 })
			f := s.FS(t.Context(), nil)
			lost := testenv.Rule{Match: lastRequests, Action: testenv.ForwardThenClose()}
			proxy.Handle(lost)
			require.Error(t, f.WriteFile(root+"/x", make([]byte, size)))
			_, err := f.Stat(root + "/x")
			require.ErrorIs(t, err, fs.ErrNotExist)

			proxy.ClearRules()
			require.NoError(t, f.WriteFile(root+"/old", []byte("other size")))
			proxy.Handle(testenv.Rule{Match: lastRequests, Action: testenv.DropWithoutForward()})
			require.Error(t, f.WriteFile(root+"/old", make([]byte, size)))
			got, err := f.ReadFile(root + "/old")
			require.NoError(t, err)
			require.Equal(t, "other size", string(got), "what was there before stays")
		})
	}
}
