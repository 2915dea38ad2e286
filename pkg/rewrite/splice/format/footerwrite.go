package format

import "compactor/pkg/rewrite/splice/thrift"

// Append appends the serialized footer to b.
func (m *FileMetaData) Append(b []byte) []byte {
	w := &thrift.Writer{}
	w.Int32(1, m.Version)
	w.List(2, thrift.Struct, len(m.Schema), func(i int) {
		w.StructElement(func() { m.Schema[i].write(w) })
	})
	w.Int64(3, m.NumRows)
	w.List(4, thrift.Struct, len(m.RowGroups), func(i int) {
		w.StructElement(func() { m.RowGroups[i].write(w) })
	})
	if len(m.KeyValues) > 0 {
		w.List(5, thrift.Struct, len(m.KeyValues), func(i int) {
			w.StructElement(func() {
				w.String(1, m.KeyValues[i].Key)
				w.String(2, m.KeyValues[i].Value)
			})
		})
	}
	w.String(6, m.CreatedBy)
	w.List(7, thrift.Struct, len(m.ColumnOrders), func(int) {
		w.StructElement(func() { w.Struct(1, func() {}) })
	})

	return append(b, w.End()...)
}

func (e *SchemaElement) write(w *thrift.Writer) {
	if e.Type != nil {
		w.Int32(1, int32(*e.Type))
		if *e.Type == FixedLenByteArray {
			w.Int32(2, e.TypeLength)
		}
	}
	if e.Repetition != nil {
		w.Int32(3, int32(*e.Repetition))
	}
	w.String(4, e.Name)
	if e.Type == nil {
		w.Int32(5, e.NumChildren)
	}
	if e.Converted != nil {
		w.Int32(6, *e.Converted)
	}
	if e.Logical.Kind == LogicalDecimal {
		w.Int32(7, e.Scale)
		w.Int32(8, e.Precision)
	}
	if e.FieldID != nil {
		w.Int32(9, *e.FieldID)
	}
	if e.Logical.Kind != LogicalNone {
		w.Struct(10, func() { e.Logical.write(w) })
	}
}

func (l LogicalType) write(w *thrift.Writer) {
	w.Struct(int16(l.Kind), func() {
		switch l.Kind {
		case LogicalDecimal:
			w.Int32(1, l.Scale)
			w.Int32(2, l.Precision)
		case LogicalTime, LogicalTimestamp:
			w.Bool(1, l.UTC)
			w.Struct(2, func() { w.Struct(int16(l.Unit), func() {}) })
		case LogicalInteger:
			w.Int8(1, l.BitWidth)
			w.Bool(2, l.Signed)
		}
	})
}

func (g *RowGroup) write(w *thrift.Writer) {
	w.List(1, thrift.Struct, len(g.Columns), func(i int) {
		w.StructElement(func() { g.Columns[i].write(w) })
	})
	w.Int64(2, g.TotalByteSize)
	w.Int64(3, g.NumRows)
	w.Int64(5, g.FileOffset)
	w.Int64(6, g.TotalCompressed)
	w.Int16(7, g.Ordinal)
}

func (c *ColumnChunk) write(w *thrift.Writer) {
	w.Int64(2, 0) // deprecated, readers are told to ignore it
	w.Struct(3, func() { c.Meta.write(w) })
	if c.OffsetIndexLength > 0 {
		w.Int64(4, c.OffsetIndexOffset)
		w.Int32(5, c.OffsetIndexLength)
	}
	if c.ColumnIndexLength > 0 {
		w.Int64(6, c.ColumnIndexOffset)
		w.Int32(7, c.ColumnIndexLength)
	}
}

func (m *ColumnMetaData) write(w *thrift.Writer) {
	w.Int32(1, int32(m.Type))
	w.List(2, thrift.I32, len(m.Encodings), func(i int) { w.IntElement(int64(m.Encodings[i])) })
	w.List(3, thrift.Binary, len(m.Path), func(i int) { w.BytesElement([]byte(m.Path[i])) })
	w.Int32(4, int32(m.Codec))
	w.Int64(5, m.NumValues)
	w.Int64(6, m.TotalUncompressed)
	w.Int64(7, m.TotalCompressed)
	w.Int64(9, m.DataPageOffset)
	if m.DictionaryOffset != nil {
		w.Int64(11, *m.DictionaryOffset)
	}
	if m.Statistics != nil {
		w.Struct(12, func() { m.Statistics.write(w) })
	}
	w.List(13, thrift.Struct, len(m.EncodingStats), func(i int) {
		w.StructElement(func() {
			w.Int32(1, int32(m.EncodingStats[i].Type))
			w.Int32(2, int32(m.EncodingStats[i].Encoding))
			w.Int32(3, m.EncodingStats[i].Count)
		})
	})
	if m.BloomLength > 0 {
		w.Int64(14, m.BloomOffset)
		w.Int32(15, m.BloomLength)
	}
}

func (s *Statistics) write(w *thrift.Writer) {
	if s.NullCount != nil {
		w.Int64(3, *s.NullCount)
	}
	if s.Max != nil {
		w.Binary(5, s.Max)
	}
	if s.Min != nil {
		w.Binary(6, s.Min)
	}
	if s.MaxExact != nil {
		w.Bool(7, *s.MaxExact)
	}
	if s.MinExact != nil {
		w.Bool(8, *s.MinExact)
	}
}
