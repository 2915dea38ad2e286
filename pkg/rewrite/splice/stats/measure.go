package stats

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"

	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/refuse"
)

// measureBatch is how many values are decoded at once.
const measureBatch = 1024

// Measure decodes one column chunk of a file and returns its exact summary. It
// is for chunks whose own statistics are missing or not to be believed.
func Measure(src parquet.ReaderAtSeeker, rowGroup, column int) (s Summary, err error) {
	defer func() {
		// The Parquet library panics on damaged input.
		if p := recover(); p != nil {
			err = fmt.Errorf("decode column %d: %v", column, p)
		}
	}()
	pf, err := file.NewParquetReader(src)
	if err != nil {
		return s, fmt.Errorf("open file to decode column %d: %w", column, err)
	}
	if rowGroup >= pf.NumRowGroups() || column >= pf.RowGroup(rowGroup).NumColumns() {
		return s, fmt.Errorf("open column %d: not in row group %d", column, rowGroup)
	}
	if err := Decodable(pf, rowGroup, column); err != nil {
		return s, err
	}
	reader, err := pf.RowGroup(rowGroup).Column(column)
	if err != nil {
		return s, fmt.Errorf("open column %d: %w", column, err)
	}
	total := metadata.NewStatistics(reader.Descriptor(), memory.DefaultAllocator)
	if err := drain(reader, total); err != nil {
		return s, fmt.Errorf("decode column %d: %w", column, err)
	}
	enc, err := total.Encode()
	if err != nil {
		return s, fmt.Errorf("encode bounds of column %d: %w", column, err)
	}
	s.Nulls = enc.NullCount
	if total.HasMinMax() {
		s.Min, s.Max = append([]byte{}, enc.Min...), append([]byte{}, enc.Max...)
	}

	return s, nil
}

func drain(reader file.ColumnChunkReader, total metadata.TypedStatistics) error {
	switch r := reader.(type) {
	case *file.BooleanColumnChunkReader:
		return each(r, r.ReadBatch, total.(*metadata.BooleanStatistics).Update)
	case *file.Int32ColumnChunkReader:
		return each(r, r.ReadBatch, total.(*metadata.Int32Statistics).Update)
	case *file.Int64ColumnChunkReader:
		return each(r, r.ReadBatch, total.(*metadata.Int64Statistics).Update)
	case *file.Float32ColumnChunkReader:
		return each(r, r.ReadBatch, total.(*metadata.Float32Statistics).Update)
	case *file.Float64ColumnChunkReader:
		return each(r, r.ReadBatch, total.(*metadata.Float64Statistics).Update)
	case *file.ByteArrayColumnChunkReader:
		return each(r, r.ReadBatch, total.(*metadata.ByteArrayStatistics).Update)
	case *file.FixedLenByteArrayColumnChunkReader:
		return each(r, r.ReadBatch, total.(*metadata.FixedLenByteArrayStatistics).Update)
	default:
		return fmt.Errorf("type %T is not known", reader)
	}
}

// each hands batches of values to update, with the number of nulls between them.
func each[T any](r file.ColumnChunkReader, read func(int64, []T, []int16, []int16) (int64, int, error), update func([]T, int64)) error {
	values := make([]T, measureBatch)
	def, rep := make([]int16, measureBatch), make([]int16, measureBatch)
	for r.HasNext() {
		total, got, err := read(measureBatch, values, def, rep)
		if err != nil {
			return fmt.Errorf("read values: %w", err)
		}
		if total == 0 {
			return errors.Join(errors.New("read values: none left where there should be some"), r.Err())
		}
		update(values[:got], total-int64(got))
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("read values: %w", err)
	}

	return nil
}

// Prefixed reports the one encoding of the format that the Parquet library does not
// know: DELTA_BYTE_ARRAY of values of a fixed length.
func Prefixed(t parquet.Type, e parquet.Encoding) bool {
	return t == parquet.Types.FixedLenByteArray && e == parquet.Encodings.DeltaByteArray
}

// Decodable refuses a chunk that is Prefixed.
func Decodable(pf *file.Reader, rowGroup, column int) error {
	chunk, err := pf.MetaData().RowGroup(rowGroup).ColumnChunk(column)
	if err != nil {
		return fmt.Errorf("read metadata of column %d: %w", column, err)
	}
	if slices.ContainsFunc(chunk.Encodings(), func(e parquet.Encoding) bool { return Prefixed(chunk.Type(), e) }) {
		return &refuse.Error{Rule: page.RuleDecode, Detail: fmt.Sprintf("column %d", column)}
	}

	return nil
}
