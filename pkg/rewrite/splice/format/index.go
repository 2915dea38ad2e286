package format

import (
	"fmt"

	"compactor/pkg/rewrite/splice/thrift"
)

// ReadColumnIndex reads a serialized column index. Lists of different lengths
// are an error.
func ReadColumnIndex(b []byte) (*ColumnIndex, error) {
	r := thrift.NewReader(b)
	c := &ColumnIndex{}
	r.Struct(func(id int16, t thrift.Type) {
		switch {
		case id == 1 && r.Expect(t, thrift.List):
			r.Each(thrift.True, func(int, int) { c.NullPages = append(c.NullPages, r.BoolElement()) })
		case id == 2 && r.Expect(t, thrift.List):
			r.Each(thrift.Binary, func(int, int) { c.Min = append(c.Min, r.Bytes()) })
		case id == 3 && r.Expect(t, thrift.List):
			r.Each(thrift.Binary, func(int, int) { c.Max = append(c.Max, r.Bytes()) })
		case id == 4 && r.Expect(t, thrift.I32):
			c.Order = r.Int32()
		case id == 5 && r.Expect(t, thrift.List):
			r.Each(thrift.I64, func(int, int) { c.NullCounts = append(c.NullCounts, r.Int64()) })
		default:
			r.Skip(t)
		}
	})
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("read column index: %w", err)
	}
	n := len(c.NullPages)
	if len(c.Min) != n || len(c.Max) != n || (c.NullCounts != nil && len(c.NullCounts) != n) {
		return nil, fmt.Errorf("read column index: %w: lists of different lengths", thrift.ErrCorrupt)
	}

	return c, nil
}

// Append appends the serialized index to b.
func (c *ColumnIndex) Append(b []byte) []byte {
	w := &thrift.Writer{}
	w.List(1, thrift.True, len(c.NullPages), func(i int) { w.BoolElement(c.NullPages[i]) })
	w.List(2, thrift.Binary, len(c.Min), func(i int) { w.BytesElement(c.Min[i]) })
	w.List(3, thrift.Binary, len(c.Max), func(i int) { w.BytesElement(c.Max[i]) })
	w.Int32(4, c.Order)
	if c.NullCounts != nil {
		w.List(5, thrift.I64, len(c.NullCounts), func(i int) { w.IntElement(c.NullCounts[i]) })
	}

	return append(b, w.End()...)
}

// AppendOffsetIndex appends the serialized offset index of the pages to b.
func AppendOffsetIndex(b []byte, pages []PageLocation) []byte {
	w := &thrift.Writer{}
	w.List(1, thrift.Struct, len(pages), func(i int) {
		w.StructElement(func() {
			w.Int64(1, pages[i].Offset)
			w.Int32(2, pages[i].Size)
			w.Int64(3, pages[i].FirstRow)
		})
	})

	return append(b, w.End()...)
}

// AppendBloomHeader appends the header of a Bloom filter with so many bytes of
// bits, in the only form there is: split blocks, xxHash, not compressed.
func AppendBloomHeader(b []byte, bits int32) []byte {
	w := &thrift.Writer{}
	only := func() { w.Struct(1, func() {}) }
	w.Int32(1, bits)
	w.Struct(2, only)
	w.Struct(3, only)
	w.Struct(4, only)

	return append(b, w.End()...)
}
