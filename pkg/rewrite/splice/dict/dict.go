// Package dict reads the dictionaries of column chunks and merges them into one.
// Values are compared byte by byte; what they mean does not matter.
package dict

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"compactor/pkg/rewrite/splice/codec"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/refuse"
)

// ErrCorrupt means that a dictionary is not of the size its header gives.
var ErrCorrupt = errors.New("corrupt dictionary")

// Dictionary is a dictionary page, decompressed.
type Dictionary struct {
	Plain []byte // the values in PLAIN encoding
	Count int
	width int      // of a value, 0 for values of different sizes
	start []uint32 // of each value, and the end; for values of different sizes
}

// Parse decompresses and checks a dictionary page. The result may use dst's memory.
func Parse(p *page.Page, c format.Codec, leaf page.Leaf, pool *codec.Pool, dst []byte) (*Dictionary, error) {
	if p.Header.Uncompressed > page.Largest {
		return nil, &refuse.Error{Rule: page.RuleLarge, Detail: fmt.Sprintf("dictionary of %d bytes", p.Header.Uncompressed)}
	}
	raw, err := pool.Decode(c, dst, p.Body, int(p.Header.Uncompressed))
	if err != nil {
		return nil, fmt.Errorf("read dictionary: %w", err)
	}
	d := &Dictionary{Plain: raw, Count: int(p.Header.Dictionary.NumValues), width: leaf.Width()}
	if d.width > 0 {
		if len(raw) != d.Count*d.width {
			return nil, fmt.Errorf("%w: %d values of %d bytes in %d", ErrCorrupt, d.Count, d.width, len(raw))
		}

		return d, nil
	}
	if leaf.Type != format.ByteArray || d.Count > len(raw)/4 {
		return nil, fmt.Errorf("%w: %d values in %d bytes", ErrCorrupt, d.Count, len(raw))
	}
	d.start = make([]uint32, 0, d.Count+1)
	off := 0
	for range d.Count {
		d.start = append(d.start, uint32(off))
		n, ok := Text(raw[off:])
		if !ok {
			return nil, fmt.Errorf("%w: value longer than its page", ErrCorrupt)
		}
		off += n
	}
	if off != len(raw) {
		return nil, fmt.Errorf("%w: %d bytes after the last value", ErrCorrupt, len(raw)-off)
	}
	d.start = append(d.start, uint32(off))

	return d, nil
}

// Text is the size of the PLAIN byte array at the start of b, length included.
func Text(b []byte) (int, bool) {
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		return 0, false
	}

	return 4 + int(binary.LittleEndian.Uint32(b)), true
}

// At is the PLAIN form of the i-th value, which must exist.
func (d *Dictionary) At(i uint32) []byte {
	if d.width > 0 {
		return d.Plain[int(i)*d.width : (int(i)+1)*d.width]
	}

	return d.Plain[d.start[i]:d.start[i+1]]
}

// Check makes sure that every index has a value.
func (d *Dictionary) Check(indices []uint32) error {
	for _, i := range indices {
		if int(i) >= d.Count {
			return fmt.Errorf("%w: index %d of %d values", ErrCorrupt, i, d.Count)
		}
	}

	return nil
}

// Size is what the values of checked indices take in PLAIN form, in bytes.
func (d *Dictionary) Size(indices []uint32) int {
	if d.width > 0 {
		return len(indices) * d.width
	}
	n := 0
	for _, i := range indices {
		n += int(d.start[i+1] - d.start[i])
	}

	return n
}

// Append appends the PLAIN form of the values of checked indices.
func (d *Dictionary) Append(dst []byte, indices []uint32) []byte {
	at, size := len(dst), d.Size(indices)
	dst = slices.Grow(dst, size)
	if d.width != 8 {
		for _, i := range indices {
			dst = append(dst, d.At(i)...)
		}

		return dst
	}
	dst = dst[:at+size]
	out := dst[at:]
	for n, i := range indices {
		*(*[8]byte)(out[8*n:]) = [8]byte(d.Plain[8*int(i):])
	}

	return dst
}

// Sequential reports whether the indices name each of n values once, in order.
func Sequential(indices []uint32, n int) bool {
	if len(indices) != n {
		return false
	}
	for at, i := range indices {
		if int(i) != at {
			return false
		}
	}

	return true
}

// Merged collects the values of many dictionaries. The zero value is empty. It
// is not safe for concurrent use.
type Merged struct {
	Plain   []byte
	Count   int
	texts   map[string]uint32
	numbers numbers
}

// Reset empties it, and keeps its memory for what is added next.
func (m *Merged) Reset() {
	m.Plain, m.Count = m.Plain[:0], 0
	clear(m.texts)
	m.numbers.reset()
}

// Add takes in a dictionary. remap gives the new index of each of its values;
// identity reports that none has changed.
func (m *Merged) Add(d *Dictionary) (remap []uint32, identity bool) {
	remap = make([]uint32, d.Count)
	identity = true
	for i := range remap {
		v := d.At(uint32(i))
		index, known := m.place(v, d.width)
		if !known {
			m.Plain = append(m.Plain, v...)
			m.Count++
		}
		remap[i] = index
		identity = identity && int(index) == i
	}

	return remap, identity
}

// place finds the index of a value, which is the next one when it is new.
func (m *Merged) place(v []byte, width int) (index uint32, known bool) {
	switch width {
	case 4:
		return m.numbers.place(uint64(binary.LittleEndian.Uint32(v)), uint32(m.Count))
	case 8:
		return m.numbers.place(binary.LittleEndian.Uint64(v), uint32(m.Count))
	}
	if index, known = m.texts[string(v)]; known {
		return index, true
	}
	if m.texts == nil {
		m.texts = make(map[string]uint32)
	}
	m.texts[string(v)] = uint32(m.Count)

	return uint32(m.Count), false
}
