package column

import (
	"compactor/pkg/rewrite/splice/delta"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
)

// deltas are the values of a page in one of the encodings that store differences.
type deltas struct {
	numbers []int64
	strings delta.Strings
}

func isDelta(e format.Encoding) bool {
	return e == format.DeltaBinaryPacked || e == format.DeltaLengthByteArray || e == format.DeltaByteArray
}

func (d *deltas) reset() {
	d.numbers = d.numbers[:0]
	d.strings.Reset()
}

// plain is the size in bytes that the values would have in PLAIN encoding. It is
// what they take in a reader's memory, and bounds their page.
func (d *deltas) plain(leaf page.Leaf) int {
	return len(d.numbers)*leaf.Width() + int(d.strings.Plain())
}

// deltaPart says what is in a part of a page.
type deltaPart struct {
	encoding format.Encoding
	leaf     page.Leaf
	count    int
}

// append puts the values of a page behind those before.
func (d *deltas) append(values []byte, p deltaPart) (err error) {
	switch {
	case p.count == 0:
		return nil // not every writer writes an empty stream
	case p.encoding == format.DeltaLengthByteArray:
		return d.strings.AppendLengths(values, p.count) //nolint:wrapcheck // says what it is
	case p.encoding == format.DeltaByteArray:
		return d.strings.AppendPrefixed(values, p.count, p.leaf.Width()) //nolint:wrapcheck // says what it is
	}
	d.numbers, _, err = delta.Decode(d.numbers, values, p.count, bitsOf(p.leaf))

	return err //nolint:wrapcheck // says what it is
}

func (d *deltas) encode(e format.Encoding, leaf page.Leaf) []byte {
	switch e {
	case format.DeltaLengthByteArray:
		return d.strings.EncodeLengths(nil)
	case format.DeltaByteArray:
		return d.strings.EncodePrefixed(nil)
	default:
		return delta.Encode(nil, d.numbers, bitsOf(leaf))
	}
}

func bitsOf(leaf page.Leaf) delta.Bits {
	if leaf.Type == format.Int32 {
		return delta.Int32
	}

	return delta.Int64
}
