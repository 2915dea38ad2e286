package stats

import (
	"bytes"
	"unicode/utf8"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
)

const (
	// chunkBound is the size in bytes up to which a bound of a chunk is written
	// as it is.
	chunkBound = 4096
	// shortBound is the size to which longer bounds are cut.
	shortBound = 64
)

// ForChunk are the statistics of a column chunk. Bounds that are too long for a
// footer are cut, marked as not exact, and still bounds. It returns false when
// the upper one cannot be cut.
func (s Summary) ForChunk(leaf page.Leaf) (*format.Statistics, bool) {
	nulls := s.Nulls
	out := &format.Statistics{NullCount: &nulls}
	if s.Min == nil {
		return out, true
	}
	low, high, ok := cut(leaf, s, chunkBound)
	out.Min, out.Max = bytes.Clone(low), bytes.Clone(high)
	lowExact, highExact := len(low) == len(s.Min), len(s.Max) <= chunkBound
	out.MinExact, out.MaxExact = &lowExact, &highExact

	return out, ok
}

// cut shortens bounds of variable size that are longer than a limit.
func cut(leaf page.Leaf, s Summary, limit int) (low, high []byte, ok bool) {
	low, high = s.Min, s.Max
	if leaf.Type != format.ByteArray || leaf.SignedBytes {
		return low, high, true
	}
	if len(low) > limit {
		low = low[:boundary(low, shortBound)]
	}
	if len(high) > limit {
		high = above(high[:boundary(high, shortBound)])
	}

	return low, high, high != nil
}

// boundary is the largest n up to limit at which valid UTF-8 may be cut.
func boundary(v []byte, limit int) int {
	for n := limit; n > limit-utf8.UTFMax; n-- {
		if utf8.RuneStart(v[n]) {
			return n
		}
	}

	return limit
}

// above is a short value that is larger than every value with the prefix; nil
// when there is none. Texts stay texts.
func above(prefix []byte) []byte {
	for end := len(prefix); end > 0; {
		r, size := utf8.DecodeLastRune(prefix[:end])
		end -= size
		if r == utf8.RuneError && size == 1 {
			if b := prefix[end]; b < 0xff {
				return append(append([]byte(nil), prefix[:end]...), b+1)
			}

			continue
		}
		next := r + 1
		if next == 0xd800 { // the surrogates are no text
			next = 0xe000
		}
		if next <= utf8.MaxRune {
			return utf8.AppendRune(append([]byte(nil), prefix[:end]...), next)
		}
	}

	return nil
}

// Index is the column index of pages with the given summaries and numbers of
// values. It is nil when something about a page is not known, or cannot be said
// in an index, as with pages of nothing but NaN.
func Index(leaf page.Leaf, pages []Summary, values []int) *format.ColumnIndex {
	out := &format.ColumnIndex{NullCounts: []int64{}}
	known := make([]Summary, 0, len(pages))
	for i, s := range pages {
		allNull := s.Nulls == int64(values[i])
		if s.Unknown || (s.Min == nil && !allNull) {
			return nil
		}
		low, high := []byte{}, []byte{}
		if s.Min != nil {
			var ok bool
			if low, high, ok = cut(leaf, s, shortBound); !ok {
				return nil
			}
			// What is kept until the file is closed must not hold the inputs in memory.
			low, high = append([]byte{}, low...), append([]byte{}, high...)
			known = append(known, Summary{Min: low, Max: high})
		}
		out.NullPages = append(out.NullPages, s.Min == nil)
		out.Min, out.Max = append(out.Min, low), append(out.Max, high)
		out.NullCounts = append(out.NullCounts, s.Nulls)
	}
	out.Order = order(leaf, known)

	return out
}

// order is the boundary order: ascending and descending are claimed only when
// both bounds agree.
func order(leaf page.Leaf, pages []Summary) int32 {
	up, down := true, true
	for i := 1; i < len(pages); i++ {
		low := Compare(leaf, pages[i-1].Min, pages[i].Min)
		high := Compare(leaf, pages[i-1].Max, pages[i].Max)
		up = up && low <= 0 && high <= 0
		down = down && low >= 0 && high >= 0
	}
	switch {
	case up:
		return 1
	case down:
		return 2
	default:
		return 0
	}
}
