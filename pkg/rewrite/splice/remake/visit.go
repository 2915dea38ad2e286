package remake

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/stats"
)

const magic = "PAR1"

// Values decodes a chunk and hands on each value that is not null, in PLAIN form
// without the length of a byte array. What see gets is not valid after it returns.
func Values(chunk []byte, meta *format.ColumnMetaData, leaf page.Leaf, see func(plain []byte)) (err error) {
	defer func() {
		// The Parquet library panics on damaged input.
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrCorrupt, p)
		}
	}()
	pf, err := file.NewParquetReader(bytes.NewReader(around(chunk, meta, leaf)))
	if err != nil {
		return fmt.Errorf("%w: open chunk: %w", ErrCorrupt, err)
	}
	if err := stats.Decodable(pf, 0, 0); err != nil {
		return err //nolint:wrapcheck // says what it is
	}
	reader, err := pf.RowGroup(0).Column(0)
	if err != nil {
		return fmt.Errorf("%w: open chunk: %w", ErrCorrupt, err)
	}
	var plain [8]byte
	switch r := reader.(type) {
	case *file.Int32ColumnChunkReader:
		return visit(r, r.ReadBatch, func(v int32) { see(binary.LittleEndian.AppendUint32(plain[:0], uint32(v))) })
	case *file.Int64ColumnChunkReader:
		return visit(r, r.ReadBatch, func(v int64) { see(binary.LittleEndian.AppendUint64(plain[:0], uint64(v))) })
	case *file.Float32ColumnChunkReader:
		return visit(r, r.ReadBatch, func(v float32) { see(binary.LittleEndian.AppendUint32(plain[:0], math.Float32bits(v))) })
	case *file.Float64ColumnChunkReader:
		return visit(r, r.ReadBatch, func(v float64) { see(binary.LittleEndian.AppendUint64(plain[:0], math.Float64bits(v))) })
	case *file.ByteArrayColumnChunkReader:
		return visit(r, r.ReadBatch, func(v parquet.ByteArray) { see(v) })
	case *file.FixedLenByteArrayColumnChunkReader:
		return visit(r, r.ReadBatch, func(v parquet.FixedLenByteArray) { see(v) })
	default:
		return fmt.Errorf("%w: a reader of %T", ErrCorrupt, reader)
	}
}

func visit[T any](reader file.ColumnChunkReader, next read[T], see func(T)) error {
	values, def, rep := make([]T, batch), make([]int16, batch), make([]int16, batch)
	for reader.HasNext() {
		total, got, err := next(batch, values, def, rep)
		if err != nil {
			return fmt.Errorf("%w: read values: %w", ErrCorrupt, err)
		}
		if total == 0 {
			break
		}
		for _, v := range values[:got] {
			see(v)
		}
	}
	if err := reader.Err(); err != nil {
		return errors.Join(ErrCorrupt, fmt.Errorf("read values: %w", err))
	}

	return nil
}

// around makes a file of a chunk.
func around(chunk []byte, meta *format.ColumnMetaData, leaf page.Leaf) []byte {
	m := *meta
	start := int64(len(magic))
	if m.DictionaryOffset != nil {
		first := start
		m.DataPageOffset += start - *m.DictionaryOffset
		m.DictionaryOffset = &first
	} else {
		m.DataPageOffset = start
	}
	m.Path, m.Statistics = nil, nil
	one := func(name string, rep format.Repetition) format.SchemaElement {
		return format.SchemaElement{Name: name, NumChildren: 1, Repetition: &rep}
	}
	elements := []format.SchemaElement{{Name: "table", NumChildren: 1}}
	for range leaf.MaxRep {
		elements = append(elements, one("r", format.Repeated))
		m.Path = append(m.Path, "r")
	}
	for range leaf.MaxDef - leaf.MaxRep {
		elements = append(elements, one("o", format.Optional))
		m.Path = append(m.Path, "o")
	}
	m.Path = append(m.Path, "v")
	required, typ := format.Required, leaf.Type
	elements = append(elements, format.SchemaElement{Name: "v", Type: &typ, TypeLength: int32(leaf.TypeLength), Repetition: &required})
	footer := format.FileMetaData{
		Version: 2, Schema: elements, NumRows: m.NumValues,
		RowGroups: []format.RowGroup{{Columns: []format.ColumnChunk{{Meta: &m}}, NumRows: m.NumValues, TotalByteSize: m.TotalUncompressed}},
	}
	out := append(append(make([]byte, 0, len(chunk)+4<<10), magic...), chunk...)
	end := len(out)
	out = footer.Append(out)

	return append(binary.LittleEndian.AppendUint32(out, uint32(len(out)-end)), magic...)
}
