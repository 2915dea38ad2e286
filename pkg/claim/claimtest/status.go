package claimtest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"compactor/pkg/claim"
)

// testStatus checks that a third party sees who holds and who waits, and that
// nothing is left to see afterwards.
func (h Harness) testStatus(t *testing.T) {
	key := Key("status")
	holder, waiter, reader := h.open(t, "holder"), h.open(t, "waiter"), h.open(t, "reader")
	look := func() claim.Status {
		s, err := claim.StatusOf(context.Background(), reader, key)
		require.NoError(t, err)
		require.Equal(t, reader.Mode(), s.Mode)
		require.Equal(t, key, s.Key)
		return s
	}
	require.Nil(t, look().Holder)
	require.Empty(t, look().Waiters)

	held := acquire(t, holder, key)
	got := enqueue(context.Background(), t, waiter, key)
	s := look()
	require.Equal(t, held.Reference(), s.Reference)
	require.NotNil(t, s.Holder)
	require.Equal(t, "holder", s.Holder.Name)
	require.Len(t, s.Waiters, 1)
	if !h.HeadOnly {
		require.Equal(t, "waiter", s.Waiters[0].Name)
		require.Positive(t, s.Waiters[0].For)
	}
	require.NoError(t, held.Release(context.Background()))
	next := <-got
	require.NoError(t, next.err)
	Eventually(t, "the waiter is seen as the holder", func() bool {
		s := look()
		return s.Holder != nil && s.Holder.Name == "waiter" && len(s.Waiters) == 0
	})
	require.NoError(t, next.claim.Release(context.Background()))
	Eventually(t, "nobody is seen", func() bool { s := look(); return s.Holder == nil && len(s.Waiters) == 0 })

	_, err := claim.StatusOf(context.Background(), reader, claim.Key{Realm: `a"b`})
	require.ErrorContains(t, err, "double quote")
}
