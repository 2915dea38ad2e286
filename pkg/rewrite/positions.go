package rewrite

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	iceio "github.com/apache/iceberg-go/io"
)

// positionBatch is how many positions are decoded at once.
const positionBatch = 32 << 10

// readPositions hands every (file_path, pos) of a position-delete file to see.
// It is a reader of its own, so that the proof does not rest on the reader that
// applied the deletes.
func readPositions(ctx context.Context, storage iceio.IO, path string, see func(path string, pos int64)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read position deletes %s: %w", path, err)
		}
	}()
	f, err := storage.Open(path)
	if err != nil {
		return err //nolint:wrapcheck // wrapped with the path above
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	pf, err := file.NewParquetReader(f)
	if err != nil {
		return err //nolint:wrapcheck // wrapped with the path above
	}
	schema := pf.MetaData().Schema
	columns := []int{schema.ColumnIndexByName("file_path"), schema.ColumnIndexByName("pos")}
	if columns[0] < 0 || columns[1] < 0 {
		return errors.New("columns file_path and pos: not in the file")
	}
	fr, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{BatchSize: positionBatch}, memory.DefaultAllocator)
	if err != nil {
		return err //nolint:wrapcheck // wrapped with the path above
	}
	batches, err := fr.GetRecordReader(ctx, columns, nil)
	if err != nil {
		return err //nolint:wrapcheck // wrapped with the path above
	}
	defer batches.Release()
	for batches.Next() {
		if err := seePositions(batches.RecordBatch(), see); err != nil {
			return err
		}
	}

	return batches.Err() //nolint:wrapcheck // wrapped with the path above
}

func seePositions(rec arrow.RecordBatch, see func(string, int64)) error {
	var (
		paths func(int) string
		at    *array.Int64
	)
	for i, col := range rec.Columns() {
		if rec.ColumnName(i) == "file_path" {
			paths = textsOf(col)
		} else if ints, ok := col.(*array.Int64); ok {
			at = ints
		}
	}
	if paths == nil || at == nil {
		return fmt.Errorf("columns file_path and pos: unexpected types %s", rec.Schema())
	}
	for row := range int(rec.NumRows()) {
		see(paths(row), at.Value(row))
	}

	return nil
}

func textsOf(col arrow.Array) func(int) string {
	switch a := col.(type) {
	case array.StringLike:
		return a.Value
	case *array.Dictionary:
		if values, ok := a.Dictionary().(array.StringLike); ok {
			return func(row int) string { return values.Value(a.GetValueIndex(row)) }
		}
	}

	return nil
}

// bitset remembers which rows of one file are deleted.
type bitset struct {
	words []uint64
	rows  int64
	set   int64
}

func newBitset(rows int64) *bitset { return &bitset{words: make([]uint64, (rows+63)/64), rows: rows} }

// mark counts a position once, and not at all when the file has no such row.
func (b *bitset) mark(pos int64) {
	if pos < 0 || pos >= b.rows || b.has(pos) {
		return
	}
	b.words[pos/64] |= 1 << (pos % 64)
	b.set++
}

func (b *bitset) has(pos int64) bool { return b.words[pos/64]&(1<<(pos%64)) != 0 }
