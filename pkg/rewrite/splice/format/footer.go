package format

import (
	"fmt"

	"compactor/pkg/rewrite/splice/thrift"
)

// ReadFooter reads the serialized FileMetaData. Sizes and counts in it are as
// the file tells them; whoever uses them checks them. The result does not refer
// to b.
func ReadFooter(b []byte) (*FileMetaData, error) {
	b = append([]byte(nil), b...)
	r := thrift.NewReader(b)
	m := &FileMetaData{}
	r.Struct(func(id int16, t thrift.Type) {
		switch {
		case id == 1 && r.Expect(t, thrift.I32):
			m.Version = r.Int32()
		case id == 2 && r.Expect(t, thrift.List):
			start := r.Pos()
			r.Each(thrift.Struct, func(int, int) { m.Schema = append(m.Schema, readElement(r)) })
			m.RawSchema = b[start:r.Pos()]
		case id == 3 && r.Expect(t, thrift.I64):
			m.NumRows = r.Int64()
		case id == 4 && r.Expect(t, thrift.List):
			r.Each(thrift.Struct, func(int, int) { m.RowGroups = append(m.RowGroups, readRowGroup(r)) })
		case id == 6 && r.Expect(t, thrift.Binary):
			m.CreatedBy = string(r.Bytes())
		case id == 7 && r.Expect(t, thrift.List):
			r.Each(thrift.Struct, func(int, int) { m.ColumnOrders = append(m.ColumnOrders, readOrder(r)) })
		case id == 8 || id == 9:
			m.Encrypted = true
			r.Skip(t)
		default:
			r.Skip(t)
		}
	})
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("read footer: %w", err)
	}

	return m, nil
}

// readOrder reports whether a column has the order that its type defines, the
// first member of the union.
func readOrder(r *thrift.Reader) bool {
	var byType bool
	r.Struct(func(id int16, t thrift.Type) {
		byType = id == 1
		r.Skip(t)
	})

	return byType
}

func readElement(r *thrift.Reader) SchemaElement {
	var e SchemaElement
	r.Struct(func(id int16, t thrift.Type) {
		switch {
		case id == 1 && r.Expect(t, thrift.I32):
			v := Type(r.Int32())
			e.Type = &v
		case id == 2 && r.Expect(t, thrift.I32):
			e.TypeLength = r.Int32()
		case id == 3 && r.Expect(t, thrift.I32):
			v := Repetition(r.Int32())
			e.Repetition = &v
		case id == 4 && r.Expect(t, thrift.Binary):
			e.Name = string(r.Bytes())
		case id == 5 && r.Expect(t, thrift.I32):
			e.NumChildren = r.Int32()
		case id == 6 && r.Expect(t, thrift.I32):
			v := r.Int32()
			e.Converted = &v
		case id == 7 && r.Expect(t, thrift.I32):
			e.Scale = r.Int32()
		case id == 8 && r.Expect(t, thrift.I32):
			e.Precision = r.Int32()
		case id == 9 && r.Expect(t, thrift.I32):
			v := r.Int32()
			e.FieldID = &v
		case id == 10 && r.Expect(t, thrift.Struct):
			e.Logical = readLogical(r)
		default:
			r.Skip(t)
		}
	})

	return e
}

func readLogical(r *thrift.Reader) LogicalType {
	var l LogicalType
	r.Struct(func(id int16, t thrift.Type) {
		l.Kind = LogicalKind(id)
		if t != thrift.Struct {
			r.Skip(t)

			return
		}
		r.Struct(func(id int16, t thrift.Type) {
			switch {
			case l.Kind == LogicalDecimal && id == 1 && r.Expect(t, thrift.I32):
				l.Scale = r.Int32()
			case l.Kind == LogicalDecimal && id == 2 && r.Expect(t, thrift.I32):
				l.Precision = r.Int32()
			case (l.Kind == LogicalTime || l.Kind == LogicalTimestamp) && id == 1:
				l.UTC = r.Bool(t)
			case (l.Kind == LogicalTime || l.Kind == LogicalTimestamp) && id == 2 && r.Expect(t, thrift.Struct):
				r.Struct(func(id int16, t thrift.Type) {
					l.Unit = TimeUnit(id)
					r.Skip(t)
				})
			case l.Kind == LogicalInteger && id == 1 && r.Expect(t, thrift.Byte):
				l.BitWidth = r.Int8()
			case l.Kind == LogicalInteger && id == 2:
				l.Signed = r.Bool(t)
			default:
				r.Skip(t)
			}
		})
	})

	return l
}

