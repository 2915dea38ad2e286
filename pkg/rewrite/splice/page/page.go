// Package page takes a column chunk apart into its pages and a page into levels
// and values, without looking at a single value.
//
// Rules of the Parquet specification relied on: a checksum covers the body as it
// is stored, without the header (README.md, Checksumming); version 1 pages compress
// levels and values together and put a length before each kind of levels, version
// 2 pages keep levels outside of the compression and begin with a row
// (parquet.thrift, DataPageHeader and DataPageHeaderV2; Encodings.md, RLE); a column
// without nulls or lists has no levels of that kind.
//
// Every length, count and offset is compared with the bytes that are there.
// What a chunk says about itself in two places (values, rows) has to agree.
package page

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"compactor/pkg/rewrite/splice/codec"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/hybrid"
	"compactor/pkg/rewrite/splice/refuse"
)

var (
	// ErrCorrupt means that a chunk is not what the format allows.
	ErrCorrupt = errors.New("corrupt column chunk")
	// ErrChecksum means that a page does not have the checksum that its header
	// gives: its bytes have changed since they were written.
	ErrChecksum = errors.New("page checksum mismatch")
)

// Rules of refusal.
const (
	RuleLevels refuse.Rule = "levels in a deprecated encoding"
	RulePages  refuse.Rule = "page of an unknown kind"
	RuleValues refuse.Rule = "values in an unknown encoding"
	RuleDecode refuse.Rule = "values to be decoded are in an encoding that is only moved"
	RuleLarge  refuse.Rule = "page too large"
)

// Largest is the size from which a page is not taken apart, in bytes.
const Largest = 64 << 20

// largestValues is the number of values from which a page is refused: a few
// bytes may claim any number of equal levels.
const largestValues = 1 << 24

// largestMoved is the size up to which a page is moved, in bytes, so that the
// size with its header fits an offset index.
const largestMoved = 1 << 30

// Leaf is what has to be known about a column to read its pages.
type Leaf struct {
	Type           format.Type
	TypeLength     int
	MaxDef, MaxRep int
	// SignedBytes orders byte strings as big-endian numbers, as decimals are.
	SignedBytes bool
}

// Width is the size of a PLAIN value in bytes, 0 when values differ in size.
func (l Leaf) Width() int {
	if l.Type == format.FixedLenByteArray {
		return l.TypeLength
	}

	return l.Type.Width()
}

// Page is a page of a chunk. The slices are parts of the chunk's bytes.
type Page struct {
	Header *format.PageHeader
	Raw    []byte // header and body
	Body   []byte // as stored
}

// V2 reports whether it is a version 2 data page.
func (p *Page) V2() bool { return p.Header.DataV2 != nil }

// Values counts the values of a data page, nulls and empty lists included.
func (p *Page) Values() int {
	if p.V2() {
		return int(p.Header.DataV2.NumValues)
	}

	return int(p.Header.Data.NumValues)
}

// Encoding is that of the values of a data page.
func (p *Page) Encoding() format.Encoding {
	if p.V2() {
		return p.Header.DataV2.Encoding
	}

	return p.Header.Data.Encoding
}

// Statistics are those of the page header, if any.
func (p *Page) Statistics() *format.Statistics {
	if p.V2() {
		return p.Header.DataV2.Statistics
	}

	return p.Header.Data.Statistics
}

// Chunk is a column chunk taken apart.
type Chunk struct {
	Codec      format.Codec
	Dictionary *Page
	Pages      []Page
}

// Walk takes apart the bytes of a chunk, from its first page to the end of its
// last one. Sums of values are compared with the chunk's metadata. Checksums are
// verified where there are any. Walk decompresses nothing.
func Walk(b []byte, m *format.ColumnMetaData, leaf Leaf) (*Chunk, error) {
	c := &Chunk{Codec: m.Codec}
	var values int64
	for off := 0; off < len(b); {
		p, err := next(b[off:])
		if err != nil {
			return nil, fmt.Errorf("page at byte %d: %w", off, err)
		}
		off += len(p.Raw)
		switch p.Header.Type {
		case format.DictionaryPage:
			if c.Dictionary != nil || len(c.Pages) > 0 {
				return nil, fmt.Errorf("%w: dictionary that does not come first", ErrCorrupt)
			}
			if err := checkDictionary(&p); err != nil {
				return nil, err
			}
			c.Dictionary = &p
		case format.IndexPage:
			continue
		default:
			if err := checkData(&p, leaf, c.Dictionary != nil); err != nil {
				return nil, err
			}
			values += int64(p.Values())
			c.Pages = append(c.Pages, p)
		}
	}
	if values != m.NumValues {
		return nil, fmt.Errorf("%w: %d values in pages, %d in the metadata", ErrCorrupt, values, m.NumValues)
	}

	return c, nil
}

