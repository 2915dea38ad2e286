package rewrite

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/table/dv"
)

// deletedRows are the positions that no longer count, by data file.
type deletedRows map[string]*bitset

// of is nil for a file that nothing was deleted from.
func (d deletedRows) of(path string) func(pos int64) bool {
	if m := d[path]; m != nil && m.set > 0 {
		return m.has
	}

	return nil
}

// readDeletedRows reads every delete file of a group once. The proof counts
// deleted rows in another way: by the counts in manifests, and by a reader of its
// own. It refuses equality deletes.
func readDeletedRows(storage iceio.IO, files []File) (deletedRows, error) {
	out := make(deletedRows)
	reach := make(map[string]map[string]*bitset) // delete file → the data files it applies to
	for _, f := range files {
		for _, d := range f.Deletes {
			path := f.Data.FilePath()
			if out[path] == nil {
				out[path] = newBitset(f.Data.Count())
			}
			if table.IsDeletionVector(d) {
				if err := markVector(storage, d, out[path]); err != nil {
					return nil, err
				}

				continue
			}
			if reach[d.FilePath()] == nil {
				reach[d.FilePath()] = make(map[string]*bitset)
			}
			reach[d.FilePath()][path] = out[path]
		}
	}
	for deletes, reached := range reach {
		if err := markPositions(storage, deletes, reached); err != nil {
			return nil, fmt.Errorf("read position deletes %s: %w", deletes, err)
		}
	}

	return out, nil
}

func markVector(storage iceio.IO, d iceberg.DataFile, gone *bitset) error {
	bitmap, err := dv.ReadDV(storage, d)
	if err != nil {
		return fmt.Errorf("read deletion vector %s: %w", d.FilePath(), err)
	}
	for pos := range gone.rows {
		if bitmap.Contains(uint64(pos)) {
			gone.mark(pos)
		}
	}

	return nil
}

// markPositions reads the two columns of a position-delete file side by side.
func markPositions(storage iceio.IO, path string, reached map[string]*bitset) (err error) {
	defer func() {
		// The Parquet library panics on damaged input.
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errUnreadable, p)
		}
	}()
	in, err := storage.Open(path)
	if err != nil {
		return err //nolint:wrapcheck // wrapped by the caller
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	pf, err := file.NewParquetReader(in)
	if err != nil {
		return err //nolint:wrapcheck // wrapped by the caller
	}
	columns := [2]int{pf.MetaData().Schema.ColumnIndexByName("file_path"), pf.MetaData().Schema.ColumnIndexByName("pos")}
	if columns[0] < 0 || columns[1] < 0 {
		return errors.New("columns file_path and pos: not in the file")
	}
	for g := range pf.NumRowGroups() {
		if err := markGroup(pf.RowGroup(g), columns, reached); err != nil {
			return err
		}
	}

	return nil
}

func markGroup(group *file.RowGroupReader, columns [2]int, reached map[string]*bitset) error {
	first, err := group.Column(columns[0])
	if err != nil {
		return err //nolint:wrapcheck // wrapped by the caller
	}
	second, err := group.Column(columns[1])
	if err != nil {
		return err //nolint:wrapcheck // wrapped by the caller
	}
	paths, isText := first.(*file.ByteArrayColumnChunkReader)
	at, isLong := second.(*file.Int64ColumnChunkReader)
	if !isText || !isLong {
		return fmt.Errorf("columns file_path and pos: unexpected types %s and %s", first.Type(), second.Type())
	}
	var texts [positionBatch / 16]parquet.ByteArray
	var positions [positionBatch / 16]int64
	var def [positionBatch / 16]int16
	for left := group.NumRows(); left > 0; {
		n := min(left, int64(len(texts)))
		gotTexts, err := readExactly(n, func(n int64, from int) (int64, int, error) {
			return paths.ReadBatch(n, texts[from:], def[from:], nil)
		})
		if err != nil {
			return errors.Join(err, first.Err())
		}
		gotPositions, err := readExactly(n, func(n int64, from int) (int64, int, error) {
			return at.ReadBatch(n, positions[from:], def[from:], nil)
		})
		if err != nil || gotTexts != gotPositions {
			return errors.Join(fmt.Errorf("%d paths for %d positions", gotTexts, gotPositions), err, second.Err())
		}
		for i := range gotTexts {
			if m := reached[string(texts[i])]; m != nil {
				m.mark(positions[i])
			}
		}
		left -= n
	}

	return nil
}

// readExactly reads n values, none of which may be null.
func readExactly(n int64, next func(n int64, from int) (total int64, got int, err error)) (int, error) {
	from := 0
	for int64(from) < n {
		total, got, err := next(n-int64(from), from)
		if err != nil {
			return from, err
		}
		if total == 0 || int64(got) != total {
			return from, fmt.Errorf("%d values of %d, some missing", got, total)
		}
		from += got
	}

	return from, nil
}
