package column

import (
	"fmt"
	"hash/crc32"
	"math"

	"compactor/pkg/rewrite/splice/dict"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/refuse"
	"compactor/pkg/rewrite/splice/stats"
)

// RuleBound is the rule of chunks whose upper bound is long and has no shorter
// one above it.
const RuleBound refuse.Rule = "bound too long for a footer"

var errLongBound error = &refuse.Error{Rule: RuleBound}

type pageKind struct {
	kind     format.PageType
	encoding format.Encoding
}

// builder is a chunk in the making.
type builder struct {
	leaf   page.Leaf
	opts   Options
	memory *Memory
	out    *Built
	small  bool // pages of this column are put together
	// frames says that they are not decompressed for it, as far as they can do without.
	frames bool

	merged *dict.Merged // nil when there is no dictionary, or it was given up
	remaps [][]uint32   // by source
	same   []bool       // by source: the remap changes nothing

	nanIndices []uint32 // of the merged dictionary
	nans       nanCount // of the source that is taken in

	buffers

	rows int64
	// nulls of a repeated column, counted by the levels. Writers do not agree on
	// whether an empty or a missing list is a null of its element.
	nulls int64
	// spans says that a row goes on from one page to the next, as it may in
	// version 1 pages. No index can describe such pages.
	spans      bool
	fresh      bool            // the next page is the first of its source
	summaries  []stats.Summary // by page that was put out
	pageValues []int
	encoded    map[pageKind]int32
}

// header is that of a page made anew, with its checksum.
func header(kind format.PageType, uncompressed int, body ...[]byte) (*format.PageHeader, error) {
	size := 0
	sum := uint32(0)
	for _, part := range body {
		size += len(part)
		sum = crc32.Update(sum, crc32.IEEETable, part)
	}
	if uncompressed > math.MaxInt32 || size > math.MaxInt32 {
		return nil, &refuse.Error{Rule: page.RuleLarge, Detail: fmt.Sprintf("%d bytes", max(uncompressed, size))}
	}

	return &format.PageHeader{Type: kind, Uncompressed: int32(uncompressed), Compressed: int32(size), CRC: &sum}, nil
}

func (b *builder) piece(parts ...[]byte) {
	for _, p := range parts {
		if len(p) > 0 {
			b.out.Pieces = append(b.out.Pieces, p)
			b.out.Size += int64(len(p))
		}
	}
}

// done is a data page that is ready.
type done struct {
	kind         pageKind
	head         []byte
	body         [][]byte
	uncompressed int // of the body
	values, rows int
	nulls        int // of a repeated column
	summary      stats.Summary
}

func (b *builder) put(d done) {
	start := b.out.Size
	b.piece(d.head)
	b.piece(d.body...)
	b.out.Locations = append(b.out.Locations, format.PageLocation{
		Offset: start, Size: int32(b.out.Size - start), FirstRow: b.rows,
	})
	b.out.Uncompressed += int64(len(d.head) + d.uncompressed)
	b.out.Values += int64(d.values)
	b.rows += int64(d.rows)
	b.encoded[d.kind]++
	if b.leaf.MaxRep > 0 {
		d.summary.Nulls = int64(d.nulls)
		b.nulls += int64(d.nulls)
	}
	b.summaries = append(b.summaries, d.summary)
	b.pageValues = append(b.pageValues, d.values)
}

// add takes in one source.
func (b *builder) add(i int, s Source) error {
	before, nulls := b.rows+int64(b.pending.rows), b.nulls+int64(b.pending.nulls)
	counts := b.out.Counts
	b.fresh = true
	if s.Chunk == nil {
		if err := b.addNulls(s); err != nil {
			return err
		}
	} else if err := b.addPages(i, s); err != nil {
		return err
	}
	if s.Decoded || s.Trimmed {
		b.countDecoded(s, counts)
	}
	b.out.Counts.Trimmed += s.PagesTrimmed
	if got := b.rows + int64(b.pending.rows) - before; got != s.Rows {
		return fmt.Errorf("%w: %d rows in its pages, %d in its row group", page.ErrCorrupt, got, s.Rows)
	}
	b.noteNaNs(s)
	if b.leaf.MaxRep > 0 && s.Chunk != nil && !s.Part {
		return b.checkBounds(s, b.nulls+int64(b.pending.nulls)-nulls)
	}

	return nil
}

