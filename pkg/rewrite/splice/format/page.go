package format

import (
	"fmt"

	"compactor/pkg/rewrite/splice/thrift"
)

// ReadPageHeader reads a page header from the start of b and tells how many
// bytes it took. Sizes in it are not checked against b.
func ReadPageHeader(b []byte) (*PageHeader, int, error) {
	r := thrift.NewReader(b)
	h := &PageHeader{Type: -1}
	r.Struct(func(id int16, t thrift.Type) {
		switch {
		case id == 1 && r.Expect(t, thrift.I32):
			h.Type = PageType(r.Int32())
		case id == 2 && r.Expect(t, thrift.I32):
			h.Uncompressed = r.Int32()
		case id == 3 && r.Expect(t, thrift.I32):
			h.Compressed = r.Int32()
		case id == 4 && r.Expect(t, thrift.I32):
			v := uint32(r.Int32())
			h.CRC = &v
		case id == 5 && r.Expect(t, thrift.Struct):
			h.Data = readDataHeader(r)
		case id == 7 && r.Expect(t, thrift.Struct):
			h.Dictionary = readDictionaryHeader(r)
		case id == 8 && r.Expect(t, thrift.Struct):
			h.DataV2 = readDataHeaderV2(r)
		default:
			r.Skip(t)
		}
	})
	if err := r.Err(); err != nil {
		return nil, 0, fmt.Errorf("read page header: %w", err)
	}

	return h, r.Pos(), nil
}

func readDataHeader(r *thrift.Reader) *DataPageHeader {
	h := &DataPageHeader{Definition: RLE, Repetition: RLE}
	r.Struct(func(id int16, t thrift.Type) {
		switch {
		case id == 1 && r.Expect(t, thrift.I32):
			h.NumValues = r.Int32()
		case id == 2 && r.Expect(t, thrift.I32):
			h.Encoding = Encoding(r.Int32())
		case id == 3 && r.Expect(t, thrift.I32):
			h.Definition = Encoding(r.Int32())
		case id == 4 && r.Expect(t, thrift.I32):
			h.Repetition = Encoding(r.Int32())
		case id == 5 && r.Expect(t, thrift.Struct):
			h.Statistics = readStatistics(r)
		default:
			r.Skip(t)
		}
	})

	return h
}

func readDictionaryHeader(r *thrift.Reader) *DictionaryPageHeader {
	h := &DictionaryPageHeader{}
	r.Struct(func(id int16, t thrift.Type) {
		switch {
		case id == 1 && r.Expect(t, thrift.I32):
			h.NumValues = r.Int32()
		case id == 2 && r.Expect(t, thrift.I32):
			h.Encoding = Encoding(r.Int32())
		default:
			r.Skip(t)
		}
	})

	return h
}

func readDataHeaderV2(r *thrift.Reader) *DataPageHeaderV2 {
	h := &DataPageHeaderV2{}
	r.Struct(func(id int16, t thrift.Type) {
		switch {
		case id == 1 && r.Expect(t, thrift.I32):
			h.NumValues = r.Int32()
		case id == 2 && r.Expect(t, thrift.I32):
			h.NumNulls = r.Int32()
		case id == 3 && r.Expect(t, thrift.I32):
			h.NumRows = r.Int32()
		case id == 4 && r.Expect(t, thrift.I32):
			h.Encoding = Encoding(r.Int32())
		case id == 5 && r.Expect(t, thrift.I32):
			h.DefinitionLength = r.Int32()
		case id == 6 && r.Expect(t, thrift.I32):
			h.RepetitionLength = r.Int32()
		case id == 7:
			h.Raw = !r.Bool(t)
		case id == 8 && r.Expect(t, thrift.Struct):
			h.Statistics = readStatistics(r)
		default:
			r.Skip(t)
		}
	})

	return h
}

// Append appends the serialized header to b.
func (h *PageHeader) Append(b []byte) []byte {
	w := &thrift.Writer{}
	w.Int32(1, int32(h.Type))
	w.Int32(2, h.Uncompressed)
	w.Int32(3, h.Compressed)
	if h.CRC != nil {
		w.Int32(4, int32(*h.CRC))
	}
	if d := h.Data; d != nil {
		w.Struct(5, func() {
			w.Int32(1, d.NumValues)
			w.Int32(2, int32(d.Encoding))
			w.Int32(3, int32(d.Definition))
			w.Int32(4, int32(d.Repetition))
			if d.Statistics != nil {
				w.Struct(5, func() { d.Statistics.write(w) })
			}
		})
	}
	if d := h.Dictionary; d != nil {
		w.Struct(7, func() {
			w.Int32(1, d.NumValues)
			w.Int32(2, int32(d.Encoding))
		})
	}
	if d := h.DataV2; d != nil {
		w.Struct(8, func() { d.write(w) })
	}

	return append(b, w.End()...)
}

func (d *DataPageHeaderV2) write(w *thrift.Writer) {
	w.Int32(1, d.NumValues)
	w.Int32(2, d.NumNulls)
	w.Int32(3, d.NumRows)
	w.Int32(4, int32(d.Encoding))
	w.Int32(5, d.DefinitionLength)
	w.Int32(6, d.RepetitionLength)
	if d.Raw {
		w.Bool(7, false)
	}
	if d.Statistics != nil {
		w.Struct(8, func() { d.Statistics.write(w) })
	}
}
