package delta

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestValuesOfAFixedWidthBecomePlain(t *testing.T) {
	values := []string{"aaaa", "aaab", "aaab", "bbbb", "bbcc"}
	prefixes, lengths := []int64{0, 3, 4, 0, 2}, []int64{4, 1, 0, 4, 2}
	stream := append(Encode(Encode(nil, prefixes, Int32), lengths, Int32), "aaaabbbbbcc"...)
	var s Strings
	require.NoError(t, s.AppendPrefixed(stream, len(values), 4))
	assert.Equal(t, "levels"+"aaaaaaabaaabbbbbbbcc", string(s.AppendFixed([]byte("levels"))))
	require.ErrorIs(t, s.AppendPrefixed(stream, len(values), 5), ErrCorrupt)
}
