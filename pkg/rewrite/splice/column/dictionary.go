package column

import (
	"bytes"
	"fmt"
	"math"

	"compactor/pkg/rewrite/splice/dict"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
)

// mergeDictionaries reads the dictionaries in use and decides whether the chunk
// has one. Either all indices of a chunk are kept or none: some readers do not
// like a chunk that changes its mind. None are kept where indices would come after
// values, see resumes.
func (b *builder) mergeDictionaries(sources []Source) error {
	b.encoded = make(map[pageKind]int32)
	b.remaps, b.same = make([][]uint32, len(sources)), make([]bool, len(sources))
	if resumes(sources) {
		return nil
	}
	if lost, err := b.hopeless(sources); lost || err != nil {
		return err
	}
	merged := &b.union
	var values int
	taken := make(map[*page.Page]int) // dictionary → its first source; parts of a chunk share it
	for i, s := range sources {
		n := indexed(s)
		if n < 0 {
			continue
		}
		values += n
		if at, again := taken[s.Chunk.Dictionary]; again {
			b.remaps[i], b.same[i] = b.remaps[at], b.same[at]

			continue
		}
		taken[s.Chunk.Dictionary] = i
		var d *dict.Dictionary
		var err error
		if d, b.dictionary, err = b.parse(s, b.dictionary); err != nil {
			return err
		}
		b.remaps[i], b.same[i] = merged.Add(d)
		if len(merged.Plain) > b.opts.DictionaryBytes {
			return nil
		}
	}
	if merged.Count == 0 {
		return nil
	}
	if !saves(float64(merged.Count), float64(len(merged.Plain))/float64(merged.Count), float64(values)) {
		return nil
	}
	b.merged = merged
	b.findNaNs(merged)

	return b.putDictionary()
}

// parse reads a dictionary into buf's memory, and returns what may be used for the
// next one once this one is not needed any more.
func (b *builder) parse(s Source, buf []byte) (*dict.Dictionary, []byte, error) {
	d, err := dict.Parse(s.Chunk.Dictionary, s.Chunk.Codec, b.leaf, b.opts.Pool, buf)
	switch {
	case err != nil:
		return nil, buf, err //nolint:wrapcheck // says what it is
	case s.Chunk.Codec == format.Uncompressed:
		return d, buf, nil // it is a part of the input
	default:
		return d, d.Plain, nil
	}
}

// resumes reports that a page of indices comes after one of values. The format
// allows it, but Spark's reader of vectors (4.0) takes the values before, as far as
// they are in one batch with the indices, for indices too, and returns wrong rows
// without an error. Writers begin with indices and end with values when they give
// a dictionary up. Pages of nothing but nulls end that reader in the same place.
func resumes(sources []Source) bool {
	values := false
	for _, s := range sources {
		if s.Chunk == nil {
			continue // pages of nulls are made, of indices if need be
		}
		for i := range s.Chunk.Pages {
			switch index := s.Chunk.Pages[i].Encoding().Dictionary(); {
			case index && values:
				return true
			case !index:
				values = true
			}
		}
	}

	return false
}

// indexed counts the values in pages of indices, -1 without any such page.
func indexed(s Source) int {
	if s.Chunk == nil {
		return -1
	}
	n := -1
	for i := range s.Chunk.Pages {
		if p := &s.Chunk.Pages[i]; p.Encoding().Dictionary() {
			n = max(n, 0) + p.Values()
		}
	}

	return n
}

func (b *builder) putDictionary() error {
	body, err := b.encode(b.merged.Plain)
	if err != nil {
		return err
	}
	h, err := header(format.DictionaryPage, len(b.merged.Plain), body)
	if err != nil {
		return err
	}
	h.Dictionary = &format.DictionaryPageHeader{NumValues: int32(b.merged.Count), Encoding: format.Plain}
	head := h.Append(nil)
	b.piece(head, body)
	b.out.DictionarySize = b.out.Size
	b.out.Uncompressed += int64(len(head) + len(b.merged.Plain))
	b.out.Counts.BytesMade += int64(len(body))
	b.encoded[pageKind{format.DictionaryPage, format.Plain}]++

	return nil
}

