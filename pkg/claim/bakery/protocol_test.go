package bakery_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAWriterEntersWhenEveryPeerHasAcked(t *testing.T) {
	majors(t, func(t *testing.T, m *mesh) {
		a, b := m.session(t, 0), m.session(t, 1)
		first := acquire(t, a, "t", "first")
		require.True(t, get[bool](t, a, "SELECT bakery.holding($1)", first))
		second := get[int64](t, b, "SELECT bakery.claim('t', 'second')")
		require.Greater(t, second, first)
		require.False(t, enters(t, b, second))
		require.True(t, get[bool](t, a, "SELECT bakery.release('t', $1)", first))
		eventually(t, "the second enters", func() bool { return enters(t, b, second) })
		require.True(t, get[bool](t, b, "SELECT bakery.release('t', $1)", second))
		m.requireEmpty(t)
	})
}
