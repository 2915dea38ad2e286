package column

import (
	"encoding/binary"
	"fmt"
	"slices"

	"compactor/pkg/rewrite/splice/dict"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/hybrid"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/refuse"
	"compactor/pkg/rewrite/splice/stats"
)

// largestGathered bounds a page that is copied out of a dictionary, which may
// stand for any amount of data, in bytes.
const largestGathered = 32 << 20

// spread does away with the dictionary of a page. It returns the dictionary once
// it was needed, for the next page of the chunk.
func (b *builder) spread(s Source, p *page.Page, j joint) (*dict.Dictionary, error) {
	parts, err := b.split(s, p)
	if err != nil {
		return nil, err
	}
	if !b.small && b.opts.V2 && b.keepsBytes(s) {
		if ok, err := b.promote(s, p, promotion{summary: j.summary, parts: parts}); ok || err != nil {
			return nil, err
		}
	}
	if j.dictionary == nil {
		if j.dictionary, b.dictionary, err = b.parse(s, b.dictionary); err != nil {
			return nil, err
		}
	}

	return j.dictionary, b.gather(p, parts, j)
}

// gather copies the values of a page out of a dictionary that is not kept.
func (b *builder) gather(p *page.Page, parts page.Parts, j joint) error {
	present, err := b.take(p, parts, format.Plain)
	if err != nil {
		return err
	}
	if err := b.readIndices(parts.Values, present); err != nil {
		return err
	}
	if err := j.dictionary.Check(b.indices); err != nil {
		return err //nolint:wrapcheck // says what it is
	}
	if size := j.dictionary.Size(b.indices); len(b.pending.values)+size > largestGathered {
		return &refuse.Error{Rule: page.RuleLarge, Detail: fmt.Sprintf("values of %d bytes out of a dictionary", size)}
	}
	at := len(b.pending.values)
	if dict.Sequential(b.indices, j.dictionary.Count) {
		b.pending.values = append(b.pending.values, j.dictionary.Plain...)
	} else {
		b.pending.values = j.dictionary.Append(b.pending.values, b.indices)
	}
	b.sawPlain(b.pending.values[at:])
	b.out.Counts.Gathered++

	b.took(j.summary)

	return nil
}

type promotion struct {
	summary stats.Summary
	parts   page.Parts
}

// promote makes a data page of the dictionary page, when it holds the values of
// the chunk's only page in their order. In a version 2 page levels stand before
// the compressed body, so it is moved as it is, and like all that is moved its
// values are not looked at.
func (b *builder) promote(s Source, p *page.Page, m promotion) (bool, error) {
	if len(s.Chunk.Pages) != 1 {
		return false, nil
	}
	present, err := page.Present(p, m.parts.Def, b.leaf)
	dictionary := s.Chunk.Dictionary
	size := int(dictionary.Header.Uncompressed)
	if err != nil || present != int(dictionary.Header.Dictionary.NumValues) || present == 0 || size > page.Largest {
		return false, err //nolint:wrapcheck // says what it is
	}
	if width := b.leaf.Width(); width > 0 && size != present*width {
		return false, nil // damage, which who reads the values will name
	}
	if err := b.readIndices(m.parts.Values, present); err != nil {
		return false, err
	}
	if !dict.Sequential(b.indices, present) {
		return false, nil
	}
	rows, begins, err := page.Rows(p, m.parts.Rep, b.leaf)
	if err != nil || !begins {
		return false, err //nolint:wrapcheck // says what it is
	}
	if err := b.flush(); err != nil {
		return false, err
	}
	levels := append(append([]byte(nil), m.parts.Rep...), m.parts.Def...)
	body := dictionary.Body
	plain := len(levels) + size
	h, err := header(format.DataPageV2, plain, levels, body)
	if err != nil {
		return false, err
	}
	h.DataV2 = &format.DataPageHeaderV2{
		NumValues: int32(p.Values()), NumNulls: int32(p.Values() - present), NumRows: int32(rows), Encoding: format.Plain,
		RepetitionLength: int32(len(m.parts.Rep)), DefinitionLength: int32(len(m.parts.Def)),
	}
	b.nans.missed = true
	b.out.Counts.Promoted++
	b.out.Counts.BytesVerbatim += int64(len(body))
	b.put(done{
		kind: pageKind{format.DataPageV2, format.Plain}, head: h.Append(nil), body: [][]byte{levels, body},
		uncompressed: plain, values: p.Values(), rows: rows, nulls: p.Values() - present, summary: m.summary,
	})

	return true, nil
}

