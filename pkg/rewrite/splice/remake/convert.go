package remake

import (
	"fmt"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
)

// convert copies from a reader into a writer of the same or of a wider type.
func (j *Job) convert(reader file.ColumnChunkReader, column file.ColumnChunkWriter) (int64, error) {
	switch w := column.(type) {
	case *file.BooleanColumnChunkWriter:
		put := sink[bool]{w.WriteBatch, asBool}
		if r, ok := reader.(*file.BooleanColumnChunkReader); ok && j.Shape == nil {
			return run(j, reader, r.ReadBatch, same[bool], put)
		}

		return without(j, reader, put)
	case *file.Int32ColumnChunkWriter:
		return j.toInt32(reader, sink[int32]{w.WriteBatch, asInt32})
	case *file.Int64ColumnChunkWriter:
		return j.toInt64(reader, sink[int64]{w.WriteBatch, asInt64})
	case *file.Float32ColumnChunkWriter:
		put := sink[float32]{w.WriteBatch, asFloat32}
		if r, ok := reader.(*file.Float32ColumnChunkReader); ok && j.Shape == nil {
			return run(j, reader, r.ReadBatch, j.float32, put)
		}

		return without(j, reader, put)
	case *file.Float64ColumnChunkWriter:
		return j.toFloat64(reader, sink[float64]{w.WriteBatch, asFloat64})
	case *file.ByteArrayColumnChunkWriter:
		put := sink[parquet.ByteArray]{w.WriteBatch, asBytes}
		if r, ok := reader.(*file.ByteArrayColumnChunkReader); ok && j.Shape == nil {
			return run(j, reader, r.ReadBatch, cloned, put)
		}

		return without(j, reader, put)
	case *file.FixedLenByteArrayColumnChunkWriter:
		return j.toFixed(reader, sink[parquet.FixedLenByteArray]{w.WriteBatch, asFixed})
	default:
		return 0, fmt.Errorf("%w: a writer of %T", ErrCorrupt, column)
	}
}

func (j *Job) toInt32(reader file.ColumnChunkReader, put sink[int32]) (int64, error) {
	if j.Shape != nil {
		return without(j, reader, put)
	}
	switch r := reader.(type) {
	case *file.Int32ColumnChunkReader:
		return run(j, reader, r.ReadBatch, same[int32], put)
	case *file.Int64ColumnChunkReader:
		return run(j, reader, r.ReadBatch, narrowed, put)
	case *file.FixedLenByteArrayColumnChunkReader:
		return run(j, reader, r.ReadBatch, func(v parquet.FixedLenByteArray) (int32, error) { return int32Of(v) }, put)
	case *file.ByteArrayColumnChunkReader:
		return run(j, reader, r.ReadBatch, func(v parquet.ByteArray) (int32, error) { return int32Of(v) }, put)
	default:
		return without(j, reader, put)
	}
}

func (j *Job) toInt64(reader file.ColumnChunkReader, put sink[int64]) (int64, error) {
	if j.Shape != nil {
		return without(j, reader, put)
	}
	switch r := reader.(type) {
	case *file.Int64ColumnChunkReader:
		return run(j, reader, r.ReadBatch, same[int64], put)
	case *file.Int32ColumnChunkReader:
		return run(j, reader, r.ReadBatch, func(v int32) (int64, error) { return int64(v), nil }, put)
	case *file.FixedLenByteArrayColumnChunkReader:
		return run(j, reader, r.ReadBatch, func(v parquet.FixedLenByteArray) (int64, error) { return int64Of(v) }, put)
	case *file.ByteArrayColumnChunkReader:
		return run(j, reader, r.ReadBatch, func(v parquet.ByteArray) (int64, error) { return int64Of(v) }, put)
	default:
		return without(j, reader, put)
	}
}

func (j *Job) toFloat64(reader file.ColumnChunkReader, put sink[float64]) (int64, error) {
	if j.Shape != nil {
		return without(j, reader, put)
	}
	switch r := reader.(type) {
	case *file.Float64ColumnChunkReader:
		return run(j, reader, r.ReadBatch, j.float64, put)
	case *file.Float32ColumnChunkReader:
		return run(j, reader, r.ReadBatch, func(v float32) (float64, error) { return j.float64(float64(v)) }, put)
	default:
		return without(j, reader, put)
	}
}

func (j *Job) toFixed(reader file.ColumnChunkReader, put sink[parquet.FixedLenByteArray]) (int64, error) {
	width := j.Leaf.TypeLength
	if !j.Leaf.SignedBytes || j.Shape != nil {
		r, ok := reader.(*file.FixedLenByteArrayColumnChunkReader)
		if !ok || j.Shape != nil {
			return without(j, reader, put)
		}

		return run(j, reader, r.ReadBatch, func(v parquet.FixedLenByteArray) (parquet.FixedLenByteArray, error) {
			if len(v) != width {
				return nil, fmt.Errorf("%w: value of %d bytes, not %d", ErrCorrupt, len(v), width)
			}

			return append(parquet.FixedLenByteArray(nil), v...), nil
		}, put)
	}
	switch r := reader.(type) {
	case *file.FixedLenByteArrayColumnChunkReader:
		return run(j, reader, r.ReadBatch, func(v parquet.FixedLenByteArray) (parquet.FixedLenByteArray, error) { return resized(v, width) }, put)
	case *file.ByteArrayColumnChunkReader:
		return run(j, reader, r.ReadBatch, func(v parquet.ByteArray) (parquet.FixedLenByteArray, error) { return resized(v, width) }, put)
	case *file.Int32ColumnChunkReader:
		return run(j, reader, r.ReadBatch, func(v int32) (parquet.FixedLenByteArray, error) { return bigEndian(int64(v), width) }, put)
	case *file.Int64ColumnChunkReader:
		return run(j, reader, r.ReadBatch, func(v int64) (parquet.FixedLenByteArray, error) { return bigEndian(v, width) }, put)
	default:
		return without(j, reader, put)
	}
}

// without makes a column of whose values none is read: there is nothing to read,
// or only its shape is wanted.
func without[U any](j *Job, reader file.ColumnChunkReader, put sink[U]) (int64, error) {
	if reader == nil {
		return nulls(j, put)
	}
	if j.Shape == nil {
		return 0, fmt.Errorf("%w: a %T has no way into type %d", ErrCorrupt, reader, j.Leaf.Type)
	}
	switch r := reader.(type) {
	case *file.BooleanColumnChunkReader:
		return run(j, reader, r.ReadBatch, none[bool, U], put)
	case *file.Int32ColumnChunkReader:
		return run(j, reader, r.ReadBatch, none[int32, U], put)
	case *file.Int64ColumnChunkReader:
		return run(j, reader, r.ReadBatch, none[int64, U], put)
	case *file.Int96ColumnChunkReader:
		return run(j, reader, r.ReadBatch, none[parquet.Int96, U], put)
	case *file.Float32ColumnChunkReader:
		return run(j, reader, r.ReadBatch, none[float32, U], put)
	case *file.Float64ColumnChunkReader:
		return run(j, reader, r.ReadBatch, none[float64, U], put)
	case *file.ByteArrayColumnChunkReader:
		return run(j, reader, r.ReadBatch, none[parquet.ByteArray, U], put)
	case *file.FixedLenByteArrayColumnChunkReader:
		return run(j, reader, r.ReadBatch, none[parquet.FixedLenByteArray, U], put)
	default:
		return 0, fmt.Errorf("%w: a reader of %T", ErrCorrupt, reader)
	}
}