func readRowGroup(r *thrift.Reader) RowGroup {
	var g RowGroup
	r.Struct(func(id int16, t thrift.Type) {
		switch {
		case id == 1 && r.Expect(t, thrift.List):
			r.Each(thrift.Struct, func(int, int) { g.Columns = append(g.Columns, readChunk(r)) })
		case id == 2 && r.Expect(t, thrift.I64):
			g.TotalByteSize = r.Int64()
		case id == 3 && r.Expect(t, thrift.I64):
			g.NumRows = r.Int64()
		default:
			r.Skip(t)
		}
	})

	return g
}

func readChunk(r *thrift.Reader) ColumnChunk {
	var c ColumnChunk
	r.Struct(func(id int16, t thrift.Type) {
		switch {
		case id == 1 && r.Expect(t, thrift.Binary):
			c.FilePath = string(r.Bytes())
		case id == 3 && r.Expect(t, thrift.Struct):
			c.Meta = readColumn(r)
		case id == 4 && r.Expect(t, thrift.I64):
			c.OffsetIndexOffset = r.Int64()
		case id == 5 && r.Expect(t, thrift.I32):
			c.OffsetIndexLength = r.Int32()
		case id == 6 && r.Expect(t, thrift.I64):
			c.ColumnIndexOffset = r.Int64()
		case id == 7 && r.Expect(t, thrift.I32):
			c.ColumnIndexLength = r.Int32()
		case id == 8 || id == 9:
			c.Encrypted = true
			r.Skip(t)
		default:
			r.Skip(t)
		}
	})

	return c
}

func readColumn(r *thrift.Reader) *ColumnMetaData {
	m := &ColumnMetaData{}
	r.Struct(func(id int16, t thrift.Type) {
		switch {
		case id == 1 && r.Expect(t, thrift.I32):
			m.Type = Type(r.Int32())
		case id == 2 && r.Expect(t, thrift.List):
			r.Each(thrift.I32, func(int, int) { m.Encodings = append(m.Encodings, Encoding(r.Int32())) })
		case id == 3 && r.Expect(t, thrift.List):
			r.Each(thrift.Binary, func(int, int) { m.Path = append(m.Path, string(r.Bytes())) })
		case id == 4 && r.Expect(t, thrift.I32):
			m.Codec = Codec(r.Int32())
		case id == 5 && r.Expect(t, thrift.I64):
			m.NumValues = r.Int64()
		case id == 6 && r.Expect(t, thrift.I64):
			m.TotalUncompressed = r.Int64()
		case id == 7 && r.Expect(t, thrift.I64):
			m.TotalCompressed = r.Int64()
		case id == 9 && r.Expect(t, thrift.I64):
			m.DataPageOffset = r.Int64()
		case id == 11 && r.Expect(t, thrift.I64):
			v := r.Int64()
			m.DictionaryOffset = &v
		case id == 12 && r.Expect(t, thrift.Struct):
			m.Statistics = readStatistics(r)
		default:
			r.Skip(t)
		}
	})

	return m
}

func readStatistics(r *thrift.Reader) *Statistics {
	s := &Statistics{}
	r.Struct(func(id int16, t thrift.Type) {
		switch {
		case id == 3 && r.Expect(t, thrift.I64):
			v := r.Int64()
			s.NullCount = &v
		case id == 5 && r.Expect(t, thrift.Binary):
			s.Max = r.Bytes()
		case id == 6 && r.Expect(t, thrift.Binary):
			s.Min = r.Bytes()
		case id == 7:
			v := r.Bool(t)
			s.MaxExact = &v
		case id == 8:
			v := r.Bool(t)
			s.MinExact = &v
		default:
			r.Skip(t)
		}
	})

	return s
}
