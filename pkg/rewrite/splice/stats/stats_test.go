package stats

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
)

func f64(v float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)) }

func i32(v int32) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(v)) }

func TestOrderIsThatOfTheType(t *testing.T) {
	decimal := page.Leaf{Type: format.FixedLenByteArray, TypeLength: 2, SignedBytes: true}
	text := page.Leaf{Type: format.ByteArray}
	for name, c := range map[string]struct {
		leaf        page.Leaf
		small, high []byte
	}{
		"negative number":         {page.Leaf{Type: format.Int32}, i32(-1), i32(0)},
		"negative float":          {page.Leaf{Type: format.Double}, f64(-2), f64(1)},
		"negative decimal":        {decimal, []byte{0xff, 0xfe}, []byte{0x00, 0x01}},
		"decimals of two lengths": {page.Leaf{Type: format.ByteArray, SignedBytes: true}, []byte{0xff, 0x00}, []byte{0x80}},
		"bytes have no sign":      {text, []byte{0x01}, []byte{0xff}},
		"shorter text":            {text, []byte("a"), []byte("aa")},
	} {
		assert.Negative(t, Compare(c.leaf, c.small, c.high), name)
		assert.Positive(t, Compare(c.leaf, c.high, c.small), name)
		assert.Zero(t, Compare(c.leaf, c.high, c.high), name)
	}
}

func TestStatisticsThatAreNotBelieved(t *testing.T) {
	no, nulls, many := false, int64(0), int64(11)
	double := page.Leaf{Type: format.Double, MaxDef: 1}
	for name, s := range map[string]*format.Statistics{
		"none":              nil,
		"no null count":     {Min: f64(1), Max: f64(2)},
		"too many nulls":    {NullCount: &many, Min: f64(1), Max: f64(2)},
		"no bounds":         {NullCount: &nulls},
		"only one bound":    {NullCount: &nulls, Min: f64(1)},
		"not a number":      {NullCount: &nulls, Min: f64(1), Max: f64(math.NaN())},
		"cut":               {NullCount: &nulls, Min: f64(1), Max: f64(2), MaxExact: &no},
		"wrong size":        {NullCount: &nulls, Min: []byte{1}, Max: f64(2)},
		"wrong way round":   {NullCount: &nulls, Min: f64(3), Max: f64(2)},
		"empty and bounded": {NullCount: &nulls, Min: []byte{}, Max: []byte{}},
	} {
		assert.True(t, Of(double, s, 10).Unknown, name)
	}
	all := int64(10)
	assert.Equal(t, Summary{Nulls: 10}, Of(double, &format.Statistics{NullCount: &all}, 10))
	zero := Of(double, &format.Statistics{NullCount: &nulls, Min: f64(0), Max: f64(math.Copysign(0, -1))}, 10)
	assert.Equal(t, Summary{Min: f64(math.Copysign(0, -1)), Max: f64(0)}, zero, "zeros get the sign that bounds it")
}

func TestLongBoundsAreCutAndStayBounds(t *testing.T) {
	leaf := page.Leaf{Type: format.ByteArray}
	for _, long := range []string{
		strings.Repeat("a", 5000), strings.Repeat("é", 5000), "x" + strings.Repeat("\U0010ffff", 2000), strings.Repeat("퟿", 3000),
		"\x01" + strings.Repeat("\xff", 5000),
	} {
		s := Summary{Min: []byte(long), Max: []byte(long)}
		st, ok := s.ForChunk(leaf)
		require.True(t, ok)
		assert.Less(t, len(st.Min), 100)
		assert.Less(t, len(st.Max), 100)
		assert.Negative(t, Compare(leaf, st.Min, s.Min))
		assert.Positive(t, Compare(leaf, st.Max, s.Max))
		assert.False(t, *st.MinExact)
		assert.False(t, *st.MaxExact)
	}
	s := Summary{Max: []byte(strings.Repeat("\xff", 5000)), Min: []byte("a")}
	_, ok := s.ForChunk(leaf)
	assert.False(t, ok, "nothing short is larger")
	assert.Nil(t, Index(leaf, []Summary{s}, []int{3}))
}

func TestIndexSaysOnlyWhatIsKnown(t *testing.T) {
	leaf := page.Leaf{Type: format.Int32, MaxDef: 1}
	at := func(low, high int32) Summary { return Summary{Min: i32(low), Max: i32(high)} }
	index := Index(leaf, []Summary{at(1, 2), {Nulls: 5}, at(2, 9)}, []int{5, 5, 5})
	require.NotNil(t, index)
	assert.Equal(t, []bool{false, true, false}, index.NullPages)
	assert.Equal(t, []int64{0, 5, 0}, index.NullCounts)
	assert.EqualValues(t, 1, index.Order)
	assert.EqualValues(t, 2, Index(leaf, []Summary{at(5, 6), at(1, 2)}, []int{5, 5}).Order)
	assert.EqualValues(t, 0, Index(leaf, []Summary{at(1, 9), at(2, 3)}, []int{5, 5}).Order)
	assert.Nil(t, Index(leaf, []Summary{at(1, 2), {Unknown: true}}, []int{5, 5}))
	assert.Nil(t, Index(leaf, []Summary{at(1, 2), {Nulls: 1}}, []int{5, 5}), "values without a place in the order")
}

func TestBoundsOfFloatsAreBelievedOfKnownWritersOnly(t *testing.T) {
	assert.True(t, Floats("parquet-mr version 1.13.1 (build 1)"))
	assert.True(t, Floats("parquet-go version 18.8.0"), "the library that is used here")
	assert.False(t, Floats("github.com/parquet-go/parquet-go version 0.32.0(build )"), "its maximum depends on where NaN stands")
	assert.False(t, Floats(""))
}