// flush puts the pending page out, if there is one.
func (b *builder) flush() error {
	p := &b.pending
	if p.count == 0 {
		return nil
	}
	if len(p.sealed) > 0 {
		if err := b.seal(); err != nil {
			return err
		}
	}
	rep, def := b.encodeLevels()
	values := b.encodeValues()
	d := done{
		values: p.count, rows: p.rows, nulls: p.nulls, summary: p.summary,
		kind: pageKind{format.DataPage, p.encoding},
	}
	var err error
	if b.opts.V2 && !p.v1 {
		d.kind.kind = format.DataPageV2
		err = b.finishV2(&d, rep, def, values)
	} else {
		err = b.finishV1(&d, rep, def, values)
	}
	if err != nil {
		return err
	}
	b.put(d)
	b.pending.reset()

	return nil
}

func (b *builder) encodeLevels() (rep, def []byte) {
	if b.leaf.MaxRep > 0 {
		rep = hybrid.Encode(nil, b.pending.rep, hybrid.Width(uint32(b.leaf.MaxRep)))
	}
	width := hybrid.Width(uint32(b.leaf.MaxDef))
	switch {
	case b.leaf.MaxDef == 0:
	case len(b.pending.def) == 0:
		def = hybrid.AppendRun(nil, uint32(b.leaf.MaxDef), width, b.pending.count)
	default:
		def = hybrid.Encode(nil, b.pending.def, width)
	}

	return rep, def
}

func (b *builder) encodeValues() []byte {
	p := &b.pending
	switch {
	case p.encoding.Dictionary():
		width := bitsFor(b.merged.Count)

		b.packed = hybrid.Encode(append(b.packed[:0], byte(width)), p.indices, width)

		return b.packed
	case p.encoding == format.RLE:
		out := hybrid.Encode(make([]byte, 4), p.indices, 1)
		binary.LittleEndian.PutUint32(out, uint32(len(out)-4))

		return out
	case b.leaf.Type == format.Boolean:
		out := make([]byte, (len(p.indices)+7)/8)
		for i, v := range p.indices {
			out[i/8] |= byte(v) << (i % 8)
		}

		return out
	case p.encoding == format.ByteStreamSplit:
		width := b.leaf.Width()
		n := len(p.values) / width
		out := make([]byte, len(p.values))
		for i := range n {
			for k := range width {
				out[k*n+i] = p.values[i*width+k]
			}
		}

		return out
	case isDelta(p.encoding):
		return p.deltas.encode(p.encoding, b.leaf)
	default:
		return p.values
	}
}

func (b *builder) finishV2(d *done, rep, def, values []byte) error {
	p := &b.pending
	parts := append([][]byte{rep, def}, p.sealed...)
	if len(values) > 0 {
		body, err := b.encode(values)
		if err != nil {
			return err
		}
		b.out.Counts.BytesMade += int64(len(body))
		parts = append(parts, body)
	}
	size := p.sealedBytes + len(values)
	d.uncompressed = len(rep) + len(def) + size
	h, err := header(format.DataPageV2, d.uncompressed, parts...)
	if err != nil {
		return err
	}
	h.DataV2 = &format.DataPageHeaderV2{
		NumValues: int32(p.count), NumNulls: int32(p.nulls), NumRows: int32(p.rows), Encoding: p.encoding,
		RepetitionLength: int32(len(rep)), DefinitionLength: int32(len(def)),
		Raw: size == 0, // not every codec knows how to read nothing
	}
	d.head, d.body = h.Append(nil), parts

	return nil
}

func (b *builder) finishV1(d *done, rep, def, values []byte) error {
	raw := page.AppendLevels(nil, page.Parts{Rep: rep, Def: def}, b.leaf)
	raw = append(raw, values...)
	parts := slices.Clone(b.pending.sealed) // of a column without levels
	if len(parts) == 0 {
		body, err := b.encode(raw)
		if err != nil {
			return err
		}
		b.out.Counts.BytesMade += int64(len(body))
		parts = append(parts, body)
	}
	d.uncompressed = b.pending.sealedBytes + len(raw)
	h, err := header(format.DataPage, d.uncompressed, parts...)
	if err != nil {
		return err
	}
	h.Data = &format.DataPageHeader{
		NumValues: int32(b.pending.count), Encoding: b.pending.encoding, Definition: format.RLE, Repetition: format.RLE,
	}
	d.head, d.body = h.Append(nil), parts

	return nil
}
