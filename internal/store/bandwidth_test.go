package store

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// Connections share one bandwidth for both directions, and what they carry stays
// as it is.
func TestBandwidthIsSharedByConnections(t *testing.T) {
	t.Parallel()
	const perSecond, conns, each = 8 << 20, 4, 1<<20 + 17
	b := newBandwidth(perSecond)
	sent := bytes.Repeat([]byte("0123456789abcdefg"), each/17+1)[:each]
	began := time.Now()
	var work errgroup.Group
	for range conns {
		near, far := net.Pipe()
		shaped := b.shape(near)
		work.Go(func() error { // The other side sends everything back.
			got := make([]byte, each)
			if _, err := io.ReadFull(far, got); err != nil {
				return err
			}
			_, err := far.Write(got)

			return err
		})
		work.Go(func() error {
			n, err := shaped.Write(sent)
			if err != nil {
				return err
			}
			got, err := io.ReadAll(io.LimitReader(shaped, each))
			require.Equal(t, each, n)
			require.True(t, bytes.Equal(sent, got))

			return err
		})
	}
	require.NoError(t, work.Wait())
	// A quarter of a second's worth goes at once; a busy machine only makes it take longer.
	const least = time.Duration(2*conns*each-perSecond/4) * time.Second / perSecond
	require.GreaterOrEqual(t, time.Since(began), least)
}

// A connection that is closed while it waits for its turn waits no longer.
func TestClosingAConnectionEndsItsTurn(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	b := newBandwidth(MinBytesPerSecond)
	for b.bucket.ReserveN(time.Now(), piece).Delay() < time.Hour { // Others have taken what there is, for an hour.
	}
	shaped := b.shape(near)
	ended := make(chan error, 1)
	go func() {
		_, err := shaped.Write([]byte("x"))
		ended <- err
	}()
	require.NoError(t, shaped.Close())
	require.NoError(t, shaped.(*shapedConn).Conn.Close(), "closed once more")
	select {
	case err := <-ended:
		require.ErrorIs(t, err, net.ErrClosed)
	case <-time.After(time.Minute):
		t.Fatal("it waits on")
	}
	require.NoError(t, far.Close())
	require.Same(t, far, (*bandwidth)(nil).shape(far), "without a bound nothing is in between")
}