// countDecoded counts a source that was made from decoded values as one chunk,
// not as the pages that it was handed over in.
func (b *builder) countDecoded(s Source, before Counts) {
	after := b.out.Counts
	b.out.Counts = before
	if s.Decoded {
		b.out.Counts.Decoded++
	}
	b.out.Counts.BytesMade = after.BytesMade + after.BytesVerbatim - before.BytesVerbatim
}

// checkBounds compares the nulls that were counted by the levels with the bounds:
// values have bounds, unless all are NaN, and nothing but values has.
func (b *builder) checkBounds(s Source, nulls int64) error {
	var values int64
	for i := range s.Chunk.Pages {
		values += int64(s.Chunk.Pages[i].Values())
	}
	float := b.leaf.Type == format.Float || b.leaf.Type == format.Double
	if empty := nulls == values; !s.Summary.Unknown && (empty == (s.Summary.Min != nil)) && (empty || !float) {
		return fmt.Errorf("%w: %d nulls in %d values do not go with its bounds", page.ErrCorrupt, nulls, values)
	}

	return nil
}

func (b *builder) addPages(i int, s Source) error {
	var dictionary *dict.Dictionary
	for n := range s.Chunk.Pages {
		p := &s.Chunk.Pages[n]
		summary := pageSummary(b.leaf, s, n)
		isIndex := p.Encoding().Dictionary()
		var err error
		switch {
		case p.Values() == 0:
			continue
		case isIndex && b.merged != nil && b.same[i] && !b.small:
			if err = b.checkIndices(i, s, p); err == nil {
				err = b.move(s, p, summary)
			}
		case isIndex && b.merged != nil:
			err = b.remap(s, p, joint{summary: summary, remap: b.remaps[i]})
		case isIndex:
			dictionary, err = b.spread(s, p, joint{summary: summary, dictionary: dictionary})
		case b.small && b.joinable(p):
			err = b.join(s, p, summary)
		default:
			b.nans.missed = b.nans.missed || summary.Unknown || summary.Nulls < int64(p.Values())
			err = b.move(s, p, summary)
		}
		if err != nil {
			return err
		}
		b.fresh = false
	}

	return nil
}

// pageSummary is what is known of one page. The only page of a chunk is the
// chunk.
func pageSummary(leaf page.Leaf, s Source, n int) stats.Summary {
	switch {
	case len(s.Chunk.Pages) == 1 && !s.Part:
		return s.Summary
	case len(s.Pages) == len(s.Chunk.Pages):
		return s.Pages[n]
	default:
		p := &s.Chunk.Pages[n]

		return stats.Of(leaf, p.Statistics(), int64(p.Values()))
	}
}

// move puts a page out as it is, but for what a chunk demands: its codec, and no
// deprecated encoding.
func (b *builder) move(s Source, p *page.Page, summary stats.Summary) error {
	rows, nulls, begins, err := b.countRows(s, p)
	if err != nil {
		return err
	}
	if err := b.goesOn(begins); err != nil {
		return err
	}
	if !begins {
		b.pending.v1 = true
	}
	if err := b.flush(); err != nil {
		return err
	}
	d := done{
		kind: pageKind{p.Header.Type, p.Encoding()}, uncompressed: int(p.Header.Uncompressed),
		values: p.Values(), rows: rows, nulls: nulls, summary: summary,
	}
	if !b.keepsBytes(s) {
		return b.transcode(s, p, d)
	}
	d.head, d.body = p.Raw[:len(p.Raw)-len(p.Body)], [][]byte{p.Body}
	if d.kind.encoding == format.PlainDictionary {
		d.kind.encoding = format.RLEDictionary
		d.head = reencoded(p).Append(nil)
	}
	b.out.Counts.Verbatim++
	b.out.Counts.BytesVerbatim += int64(len(p.Body))
	b.put(d)

	return nil
}

