package thrift

import "encoding/binary"

// Writer appends values to a buffer. Fields of a structure have to be written in
// the order of their ids. It is not safe for concurrent use. The zero value is
// ready for the fields of a structure; End closes it.
type Writer struct {
	buf  []byte
	last int16
}

// Bytes are the bytes written so far; they belong to the Writer until it is
// written to no more.
func (w *Writer) Bytes() []byte { return w.buf }

func (w *Writer) field(id int16, t Type) {
	if delta := id - w.last; delta > 0 && delta <= 15 {
		w.buf = append(w.buf, byte(delta)<<4|byte(t))
	} else {
		w.buf = append(w.buf, byte(t))
		w.varint(int64(id))
	}
	w.last = id
}

// Bool writes a boolean field.
func (w *Writer) Bool(id int16, v bool) {
	if v {
		w.field(id, True)
	} else {
		w.field(id, False)
	}
}

// Int8 writes a byte field.
func (w *Writer) Int8(id int16, v int8) {
	w.field(id, Byte)
	w.buf = append(w.buf, byte(v))
}

// Int16 writes a 16 bit field.
func (w *Writer) Int16(id int16, v int16) {
	w.field(id, I16)
	w.varint(int64(v))
}

// Int32 writes a 32 bit field.
func (w *Writer) Int32(id int16, v int32) {
	w.field(id, I32)
	w.varint(int64(v))
}

// Int64 writes a 64 bit field.
func (w *Writer) Int64(id int16, v int64) {
	w.field(id, I64)
	w.varint(v)
}

// Binary writes a byte string field.
func (w *Writer) Binary(id int16, v []byte) {
	w.field(id, Binary)
	w.BytesElement(v)
}

// String writes a text field.
func (w *Writer) String(id int16, v string) {
	w.field(id, Binary)
	w.buf = binary.AppendUvarint(w.buf, uint64(len(v)))
	w.buf = append(w.buf, v...)
}

// Struct writes a structure field whose fields body writes.
func (w *Writer) Struct(id int16, body func()) {
	w.field(id, Struct)
	w.StructElement(body)
}

// StructElement writes a structure that is an element of a list.
func (w *Writer) StructElement(body func()) {
	outer := w.last
	w.last = 0
	body()
	w.buf = append(w.buf, byte(Stop))
	w.last = outer
}

// List writes a list field; element writes the i-th element with one of the
// Element methods.
func (w *Writer) List(id int16, t Type, n int, element func(i int)) {
	w.field(id, List)
	if n < 15 {
		w.buf = append(w.buf, byte(n)<<4|byte(t))
	} else {
		w.buf = append(w.buf, 0xf0|byte(t))
		w.buf = binary.AppendUvarint(w.buf, uint64(n))
	}
	for i := range n {
		element(i)
	}
}

// BytesElement writes a byte string that is an element of a list.
func (w *Writer) BytesElement(v []byte) {
	w.buf = binary.AppendUvarint(w.buf, uint64(len(v)))
	w.buf = append(w.buf, v...)
}

// IntElement writes a number that is an element of a list.
func (w *Writer) IntElement(v int64) { w.varint(v) }

// BoolElement writes a boolean that is an element of a list.
func (w *Writer) BoolElement(v bool) {
	if v {
		w.buf = append(w.buf, byte(True))
	} else {
		w.buf = append(w.buf, byte(False))
	}
}

// End closes the outermost structure.
func (w *Writer) End() []byte {
	w.buf = append(w.buf, byte(Stop))

	return w.buf
}

func (w *Writer) varint(v int64) {
	w.buf = binary.AppendUvarint(w.buf, uint64(v)<<1^uint64(v>>63))
}
