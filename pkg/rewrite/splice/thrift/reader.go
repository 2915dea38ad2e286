// Package thrift reads and writes the compact protocol of Apache Thrift, as far
// as Parquet metadata needs it.
//
// A reader never trusts a length: every count and size is compared with the
// bytes that are left before anything is allocated, and nesting is bounded. Fields
// that are not known are skipped, as the protocol wants it, so that files of
// newer writers can be read.
package thrift

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Type is a field or element type of the compact protocol.
type Type byte

// The types of the compact protocol. A boolean field carries its value in its
// type; an element of a list of booleans is a byte.
const (
	Stop   Type = 0
	True   Type = 1
	False  Type = 2
	Byte   Type = 3
	I16    Type = 4
	I32    Type = 5
	I64    Type = 6
	Double Type = 7
	Binary Type = 8
	List   Type = 9
	Set    Type = 10
	Map    Type = 11
	Struct Type = 12
)

// maxDepth bounds how deep structures may be nested; Parquet needs six.
const maxDepth = 32

// ErrCorrupt means that the bytes are not what the protocol allows.
var ErrCorrupt = errors.New("corrupt thrift data")

// Reader reads values one after the other. After the first error every further
// call returns zero values, and Err tells the error. A Reader is not safe for
// concurrent use. The zero value reads nothing; use NewReader.
type Reader struct {
	buf  []byte
	pos  int
	err  error
	last int16
}

// NewReader reads from b, which must not change while it is in use: byte values
// are slices of it.
func NewReader(b []byte) *Reader { return &Reader{buf: b} }

// Err is the first error, which wraps ErrCorrupt.
func (r *Reader) Err() error { return r.err }

// Pos is how many bytes were read.
func (r *Reader) Pos() int { return r.pos }

// Fail records an error of the caller, such as a value out of its range.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w at byte %d: %s", ErrCorrupt, r.pos, fmt.Sprintf(format, args...))
	}
}

// Struct calls field for each field of a structure. The callback has to read or
// Skip the value.
func (r *Reader) Struct(field func(id int16, t Type)) {
	outer := r.last
	r.last = 0
	for r.err == nil {
		head := r.byte()
		t := Type(head & 0x0f)
		if r.err != nil || t == Stop {
			break
		}
		if delta := int16(head >> 4); delta != 0 {
			r.last += delta
		} else {
			id := r.varint()
			if id < math.MinInt16 || id > math.MaxInt16 {
				r.Fail("field id %d", id)

				break
			}
			r.last = int16(id)
		}
		field(r.last, t)
	}
	r.last = outer
}

// Expect reports whether a field has the type it should have; otherwise the read
// fails, because a known field of another type says that this is something else.
func (r *Reader) Expect(got, want Type) bool {
	if got != want {
		r.Fail("type %d where %d belongs", got, want)
	}

	return r.err == nil
}

// Bool is the value of a boolean field.
func (r *Reader) Bool(t Type) bool {
	if t != True && t != False {
		r.Fail("type %d where a boolean belongs", t)
	}

	return t == True
}

// BoolElement reads an element of a list of booleans.
func (r *Reader) BoolElement() bool { return Type(r.byte()) == True }

// Int8 reads a byte.
func (r *Reader) Int8() int8 { return int8(r.byte()) }

// Int16 reads a 16 bit number.
func (r *Reader) Int16() int16 {
	v := r.varint()
	if v < math.MinInt16 || v > math.MaxInt16 {
		r.Fail("number %d does not fit 16 bits", v)

		return 0
	}

	return int16(v)
}

// Int32 reads a 32 bit number.
func (r *Reader) Int32() int32 {
	v := r.varint()
	if v < math.MinInt32 || v > math.MaxInt32 {
		r.Fail("number %d does not fit 32 bits", v)

		return 0
	}

	return int32(v)
}

// Int64 reads a 64 bit number.
func (r *Reader) Int64() int64 { return r.varint() }

// Bytes reads a byte string, a slice of the input that is never nil.
func (r *Reader) Bytes() []byte {
	n := r.uvarint()
	if r.err != nil {
		return nil
	}
	if n > uint64(len(r.buf)-r.pos) {
		r.Fail("%d bytes wanted, %d left", n, len(r.buf)-r.pos)

		return nil
	}
	out := r.buf[r.pos : r.pos+int(n) : r.pos+int(n)]
	r.pos += int(n)

	return out
}

// ListHeader reads the element type and the count of a list or set. An element
// takes at least a byte, so a count above what is left is an error.
func (r *Reader) ListHeader() (Type, int) {
	head := r.byte()
	n := uint64(head >> 4)
	if n == 15 {
		n = r.uvarint()
	}
	if r.err == nil && n > uint64(len(r.buf)-r.pos) {
		r.Fail("list of %d elements in %d bytes", n, len(r.buf)-r.pos)
	}
	if r.err != nil {
		return Stop, 0
	}

	return Type(head & 0x0f), int(n)
}

// Each calls element for every element of a list whose elements must have the
// given type.
func (r *Reader) Each(want Type, element func(i, n int)) {
	t, n := r.ListHeader()
	boolean := want == True && (t == True || t == False)
	if n > 0 && !boolean && !r.Expect(t, want) {
		return
	}
	for i := 0; i < n && r.err == nil; i++ {
		element(i, n)
	}
}

// Skip passes over a field's value.
func (r *Reader) Skip(t Type) { r.skip(t, false, maxDepth) }

func (r *Reader) skip(t Type, element bool, depth int) {
	if depth == 0 {
		r.Fail("nested too deep")
	}
	if r.err != nil {
		return
	}
	switch t {
	case True, False:
		if element {
			r.byte()
		}
	case Byte:
		r.byte()
	case I16, I32, I64:
		r.varint()
	case Double:
		r.advance(8)
	case Binary:
		r.Bytes()
	case List, Set:
		inner, n := r.ListHeader()
		for i := 0; i < n && r.err == nil; i++ {
			r.skip(inner, true, depth-1)
		}
	case Map:
		r.skipMap(depth)
	case Struct:
		r.Struct(func(_ int16, t Type) { r.skip(t, false, depth-1) })
	default:
		r.Fail("unknown type %d", t)
	}
}

func (r *Reader) skipMap(depth int) {
	n := r.uvarint()
	if n == 0 || r.err != nil {
		return
	}
	if n > uint64(len(r.buf)-r.pos) {
		r.Fail("map of %d entries in %d bytes", n, len(r.buf)-r.pos)

		return
	}
	kinds := r.byte()
	for i := uint64(0); i < n && r.err == nil; i++ {
		r.skip(Type(kinds>>4), true, depth-1)
		r.skip(Type(kinds&0x0f), true, depth-1)
	}
}

func (r *Reader) advance(n int) {
	if r.err == nil && n > len(r.buf)-r.pos {
		r.Fail("%d bytes wanted, %d left", n, len(r.buf)-r.pos)
	}
	if r.err == nil {
		r.pos += n
	}
}

func (r *Reader) byte() byte {
	if r.err == nil && r.pos >= len(r.buf) {
		r.Fail("ends early")
	}
	if r.err != nil {
		return 0
	}
	b := r.buf[r.pos]
	r.pos++

	return b
}

func (r *Reader) uvarint() uint64 {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.buf[r.pos:])
	if n <= 0 {
		r.Fail("bad number")

		return 0
	}
	r.pos += n

	return v
}

// varint reads a zigzag number.
func (r *Reader) varint() int64 {
	u := r.uvarint()

	return int64(u>>1) ^ -int64(u&1)
}
