package column

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"compactor/pkg/rewrite/splice/dict"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/hybrid"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/stats"
)

// indicesPerPage bounds a page of indices; it takes little memory to read, but
// readers skip whole pages.
const indicesPerPage = 128 << 10

// valuesPerPage bounds any page, nulls included.
const valuesPerPage = 1 << 20

// pending is a page in the making.
type pending struct {
	encoding format.Encoding
	rep      []uint32
	def      []uint32 // empty as long as no value is missing
	indices  []uint32 // for a page of indices, or of booleans
	values   []byte   // for a PLAIN page
	deltas   deltas   // for a page of deltas
	// sealed are compressed values that come before the others, sealedBytes their
	// size in PLAIN form.
	sealed      [][]byte
	sealedBytes int
	count       int // values, nulls included
	rows        int
	nulls       int
	summary     stats.Summary
	v1          bool // begins or ends within a row, which version 2 does not allow
}

func (p *pending) reset() {
	p.deltas.reset()
	clear(p.sealed) // they belong to the inputs
	*p = pending{
		rep: p.rep[:0], def: p.def[:0], indices: p.indices[:0], values: p.values[:0], deltas: p.deltas, sealed: p.sealed[:0],
	}
}

// joint is what is needed to bring a page of indices in.
type joint struct {
	summary    stats.Summary
	remap      []uint32
	dictionary *dict.Dictionary
}

// joinable reports whether the page is no larger than one that is made anew. A
// few bytes may stand for many values.
func (b *builder) joinable(p *page.Page) bool {
	return int(p.Header.Uncompressed) <= b.opts.PageBytes && p.Values() <= valuesPerPage
}

// bitsFor is the bit width of indices into a dictionary of n values. It is at
// least one: not every reader knows a width of nothing.
func bitsFor(n int) uint { return max(1, uint(bits.Len(uint(max(0, n-1))))) }

// take brings the levels of a page in, and counts the values that are there. A
// page is closed only where a row begins, as far as the chunk allows.
func (b *builder) take(p *page.Page, parts page.Parts, e format.Encoding) (present int, err error) {
	rows, begins, err := page.Rows(p, parts.Rep, b.leaf)
	if err != nil {
		return 0, err //nolint:wrapcheck // says what it is
	}
	if err := b.goesOn(begins); err != nil {
		return 0, err
	}
	if err := b.open(e, begins); err != nil {
		return 0, err
	}
	pend := &b.pending
	pend.v1 = pend.v1 || (pend.count == 0 && !begins)
	n := p.Values()
	if b.leaf.MaxRep > 0 {
		if pend.rep, err = hybrid.Decode(pend.rep, parts.Rep, hybrid.Width(uint32(b.leaf.MaxRep)), n); err != nil {
			return 0, fmt.Errorf("repetition levels: %w", err)
		}
	}
	if present, err = b.definitions(parts.Def, n); err != nil {
		return 0, err
	}
	pend.count += n
	pend.rows += rows
	pend.nulls += n - present

	return present, nil
}

func (b *builder) definitions(levels []byte, n int) (present int, err error) {
	if b.leaf.MaxDef == 0 {
		return n, nil
	}
	pend := &b.pending
	width := hybrid.Width(uint32(b.leaf.MaxDef))
	if len(pend.def) == 0 && hybrid.Constant(levels, width, n, uint32(b.leaf.MaxDef)) {
		return n, nil
	}
	pend.spell(uint32(b.leaf.MaxDef))
	at := len(pend.def)
	if pend.def, err = hybrid.Decode(pend.def, levels, width, n); err != nil {
		return 0, fmt.Errorf("definition levels: %w", err)
	}
	for _, level := range pend.def[at:] {
		if int(level) > b.leaf.MaxDef {
			return 0, fmt.Errorf("%w: definition level %d of %d", page.ErrCorrupt, level, b.leaf.MaxDef)
		}
		if int(level) == b.leaf.MaxDef {
			present++
		}
	}

	return present, nil
}

// spell writes the levels of the values so far out, before one that is missing.
func (p *pending) spell(present uint32) {
	for len(p.def) < p.count {
		p.def = append(p.def, present)
	}
}

// open makes the pending page one of the given encoding with room for more.
func (b *builder) open(e format.Encoding, begins bool) error {
	p := &b.pending
	size := p.sealedBytes + len(p.values) + p.deltas.plain(b.leaf)
	full := size >= b.opts.PageBytes || len(p.indices) >= indicesPerPage || p.count >= valuesPerPage
	other := p.count > 0 && p.encoding != e
	if other || (full && begins) {
		p.v1 = p.v1 || !begins
		if err := b.flush(); err != nil {
			return err
		}
	}
	p.encoding = e

	return nil
}

func (b *builder) split(s Source, p *page.Page) (page.Parts, error) {
	parts, buf, err := page.Split(p, s.Chunk.Codec, b.leaf, b.opts.Pool, b.buf)
	b.buf = buf

	return parts, err //nolint:wrapcheck // says what it is
}

// readIndices reads the indices of a page: a byte with their width, then runs.
func (b *builder) readIndices(values []byte, n int) error {
	b.indices = b.indices[:0]
	if n == 0 {
		return nil
	}
	if len(values) == 0 {
		return fmt.Errorf("%w: %d indices in an empty page", page.ErrCorrupt, n)
	}
	var err error
	b.indices, err = hybrid.Decode(b.indices, values[1:], uint(values[0]), n)

	return err //nolint:wrapcheck // says what it is
}

