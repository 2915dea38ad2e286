package delta

// AppendFixed appends the values of one stream, which AppendPrefixed has found to
// be of a fixed width, in PLAIN encoding to dst.
func (s *Strings) AppendFixed(dst []byte) []byte {
	rest, before := s.bytes, len(dst)
	for i, prefix := range s.prefixes {
		at := len(dst)
		dst = append(dst, dst[before:before+int(prefix)]...)
		dst = append(dst, rest[:s.lengths[i]]...)
		rest, before = rest[s.lengths[i]:], at
	}

	return dst
}
