package delta

import "fmt"

// Strings collects the byte arrays of several streams for one. The zero value is
// empty. Streams of one kind go together; what was appended before an error is
// of no use any more. It is not safe for concurrent use.
type Strings struct {
	// prefixes are how many bytes each value shares with the one before. They are
	// for DELTA_BYTE_ARRAY alone.
	prefixes []int64
	lengths  []int64 // of what is stored of each value
	bytes    []byte
	plain    int64
}

// Reset empties it and keeps the memory.
func (s *Strings) Reset() {
	*s = Strings{prefixes: s.prefixes[:0], lengths: s.lengths[:0], bytes: s.bytes[:0]}
}

// Plain is the size of the values in PLAIN encoding, in bytes.
func (s *Strings) Plain() int64 { return s.plain }

// plainHead is the size of the length of a PLAIN value, in bytes.
const plainHead = 4

// AppendLengths takes in n values in DELTA_LENGTH_BYTE_ARRAY.
func (s *Strings) AppendLengths(b []byte, n int) error {
	at := len(s.lengths)
	var err error
	if s.lengths, b, err = Decode(s.lengths, b, n, Int32); err != nil {
		return fmt.Errorf("lengths: %w", err)
	}

	return s.take(s.lengths[at:], b)
}

// take appends the bytes, of which none may be left.
func (s *Strings) take(lengths []int64, b []byte) error {
	var size int64
	for _, n := range lengths {
		if n < 0 {
			return fmt.Errorf("%w: value of %d bytes", ErrCorrupt, n)
		}
		size += n
	}
	if size != int64(len(b)) {
		return fmt.Errorf("%w: values of %d bytes in %d", ErrCorrupt, size, len(b))
	}
	s.bytes = append(s.bytes, b...)
	s.plain += size + plainHead*int64(len(lengths))

	return nil
}

// AppendPrefixed takes in n values in DELTA_BYTE_ARRAY. A width above 0 is that of
// each value. The first value of a stream is stored whole, so streams may follow
// each other without a change.
func (s *Strings) AppendPrefixed(b []byte, n, width int) error {
	at := len(s.lengths)
	var err error
	if s.prefixes, b, err = Decode(s.prefixes, b, n, Int32); err != nil {
		return fmt.Errorf("prefixes: %w", err)
	}
	if s.lengths, b, err = Decode(s.lengths, b, n, Int32); err != nil {
		return fmt.Errorf("suffixes: %w", err)
	}
	if err := s.take(s.lengths[at:], b); err != nil {
		return err
	}
	before := int64(0)
	for i, prefix := range s.prefixes[at:] {
		if prefix < 0 || prefix > before {
			return fmt.Errorf("%w: prefix of %d bytes out of %d", ErrCorrupt, prefix, before)
		}
		before = prefix + s.lengths[at+i]
		if width > 0 && before != int64(width) {
			return fmt.Errorf("%w: value of %d bytes, not %d", ErrCorrupt, before, width)
		}
		s.plain += prefix
	}

	return nil
}

// EncodeLengths appends the values in DELTA_LENGTH_BYTE_ARRAY to dst.
func (s *Strings) EncodeLengths(dst []byte) []byte {
	return append(Encode(dst, s.lengths, Int32), s.bytes...)
}

// EncodePrefixed appends the values in DELTA_BYTE_ARRAY to dst.
func (s *Strings) EncodePrefixed(dst []byte) []byte {
	return s.EncodeLengths(Encode(dst, s.prefixes, Int32))
}
