package remake

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
)

func TestNumbersKeepTheirSignInEveryWidth(t *testing.T) {
	for _, c := range []struct {
		in    []byte
		width int
		want  []byte // nil for an error
	}{
		{[]byte{0xff, 0x85}, 3, []byte{0xff, 0xff, 0x85}},
		{[]byte{0x05}, 4, []byte{0, 0, 0, 5}},
		{[]byte{0, 0, 5}, 1, []byte{5}},
		{[]byte{0xff, 0x80}, 1, []byte{0x80}},
		{[]byte{0x80}, 1, []byte{0x80}},
		{[]byte{0, 0x85}, 1, nil},    // 133 is no number of one byte
		{[]byte{0xff, 0x05}, 1, nil}, // neither is -251
		{[]byte{1, 0}, 1, nil},
		{[]byte{}, 4, nil},
	} {
		got, err := resized(c.in, c.width)
		if c.want == nil {
			require.ErrorIs(t, err, ErrCorrupt, "%x", c.in)

			continue
		}
		require.NoError(t, err, "%x", c.in)
		assert.Equal(t, c.want, []byte(got), "%x", c.in)
	}
	minusTwo, err := bigEndian(-2, 3)
	require.NoError(t, err)
	assert.Equal(t, []byte{0xff, 0xff, 0xfe}, []byte(minusTwo))
	back, err := int64Of(minusTwo)
	require.NoError(t, err)
	assert.EqualValues(t, -2, back)
	_, err = int32Of([]byte{1, 0, 0, 0, 0})
	require.ErrorIs(t, err, ErrCorrupt)
	_, err = narrowed(1 << 31)
	require.ErrorIs(t, err, ErrCorrupt)
}

func TestADecimalHasRoomForItsDigits(t *testing.T) {
	for digits, want := range map[int32]int{1: 1, 2: 1, 3: 2, 9: 4, 10: 5, 18: 8, 19: 9, 38: 16} {
		assert.Equal(t, want, bytesFor(digits), "%d digits", digits)
	}
}

func TestColumnsAreMadeOfNothing(t *testing.T) {
	leaf := page.Leaf{Type: format.Int64, MaxDef: 1}
	made, err := Column(nil, 0, -1, Job{
		Leaf: leaf, Rows: 10_000, Keep: func(row int64) bool { return row%2 == 0 },
		Fill: &Fill{Def: 1, Number: func(row int64) int64 { return 7 + row }},
	})
	require.NoError(t, err)
	assert.EqualValues(t, 5000, made.Rows)
	assert.EqualValues(t, 0, made.Summary.Nulls)
	assert.Equal(t, byte(7), made.Summary.Min[0])
	var values int
	for i := range made.Chunk.Pages {
		values += made.Chunk.Pages[i].Values()
	}
	assert.Equal(t, 5000, values)

	_, err = Column(nil, 0, -1, Job{Leaf: leaf, Rows: 3, Fill: &Fill{Def: 1, Value: []byte{1}}})
	require.ErrorIs(t, err, ErrCorrupt, "one byte is no number of eight")
	_, err = Column(nil, 0, -1, Job{Leaf: page.Leaf{Type: format.Int96}, Rows: 3})
	require.ErrorIs(t, err, ErrCorrupt)
}
