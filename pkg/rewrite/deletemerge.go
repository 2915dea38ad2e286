package rewrite

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/table/dv"
	"github.com/google/uuid"
)

// posFieldID is the reserved field id of pos in position deletes.
const posFieldID = 2147483545

// deleteMerge writes the position deletes of partitions anew.
type deleteMerge struct {
	tbl     *table.Table
	plan    *Plan
	storage iceio.WriteFileIO
	created []string
}

// gather reads the rows that the deletes of a partition remove. Entries about
// rows or files that are not there are dropped, as are those for a data file
// with a deletion vector, which has them.
func (m *deleteMerge) gather(ctx context.Context, s *deleteScope) (reached, error) {
	targets, err := m.plan.targets(s)
	if err != nil {
		return nil, err
	}
	out := make(reached)
	for _, e := range s.deletes {
		files := targets[e]
		if len(files) == 0 {
			continue
		}
		err := readPositions(ctx, m.storage, e.path(), func(path string, pos int64) {
			if data := files[path]; data != nil && pos >= 0 && pos < data.file.Count() {
				out[path] = append(out[path], pos)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	for path, at := range out {
		slices.Sort(at)
		out[path] = slices.Compact(at)
	}

	return out, nil
}

// write puts the rows into as few files as the format version and the table's
// properties allow.
func (m *deleteMerge) write(ctx context.Context, s *deleteScope, rows reached) ([]iceberg.DataFile, error) {
	paths := slices.Sorted(maps.Keys(rows))
	switch {
	case len(paths) == 0:
		return nil, nil
	case m.tbl.Metadata().Version() >= 3:
		return m.writeVectors(ctx, s, rows, paths)
	case !byDataFile(m.tbl):
		df, err := m.writeParquet(s, rows, paths)

		return []iceberg.DataFile{df}, err
	}
	var out []iceberg.DataFile
	for _, path := range paths {
		df, err := m.writeParquet(s, rows, []string{path})
		if err != nil {
			return nil, err
		}
		out = append(out, df)
	}

	return out, nil
}

// place is a new path where the table keeps its files.
func (m *deleteMerge) place(name string) (string, error) {
	provider, err := m.tbl.LocationProvider()
	if err != nil {
		return "", fmt.Errorf("find a place for delete files: %w", err)
	}
	path := provider.NewDataLocation(uuid.NewString() + name)
	m.created = append(m.created, path)

	return path, nil
}

func (m *deleteMerge) writeVectors(ctx context.Context, s *deleteScope, rows reached, paths []string) ([]iceberg.DataFile, error) {
	w := dv.NewDVWriter(m.storage, func(int32) *iceberg.PartitionSpec { return &s.spec })
	partition := s.deletes[0].file.Partition()
	for _, path := range paths {
		if err := w.Add(path, rows[path], int32(s.spec.ID()), partition); err != nil {
			return nil, fmt.Errorf("add deletion vector of %s: %w", path, err)
		}
	}
	place, err := m.place("-deletes.puffin")
	if err != nil {
		return nil, err
	}
	vectors, err := w.Flush(ctx, place)
	if err != nil {
		return nil, fmt.Errorf("write deletion vectors %s: %w", place, err)
	}
	var out []iceberg.DataFile
	for _, v := range vectors {
		b, err := m.describe(s, place, iceberg.PuffinFile, v.Count(), v.FileSizeBytes())
		if err != nil {
			return nil, err
		}
		out = append(out, b.ReferencedDataFile(*v.ReferencedDataFile()).ContentOffset(*v.ContentOffset()).
			ContentSizeInBytes(*v.ContentSizeInBytes()).Build())
	}

	return out, nil
}

// describe begins a manifest entry for a delete file of the partition.
func (m *deleteMerge) describe(s *deleteScope, path string, format iceberg.FileFormat, count, size int64) (*iceberg.DataFileBuilder, error) {
	b, err := iceberg.NewDataFileBuilder(s.spec, iceberg.EntryContentPosDeletes, path, format, s.deletes[0].file.Partition(),
		avroTypes(s.spec, m.tbl.Schema()), nil, count, size)
	if err != nil {
		return nil, fmt.Errorf("describe delete file %s: %w", path, err)
	}

	return b, nil
}

// writeParquet writes one file for the data files, sorted by path and position
// as the specification asks.
func (m *deleteMerge) writeParquet(s *deleteScope, rows reached, paths []string) (iceberg.DataFile, error) {
	place, err := m.place("-deletes.parquet")
	if err != nil {
		return nil, err
	}
	raw, count, err := encodePositions(rows, paths)
	if err != nil {
		return nil, fmt.Errorf("encode position deletes %s: %w", place, err)
	}
	if err := m.storage.WriteFile(place, raw); err != nil {
		return nil, fmt.Errorf("write position deletes %s: %w", place, err)
	}
	b, err := m.describe(s, place, iceberg.ParquetFile, count, int64(len(raw)))
	if err != nil {
		return nil, err
	}
	if len(paths) == 1 {
		b.ReferencedDataFile(paths[0])
	}
	low, high := paths[0], paths[len(paths)-1]

	return b.ValueCounts(map[int]int64{filePathFieldID: count, posFieldID: count}).
		NullValueCounts(map[int]int64{filePathFieldID: 0, posFieldID: 0}).
		LowerBoundValues(map[int][]byte{filePathFieldID: []byte(low)}).
		UpperBoundValues(map[int][]byte{filePathFieldID: []byte(high)}).Build(), nil
}

func encodePositions(rows reached, paths []string) ([]byte, int64, error) {
	sc := table.PositionalDeleteArrowSchema
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(sc, &out, parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd)), pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, 0, fmt.Errorf("open writer: %w", err)
	}
	var count int64
	for _, path := range paths {
		for part := range slices.Chunk(rows[path], positionBatch) {
			if err := w.WriteBuffered(positionsOf(sc, path, part)); err != nil {
				return nil, 0, fmt.Errorf("write rows: %w", err)
			}
			count += int64(len(part))
		}
	}
	if err := w.Close(); err != nil {
		return nil, 0, fmt.Errorf("close writer: %w", err)
	}

	return out.Bytes(), count, nil
}

func positionsOf(sc *arrow.Schema, path string, at []int64) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	texts := b.Field(0).(*array.StringBuilder)
	for range at {
		texts.Append(path)
	}
	b.Field(1).(*array.Int64Builder).AppendValues(at, nil)

	return b.NewRecordBatch()
}