// remap rewrites the indices of a page for the merged dictionary.
func (b *builder) remap(s Source, p *page.Page, j joint) error {
	parts, err := b.split(s, p)
	if err != nil {
		return err
	}
	present, err := b.take(p, parts, format.RLEDictionary)
	if err != nil {
		return err
	}
	if err := b.readIndices(parts.Values, present); err != nil {
		return err
	}
	at := len(b.pending.indices)
	b.pending.indices = slices.Grow(b.pending.indices, len(b.indices))[:at+len(b.indices)]
	renamed := b.pending.indices[at:]
	for n, i := range b.indices {
		if int(i) >= len(j.remap) {
			return fmt.Errorf("%w: index %d of %d values", dict.ErrCorrupt, i, len(j.remap))
		}
		renamed[n] = j.remap[i]
	}
	b.sawIndices(renamed)
	b.out.Counts.Remapped++

	b.took(j.summary)

	return nil
}

// coalesce puts the values of a page behind those before.
func (b *builder) coalesce(s Source, p *page.Page, summary stats.Summary) error {
	e := p.Encoding()
	parts, err := b.split(s, p)
	if err != nil {
		return err
	}
	present, err := b.take(p, parts, e)
	if err != nil {
		return err
	}
	switch {
	case b.leaf.Type == format.Boolean:
		err = b.appendBooleans(e, parts.Values, present)
	case e == format.ByteStreamSplit:
		err = b.appendStreams(parts.Values, present)
	case isDelta(e):
		err = b.pending.deltas.append(parts.Values, deltaPart{encoding: e, leaf: b.leaf, count: present})
	default:
		err = b.appendPlain(parts.Values, present)
	}
	if err != nil {
		return err
	}
	b.out.Counts.Coalesced++

	b.took(summary)

	return nil
}

// appendPlain checks that there are as many values as there should be: one byte
// more or less would shift all values after it.
func (b *builder) appendPlain(values []byte, n int) error {
	size := n * b.leaf.Width()
	if b.leaf.Type == format.ByteArray {
		size = 0
		for range n {
			one, ok := dict.Text(values[size:])
			if !ok {
				return fmt.Errorf("%w: value longer than its page", page.ErrCorrupt)
			}
			size += one
		}
	}
	if size != len(values) {
		return fmt.Errorf("%w: %d values take %d bytes of %d", page.ErrCorrupt, n, size, len(values))
	}
	b.pending.values = append(b.pending.values, values...)
	b.sawPlain(values)

	return nil
}

// appendStreams undoes the split into streams of bytes; flush splits again.
func (b *builder) appendStreams(values []byte, n int) error {
	width := b.leaf.Width()
	if len(values) != n*width {
		return fmt.Errorf("%w: %d values take %d bytes of %d", page.ErrCorrupt, n, n*width, len(values))
	}
	at := len(b.pending.values)
	b.pending.values = append(b.pending.values, values...)
	out := b.pending.values[at:]
	for k := range width {
		for i, v := range values[k*n : (k+1)*n] {
			out[i*width+k] = v
		}
	}
	b.sawPlain(out)

	return nil
}

func (b *builder) appendBooleans(e format.Encoding, values []byte, n int) (err error) {
	if n == 0 {
		return nil
	}
	if e == format.RLE {
		if len(values) < 4 || uint64(binary.LittleEndian.Uint32(values)) > uint64(len(values)-4) {
			return fmt.Errorf("%w: booleans longer than their page", page.ErrCorrupt)
		}
		end := 4 + int(binary.LittleEndian.Uint32(values))
		b.pending.indices, err = hybrid.Decode(b.pending.indices, values[4:end], 1, n)

		return err //nolint:wrapcheck // says what it is
	}
	if len(values) != (n+7)/8 {
		return fmt.Errorf("%w: %d booleans in %d bytes", page.ErrCorrupt, n, len(values))
	}
	for i := range n {
		b.pending.indices = append(b.pending.indices, uint32(values[i/8]>>(i%8)&1))
	}

	return nil
}

func (b *builder) took(summary stats.Summary) {
	b.pending.summary = stats.Merge(b.leaf, b.pending.summary, summary)
}

// hasValues reports whether a data page was put out that is not one of indices.
func (b *builder) hasValues() bool {
	for kind := range b.encoded {
		if kind.kind != format.DictionaryPage && !kind.encoding.Dictionary() {
			return true
		}
	}

	return false
}

// addNulls makes rows without a value, for every level of nesting the same: the
// outermost is missing.
func (b *builder) addNulls(s Source) error {
	for left := int(s.Rows); left > 0; {
		n := min(left, valuesPerPage)
		e := format.Plain
		switch {
		case b.pending.count > 0:
			e = b.pending.encoding
		case b.merged != nil && !b.hasValues():
			e = format.RLEDictionary // for indices may follow, see resumes
		}
		if err := b.open(e, true); err != nil {
			return err
		}
		p := &b.pending
		p.spell(uint32(b.leaf.MaxDef))
		for range n {
			p.def = append(p.def, 0)
			if b.leaf.MaxRep > 0 {
				p.rep = append(p.rep, 0)
			}
		}
		p.count += n
		p.rows += n
		p.nulls += n
		b.took(stats.Summary{Nulls: int64(n)})
		left -= n
	}

	return nil
}