// keepsBytes reports whether compressed pages of the source are good as they are.
func (b *builder) keepsBytes(s Source) bool {
	return s.Chunk.Codec == b.out.Codec && b.opts.Recompress != RecompressAll
}

// goesOn notes a page that does not begin with a row, which a chunk may not
// begin with.
func (b *builder) goesOn(begins bool) error {
	if begins {
		return nil
	}
	b.spans = true
	if b.fresh {
		return fmt.Errorf("%w: it begins within a row", page.ErrCorrupt)
	}

	return nil
}

// reencoded is the header with the current name of the index encoding.
func reencoded(p *page.Page) *format.PageHeader {
	h := *p.Header
	if h.Data != nil {
		data := *h.Data
		if data.Encoding == format.PlainDictionary {
			data.Encoding = format.RLEDictionary
		}
		h.Data = &data
	}
	if h.DataV2 != nil {
		data := *h.DataV2
		if data.Encoding == format.PlainDictionary {
			data.Encoding = format.RLEDictionary
		}
		h.DataV2 = &data
	}

	return &h
}

// transcode compresses the body anew. Levels and values keep their bytes.
func (b *builder) transcode(s Source, p *page.Page, d done) error {
	h := reencoded(p)
	d.kind.encoding = d.kind.encodingNow()
	var levels, raw []byte
	if p.V2() {
		parts, buf, err := page.Split(p, s.Chunk.Codec, b.leaf, b.opts.Pool, b.buf)
		if err != nil {
			return err //nolint:wrapcheck // says what it is
		}
		b.buf = buf
		h.DataV2.Raw = false
		levels, raw = p.Body[:len(parts.Rep)+len(parts.Def)], parts.Values
	} else {
		if h.Uncompressed > page.Largest {
			return &refuse.Error{Rule: page.RuleLarge, Detail: fmt.Sprintf("%d bytes", h.Uncompressed)}
		}
		var err error
		if raw, err = b.opts.Pool.Decode(s.Chunk.Codec, nil, p.Body, int(h.Uncompressed)); err != nil {
			return err //nolint:wrapcheck // says what it is
		}
	}
	body, err := b.encode(raw)
	if err != nil {
		return err
	}
	made, err := header(h.Type, int(h.Uncompressed), levels, body)
	if err != nil {
		return err
	}
	h.Compressed, h.CRC = made.Compressed, made.CRC
	d.head, d.body = h.Append(nil), [][]byte{levels, body}
	b.out.Counts.Transcoded++
	b.out.Counts.BytesMade += int64(len(body))
	b.put(d)

	return nil
}

func (k pageKind) encodingNow() format.Encoding {
	if k.encoding == format.PlainDictionary {
		return format.RLEDictionary
	}

	return k.encoding
}

// countRows counts rows by the repetition levels and nulls by the definition
// levels. Only version 1 pages of repeated columns have to be decompressed for it.
func (b *builder) countRows(s Source, p *page.Page) (rows, nulls int, begins bool, err error) {
	if b.leaf.MaxRep == 0 {
		return p.Values(), 0, true, nil
	}
	var parts page.Parts
	if p.V2() {
		parts = p.PartsV2()
	} else if parts, err = b.split(s, p); err != nil {
		return 0, 0, false, err
	}
	present, err := page.Present(p, parts.Def, b.leaf)
	if err != nil {
		return 0, 0, false, err //nolint:wrapcheck // says what it is
	}
	rows, begins, err = page.Rows(p, parts.Rep, b.leaf)

	return rows, p.Values() - present, begins, err //nolint:wrapcheck // says what it is
}