// next reads one page.
func next(b []byte) (Page, error) {
	h, n, err := format.ReadPageHeader(b)
	if err != nil {
		return Page{}, fmt.Errorf("look at page: %w", err)
	}
	if h.Compressed < 0 || h.Uncompressed < 0 || int(h.Compressed) > len(b)-n {
		return Page{}, fmt.Errorf("%w: page of %d bytes, %d are left", ErrCorrupt, h.Compressed, len(b)-n)
	}
	if h.Compressed > largestMoved {
		return Page{}, &refuse.Error{Rule: RuleLarge, Detail: fmt.Sprintf("%d bytes", h.Compressed)}
	}
	end := n + int(h.Compressed)
	p := Page{Header: h, Raw: b[:end:end], Body: b[n:end:end]}
	if h.CRC != nil && crc32.ChecksumIEEE(p.Body) != *h.CRC {
		return Page{}, ErrChecksum
	}
	data, v2, dict := h.Data != nil, h.DataV2 != nil, h.Dictionary != nil
	switch {
	case h.Type == format.DataPage && data && !v2 && !dict,
		h.Type == format.DataPageV2 && v2 && !data && !dict,
		h.Type == format.DictionaryPage && dict && !data && !v2,
		h.Type == format.IndexPage:
		return p, nil
	}

	return Page{}, &refuse.Error{Rule: RulePages, Detail: fmt.Sprintf("kind %d", h.Type)}
}

func checkDictionary(p *Page) error {
	d := p.Header.Dictionary
	if d.NumValues < 0 {
		return fmt.Errorf("%w: dictionary of %d values", ErrCorrupt, d.NumValues)
	}
	if d.Encoding != format.Plain && d.Encoding != format.PlainDictionary {
		return &refuse.Error{Rule: RuleValues, Detail: fmt.Sprintf("dictionary in encoding %d", d.Encoding)}
	}

	return nil
}

func checkData(p *Page, leaf Leaf, dictionary bool) error {
	if p.Values() < 0 {
		return fmt.Errorf("%w: page of %d values", ErrCorrupt, p.Values())
	}
	if p.Values() > largestValues {
		return &refuse.Error{Rule: RuleLarge, Detail: fmt.Sprintf("%d values", p.Values())}
	}
	if d := p.Header.Data; d != nil {
		if (leaf.MaxRep > 0 && d.Repetition != format.RLE) || (leaf.MaxDef > 0 && d.Definition != format.RLE) {
			return &refuse.Error{Rule: RuleLevels, Detail: fmt.Sprintf("encodings %d and %d", d.Repetition, d.Definition)}
		}
	}
	if d := p.Header.DataV2; d != nil {
		rep, def := int64(d.RepetitionLength), int64(d.DefinitionLength)
		switch {
		case rep < 0 || def < 0 || rep+def > int64(len(p.Body)) || rep+def > int64(p.Header.Uncompressed):
			return fmt.Errorf("%w: levels of %d and %d bytes in a page of %d", ErrCorrupt, rep, def, len(p.Body))
		case d.NumRows < 0 || d.NumNulls < 0 || d.NumRows > d.NumValues || d.NumNulls > d.NumValues:
			return fmt.Errorf("%w: %d rows and %d nulls in %d values", ErrCorrupt, d.NumRows, d.NumNulls, d.NumValues)
		case leaf.MaxRep == 0 && d.NumRows != d.NumValues:
			return fmt.Errorf("%w: %d rows in %d values of a flat column", ErrCorrupt, d.NumRows, d.NumValues)
		case (leaf.MaxRep == 0 && rep > 0) || (leaf.MaxDef == 0 && def > 0):
			return fmt.Errorf("%w: levels in a column without", ErrCorrupt)
		}
	}

	return checkEncoding(p.Encoding(), leaf, dictionary)
}

// checkEncoding knows which encodings go with which type (Encodings.md). Values
// that are moved need no more than that; they are not interpreted.
func checkEncoding(e format.Encoding, leaf Leaf, dictionary bool) error {
	known := false
	switch e {
	case format.Plain:
		known = true
	case format.PlainDictionary, format.RLEDictionary:
		if !dictionary {
			return fmt.Errorf("%w: indices without a dictionary", ErrCorrupt)
		}
		known = leaf.Type != format.Boolean
	case format.RLE:
		known = leaf.Type == format.Boolean
	case format.DeltaBinaryPacked:
		known = leaf.Type == format.Int32 || leaf.Type == format.Int64
	case format.DeltaLengthByteArray:
		known = leaf.Type == format.ByteArray
	case format.DeltaByteArray:
		known = leaf.Type == format.ByteArray || leaf.Type == format.FixedLenByteArray
	case format.ByteStreamSplit:
		known = leaf.Type != format.Boolean && leaf.Type != format.ByteArray && leaf.Type != format.Int96
	}
	if !known {
		return &refuse.Error{Rule: RuleValues, Detail: fmt.Sprintf("encoding %d of type %d", e, leaf.Type)}
	}

	return nil
}

