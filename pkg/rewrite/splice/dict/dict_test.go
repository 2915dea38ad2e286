package dict

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMergedDictionariesKeepTheFirstIndexOfAValue(t *testing.T) {
	for width, name := range map[int]string{4: "ints", 8: "longs", 3: "texts"} {
		t.Run(name, func(t *testing.T) {
			const n = 5000 // the table of numbers grows several times
			dictionary := func(from int) *Dictionary {
				d := &Dictionary{Count: n, width: width}
				for i := range n {
					d.Plain = append(d.Plain, binary.LittleEndian.AppendUint64(nil, uint64(from+i)<<3)[:width]...)
				}

				return d
			}
			m := &Merged{}
			remap, same := m.Add(dictionary(0))
			assert.True(t, same, "the first one is taken as it is")
			assert.Equal(t, uint32(n-1), remap[n-1])
			remap, same = m.Add(dictionary(n / 2))
			assert.False(t, same)
			assert.Equal(t, n+n/2, m.Count)
			for i := range uint32(n) {
				assert.Equal(t, i+n/2, remap[i], "half of them are known, the others come next in order")
			}
			assert.Equal(t, dictionary(0).Plain, m.Plain[:n*width])
			assert.Equal(t, dictionary(n/2).Plain, m.Plain[n/2*width:])
		})
	}
}

func TestSequentialMeansEveryValueOnceInOrder(t *testing.T) {
	assert.True(t, Sequential([]uint32{0, 1, 2}, 3))
	assert.False(t, Sequential([]uint32{0, 1}, 3))
	assert.False(t, Sequential([]uint32{0, 2, 1}, 3))
	assert.False(t, Sequential([]uint32{0, 1, 2, 2}, 3))
}

func TestWhatTwoDictionariesHaveInCommonIsEstimatedByASample(t *testing.T) {
	for width, name := range map[int]string{4: "ints", 8: "longs", 16: "texts"} {
		t.Run(name, func(t *testing.T) {
			dictionary := func(from, n int) *Dictionary {
				d := &Dictionary{Count: n, width: width}
				for i := range n {
					d.Plain = append(d.Plain, binary.LittleEndian.AppendUint64(make([]byte, 8), uint64(from+i))[16-max(width, 8):][:width]...)
				}

				return d
			}
			assert.InDelta(t, 500, Common(dictionary(0, 1500), dictionary(1000, 1500)), 0, "all of a small one are looked at")
			assert.InDelta(t, 10_000, Common(dictionary(0, 20_000), dictionary(10_000, 20_000)), 2_000)
			assert.InDelta(t, 50_000, Common(dictionary(0, 50_000), dictionary(0, 50_000)), 5_000)
			assert.Zero(t, Common(dictionary(0, 50_000), dictionary(50_000, 50_000)))
			assert.Zero(t, Common(dictionary(0, 0), dictionary(0, 10)))
		})
	}
}

func TestMergedDictionariesForgetEverythingWhenTheyAreReset(t *testing.T) {
	for width, name := range map[int]string{4: "ints", 8: "longs", 3: "texts"} {
		t.Run(name, func(t *testing.T) {
			dictionary := func(values ...uint64) *Dictionary {
				d := &Dictionary{Count: len(values), width: width}
				for _, v := range values {
					d.Plain = append(d.Plain, binary.LittleEndian.AppendUint64(nil, v)[:width]...)
				}

				return d
			}
			m := &Merged{}
			m.Add(dictionary(1, 2, 3))
			m.Reset()
			remap, same := m.Add(dictionary(3, 4))
			assert.True(t, same)
			assert.Equal(t, []uint32{0, 1}, remap)
			assert.Equal(t, 2, m.Count)
			assert.Equal(t, dictionary(3, 4).Plain, m.Plain)
		})
	}
}

func TestValuesAreAppendedInTheOrderOfTheirIndices(t *testing.T) {
	indices := []uint32{2, 0, 1, 2, 2}
	texts := &Dictionary{Plain: []byte("\x01\x00\x00\x00a\x00\x00\x00\x00\x02\x00\x00\x00bc"), Count: 3, start: []uint32{0, 5, 9, 15}}
	for _, d := range []*Dictionary{
		{Plain: []byte("onlytwoofall"), Count: 3, width: 4}, {Plain: []byte("longer..two.....of all.."), Count: 3, width: 8}, texts,
	} {
		want := []byte("before ")
		for _, i := range indices {
			want = append(want, d.At(i)...)
		}
		assert.Equal(t, want, d.Append([]byte("before "), indices))
		assert.Equal(t, []byte("x"), d.Append([]byte("x"), nil))
	}
}
