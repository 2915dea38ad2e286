package column

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/splice/codec"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
)

// What a sample told is asked again after some chunks, and at once when values
// repeat.
func TestJudgementsAreRemembered(t *testing.T) {
	b := &builder{memory: &Memory{}, leaf: page.Leaf{Type: format.Int64}, opts: Options{Pool: codec.New(format.Zstd, 1), DictionaryBytes: 8 * 1000}}
	ask := func(sources []Source) bool {
		lost, err := b.hopeless(sources)
		require.NoError(t, err)

		return lost
	}
	different, alike := dictionaries(1000, 0, 1000, 2000), dictionaries(1000, 0, 0, 0)
	require.True(t, ask(different))
	for range remembered {
		assert.True(t, ask(alike), "by what was said of the chunk before")
	}
	assert.False(t, ask(alike))

	b.memory.hopeless.keep(true)
	for _, s := range alike {
		s.Chunk.Pages[0].Header.Data.NumValues = 3000
	}
	assert.False(t, ask(alike))
}

// dictionaries are chunks with a dictionary of numbers from start on, one for
// each start, and no compression.
func dictionaries(count int, starts ...int) []Source {
	var out []Source
	for _, start := range starts {
		var plain []byte
		for i := range count {
			plain = binary.LittleEndian.AppendUint64(plain, uint64(start+i))
		}
		out = append(out, Source{Rows: int64(count), Chunk: &page.Chunk{
			Dictionary: &page.Page{Body: plain, Header: &format.PageHeader{
				Type: format.DictionaryPage, Uncompressed: int32(len(plain)), Compressed: int32(len(plain)),
				Dictionary: &format.DictionaryPageHeader{NumValues: int32(count)},
			}},
			Pages: []page.Page{{Header: &format.PageHeader{Type: format.DataPage, Data: &format.DataPageHeader{
				NumValues: int32(count), Encoding: format.RLEDictionary,
			}}}},
		}})
	}

	return out
}

func TestOnlyDictionariesWithLittleInCommonAreGivenUpUnseen(t *testing.T) {
	for name, c := range map[string]struct {
		starts []int
		want   bool
	}{
		"other values in each":       {[]int{0, 1000, 2000, 3000, 4000, 5000}, true},
		"the same values":            {[]int{0, 0, 0, 0, 0, 0}, false},
		"most values in common":      {[]int{0, 10, 20, 30, 40, 50}, false},
		"only the ends in common":    {[]int{0, 1000, 2000, 3000, 4000, 0}, false},
		"no smaller than the values": {[]int{0, 1000}, true},
		"one":                        {[]int{0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := &builder{memory: &Memory{}, leaf: page.Leaf{Type: format.Int64}, opts: Options{Pool: codec.New(format.Zstd, 1), DictionaryBytes: 8 * 1000}}
			got, err := b.hopeless(dictionaries(1000, c.starts...))
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}