// Parts are a data page taken apart: levels without their length prefix, and the
// decompressed values.
type Parts struct {
	Rep, Def, Values []byte
}

// PartsV2 takes a version 2 page apart without decompressing its values. Walk has
// made sure that the levels are there.
func (p *Page) PartsV2() Parts {
	rep, def := int(p.Header.DataV2.RepetitionLength), int(p.Header.DataV2.DefinitionLength)

	return Parts{Rep: p.Body[:rep], Def: p.Body[rep : rep+def], Values: p.Body[rep+def:]}
}

// AppendLevels appends the levels as version 1 pages have them, with their length
// before them.
func AppendLevels(dst []byte, parts Parts, leaf Leaf) []byte {
	if leaf.MaxRep > 0 {
		dst = append(binary.LittleEndian.AppendUint32(dst, uint32(len(parts.Rep))), parts.Rep...)
	}
	if leaf.MaxDef > 0 {
		dst = append(binary.LittleEndian.AppendUint32(dst, uint32(len(parts.Def))), parts.Def...)
	}

	return dst
}

// Split decompresses a data page. The result refers to the page or to buf's
// memory, which is returned for the next call.
func Split(p *Page, c format.Codec, leaf Leaf, pool *codec.Pool, buf []byte) (Parts, []byte, error) {
	if p.Header.Uncompressed > Largest {
		return Parts{}, buf, &refuse.Error{Rule: RuleLarge, Detail: fmt.Sprintf("%d bytes", p.Header.Uncompressed)}
	}
	if d := p.Header.DataV2; d != nil {
		parts := p.PartsV2()
		size := int(p.Header.Uncompressed) - len(parts.Rep) - len(parts.Def)
		if d.Raw || (size == 0 && len(parts.Values) == 0) {
			c = format.Uncompressed
		}
		values, err := pool.Decode(c, buf, parts.Values, size)
		if err != nil {
			return Parts{}, buf, fmt.Errorf("split page: %w", err)
		}
		parts.Values = values

		return parts, keep(buf, values, c), nil
	}
	raw, err := pool.Decode(c, buf, p.Body, int(p.Header.Uncompressed))
	if err != nil {
		return Parts{}, buf, fmt.Errorf("split page: %w", err)
	}
	buf = keep(buf, raw, c)
	var parts Parts
	if leaf.MaxRep > 0 {
		if parts.Rep, raw, err = prefixed(raw); err != nil {
			return Parts{}, buf, err
		}
	}
	if leaf.MaxDef > 0 {
		if parts.Def, raw, err = prefixed(raw); err != nil {
			return Parts{}, buf, err
		}
	}
	parts.Values = raw

	return parts, buf, nil
}

// keep does not take a part of the chunk for a buffer.
func keep(buf, used []byte, c format.Codec) []byte {
	if c == format.Uncompressed || cap(used) < cap(buf) {
		return buf
	}

	return used
}

// prefixed reads levels that their length precedes.
func prefixed(b []byte) (levels, rest []byte, err error) {
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, nil, fmt.Errorf("%w: levels longer than their page", ErrCorrupt)
	}
	n := int(binary.LittleEndian.Uint32(b))

	return b[4 : 4+n], b[4+n:], nil
}

// Present counts the values of a page that are not null, by its definition levels.
func Present(p *Page, def []byte, leaf Leaf) (int, error) {
	if leaf.MaxDef == 0 {
		return p.Values(), nil
	}
	n, _, err := hybrid.Count(def, hybrid.Width(uint32(leaf.MaxDef)), p.Values(), uint32(leaf.MaxDef))

	return n, err //nolint:wrapcheck // says what it is
}

// Rows counts the rows that begin in a page of a repeated column, by its
// repetition levels, and tells whether the page begins with a row. Version 1
// pages need not; version 2 pages have to.
func Rows(p *Page, rep []byte, leaf Leaf) (rows int, begins bool, err error) {
	if leaf.MaxRep == 0 || p.Values() == 0 {
		return p.Values(), true, nil
	}
	rows, first, err := hybrid.Count(rep, hybrid.Width(uint32(leaf.MaxRep)), p.Values(), 0)
	if err != nil {
		return 0, false, fmt.Errorf("repetition levels: %w", err)
	}
	if d := p.Header.DataV2; d != nil && (int(d.NumRows) != rows || first != 0) {
		return 0, false, fmt.Errorf("%w: %d rows by the header, %d by the levels", ErrCorrupt, d.NumRows, rows)
	}

	return rows, first == 0, nil
}
