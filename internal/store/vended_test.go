package store

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func vendedProps(key string, end time.Time) map[string]string {
	return map[string]string{
		propAccessKeyID: key, propSecretKey: "secret", propSessionToken: "token",
		propTokenExpiresAt: strconv.FormatInt(end.UnixMilli(), 10),
	}
}

// Credentials are renewed a third of their life before their end, five minutes
// at most, and not before.
func TestVendedCredentialsAreRenewedInTime(t *testing.T) {
	start := time.Now()
	for _, c := range []struct {
		life, at time.Duration
		renewed  bool
	}{
		{time.Minute, 39 * time.Second, false},
		{time.Minute, 41 * time.Second, true},
		{time.Hour, 54 * time.Minute, false},
		{time.Hour, 56 * time.Minute, true},
		{0, 54 * time.Minute, false}, // no end told: an hour is assumed
		{0, 56 * time.Minute, true},
	} {
		now := start
		v := NewVended(nil, func(context.Context) (map[string]string, error) {
			return vendedProps("new", now.Add(time.Hour)), nil
		})
		v.now = func() time.Time { return now }
		props := vendedProps("old", start.Add(c.life))
		if c.life == 0 {
			delete(props, propTokenExpiresAt)
		}
		v.take(props)
		now = start.Add(c.at)
		got, err := v.Retrieve(t.Context())
		require.NoError(t, err)
		require.Equal(t, c.renewed, got.AccessKeyID == "new", "life %s at %s", c.life, c.at)
	}
}

// A renewal that fails is no harm as long as the old credentials are good.
func TestAFailedRenewalIsTriedAgain(t *testing.T) {
	now := time.Now()
	down := errors.New("catalog is down")
	v := NewVended(vendedProps("old", now.Add(time.Minute)), func(context.Context) (map[string]string, error) { return nil, down })
	v.now = func() time.Time { return now }
	now = now.Add(50 * time.Second)
	got, err := v.Retrieve(t.Context())
	require.NoError(t, err)
	require.Equal(t, "old", got.AccessKeyID)
	require.WithinDuration(t, now.Add(renewAgain), got.Expires, time.Second)
	now = now.Add(11 * time.Second)
	_, err = v.Retrieve(t.Context())
	require.ErrorIs(t, err, down)
}

// A store that refuses credentials before their stated end gets new ones, in
// the middle of a listing.
func TestRefusedVendedCredentialsAreReplaced(t *testing.T) {
	var refusals, pages atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		if pages.Load() >= 2 && strings.Contains(r.Header.Get("Authorization"), "Credential=old/") {
			refusals.Add(1)
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`<Error><Code>ExpiredToken</Code><Message>expired</Message></Error>`)) // The client notices.
			return
		}
		n := pages.Add(1)
		_, _ = w.Write([]byte(`<ListBucketResult><IsTruncated>` + strconv.FormatBool(n < 4) + `</IsTruncated><NextContinuationToken>` +
			strconv.FormatInt(n, 10) + `</NextContinuationToken><Contents><Key>t/` + strconv.FormatInt(n, 10) +
			`</Key><Size>1</Size></Contents></ListBucketResult>`)) // The client notices.
	}))
	defer server.Close()
	s, err := New(Options{S3: S3Options{Endpoint: server.URL, Region: "r"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	props := vendedProps("old", time.Now().Add(time.Hour))
	v := NewVended(props, func(context.Context) (map[string]string, error) {
		return vendedProps("new", time.Now().Add(time.Hour)), nil
	})
	v.taken = v.taken.Add(-time.Minute)
	f := s.FS(t.Context(), props).WithVended(v)
	listed := 0
	for _, err := range f.List(t.Context(), "s3://b/t") {
		require.NoError(t, err)
		listed++
	}
	require.Equal(t, 4, listed)
	require.EqualValues(t, 1, refusals.Load())
}