// hopeless reports that the union of the dictionaries is sure to be larger than
// it may be, or that it saves nothing. It judges by two pairs of them, neighbours
// and the ends: where two samples of a set share few values, the set is large.
// Dictionaries of values that hardly ever come twice are then not read, let alone
// merged.
func (b *builder) hopeless(sources []Source) (bool, error) {
	var used []int
	var size, distinct, values float64
	seen := make(map[*page.Page]bool) // parts of a chunk share it
	for i, s := range sources {
		n := indexed(s)
		if n < 0 {
			continue
		}
		values += float64(n)
		if d := s.Chunk.Dictionary; !seen[d] {
			seen[d] = true
			used = append(used, i)
			size += float64(d.Header.Uncompressed)
			distinct += float64(d.Header.Dictionary.NumValues)
		}
	}
	limit := float64(2 * b.opts.DictionaryBytes) // an estimate may be wrong by a factor of two
	repeat := 2*distinct < values                // in each chunk already
	if len(used) < 2 || distinct == 0 || size <= limit && repeat {
		return false, nil
	}
	if yes, known := b.memory.hopeless.recall(); known && !repeat {
		return yes, nil
	}
	set, err := b.setSize(sources[used[0]], sources[used[1]], sources[used[len(used)-1]])
	if err != nil {
		return false, err
	}
	union := distinct
	if !math.IsInf(set, 1) {
		union = set * -math.Expm1(-distinct/set)
	}
	width := size / distinct

	lost := union*width > limit || !saves(union, width, values)
	b.memory.hopeless.keep(lost)

	return lost, nil
}

// saves reports whether indices and a dictionary of count values are smaller than
// all values themselves, of so many bytes each on average.
func saves(count, width, values float64) bool {
	bits := float64(bitsFor(int(count)))

	return count*width+values*bits/8 <= values*width
}

// setSize estimates how many values the set has from which dictionaries took
// theirs, by those that one has in common with others. The smallest estimate counts.
func (b *builder) setSize(one Source, others ...Source) (float64, error) {
	first, buf, err := b.parse(one, b.buf)
	if err != nil {
		return 0, err
	}
	b.buf = buf
	set := math.Inf(1)
	for _, other := range others {
		var d *dict.Dictionary
		if d, b.dictionary, err = b.parse(other, b.dictionary); err != nil {
			return 0, err
		}
		if common := dict.Common(first, d); common > 0 {
			set = min(set, float64(first.Count)*float64(d.Count)/common)
		}
	}

	return set, nil
}

// checkIndices looks at indices that are moved: one beyond its own dictionary
// would not be seen as damaged any more where the merged one is larger. Those of
// NaNs are counted.
func (b *builder) checkIndices(i int, s Source, p *page.Page) error {
	own := len(b.remaps[i])
	if own == b.merged.Count && len(b.nanIndices) == 0 {
		return nil
	}
	parts, err := b.split(s, p)
	if err != nil {
		return err
	}
	present, err := page.Present(p, parts.Def, b.leaf)
	if err != nil {
		return err //nolint:wrapcheck // says what it is
	}
	if err := b.readIndices(parts.Values, present); err != nil {
		return err
	}
	for _, index := range b.indices {
		if int(index) >= own {
			return fmt.Errorf("%w: index %d of %d values", dict.ErrCorrupt, index, own)
		}
	}
	b.sawIndices(b.indices)

	return nil
}

// encode compresses into memory of just the size that is needed, because it is
// held until the chunk is written.
func (b *builder) encode(plain []byte) ([]byte, error) {
	var err error
	if b.scratch, err = b.opts.Pool.Encode(b.out.Codec, b.scratch[:0], plain); err != nil {
		return nil, err //nolint:wrapcheck // says what it is
	}

	return bytes.Clone(b.scratch), nil
}
