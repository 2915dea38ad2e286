package rewrite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
)

const (
	// pageRows is how many rows writers put into a page before they look at its
	// size, which makes pages of long values larger than they should be.
	pageRows = 1024
	// measureValues is how many values are decoded at once to be measured.
	measureValues = 16
	// offsetWidth is what a text takes in memory besides its bytes.
	offsetWidth = 8
)

// fileShape is what a footer says: what a file asks of memory when it is read,
// in bytes, as an upper bound for ordinary files, and which columns it lacks. File sizes cannot tell: a dictionary stands
// for any number of equal values.
type fileShape struct {
	decoded int64 // all rows
	width   int64 // an average row of the widest row group
	plain   int64 // an average row of the widest row group, equal values counted once
	chunk   int64 // the largest row group as stored
	pages   int64 // the pages held at once, decompressed
	encoded int64 // the largest row group, decompressed

	contents
}

// contents are the columns of a file that take more than iceberg-go to read.
type contents struct {
	constants []constant // columns that the file does not store
	instants  []instants // timestamps that it stores in another form
	prefixed  []int      // columns, among the leaves, in an encoding that has to be undone
}

// measure reads the footer and the dictionaries.
func measure(pf *file.Reader) (*fileShape, error) {
	s := &fileShape{}
	for i := range pf.NumRowGroups() {
		group := pf.RowGroup(i)
		rows := max(1, group.NumRows())
		var decoded, pages, stored, encoded int64
		for c := range group.NumColumns() {
			chunk, err := group.MetaData().ColumnChunk(c)
			if err != nil {
				return nil, fmt.Errorf("read metadata of column %d in row group %d: %w", c, i, err)
			}
			values, dictionary, err := measureColumn(group, c, chunk)
			if err != nil {
				return nil, fmt.Errorf("measure column %d in row group %d: %w", c, i, err)
			}
			size := chunk.TotalUncompressedSize()
			decoded += values
			pages += dictionary + min(size, max(pageBytes, pageRows*(size/max(1, chunk.NumValues()))))
			stored += chunk.TotalCompressedSize()
			encoded += size
		}
		s.decoded += decoded
		s.width = max(s.width, decoded/rows)
		s.plain = max(s.plain, encoded/rows)
		s.chunk = max(s.chunk, stored)
		s.pages = max(s.pages, pages)
		s.encoded = max(s.encoded, encoded)
	}

	return s, nil
}

// measureColumn bounds the decoded size of a column chunk, and tells the size
// of its dictionary.
func measureColumn(group *file.RowGroupReader, column int, chunk *metadata.ColumnChunkMetaData) (decoded, dictionary int64, err error) {
	values := chunk.NumValues()
	if chunk.Type() != parquet.Types.ByteArray {
		width := int64(leafWidth)
		if chunk.Type() == parquet.Types.FixedLenByteArray {
			width += int64(group.MetaData().Schema.Column(column).TypeLength())
		}

		return values * width, prefixedBytes(chunk.Type(), chunk.Encodings(), chunk.TotalCompressedSize()), nil
	}
	decoded = chunk.TotalUncompressedSize() + offsetWidth*values
	for _, encoding := range chunk.Encodings() {
		switch encoding {
		case parquet.Encodings.RLEDict, parquet.Encodings.PlainDict:
			longest, size, err := longestEntry(group, column)
			if err != nil {
				return 0, 0, err
			}

			return decoded + longest*values, size, nil
		case parquet.Encodings.DeltaByteArray:
			total, err := totalLength(group, column)

			return decoded + total, 0, err
		}
	}

	return decoded, 0, nil
}

// longestEntry looks through a dictionary, the first page of its column chunk.
func longestEntry(group *file.RowGroupReader, column int) (longest, size int64, err error) {
	pages, err := group.GetColumnPageReader(column)
	if err != nil {
		return 0, 0, fmt.Errorf("open dictionary: %w", err)
	}
	defer func() { err = errors.Join(err, pages.Close()) }()
	if !pages.Next() {
		return 0, 0, pageError(pages.Err())
	}
	page, ok := pages.Page().(*file.DictionaryPage)
	if !ok { // the writer named the encoding and did not use it
		return 0, 0, nil
	}
	raw := page.Data()
	size = int64(len(raw))
	for len(raw) >= 4 {
		length := int(binary.LittleEndian.Uint32(raw))
		longest = max(longest, int64(length))
		raw = raw[min(len(raw), 4+length):]
	}

	return longest, size, nil
}

// totalLength decodes a column whose values are stored as differences from one
// another, whose size nothing in the file tells.
func totalLength(group *file.RowGroupReader, column int) (int64, error) {
	reader, err := group.Column(column)
	if err != nil {
		return 0, fmt.Errorf("open column: %w", err)
	}
	texts, ok := reader.(*file.ByteArrayColumnChunkReader)
	if !ok {
		return 0, fmt.Errorf("open column: %T does not hold texts", reader)
	}
	var (
		total      int64
		values     [measureValues]parquet.ByteArray
		levels     [measureValues]int16
		repetition [measureValues]int16
	)
	for texts.HasNext() {
		rows, read, err := texts.ReadBatch(measureValues, values[:], levels[:], repetition[:])
		if err != nil {
			return 0, pageError(err)
		}
		if rows == 0 {
			return total, pageError(reader.Err())
		}
		for _, v := range values[:read] {
			total += int64(len(v))
		}
	}

	return total, pageError(reader.Err())
}

// pageError tells a page that is too large from one that is damaged.
func pageError(err error) error {
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return nil
	case strings.Contains(err.Error(), "page size"):
		return errors.Join(errLargePage, err)
	default:
		return fmt.Errorf("read page: %w", unreadable(err))
	}
}

// rowWidth is what a decoded row takes, by the footer where it was read.
func (f File) rowWidth(fixed int64) int64 {
	if f.shape != nil {
		return max(1, f.shape.width)
	}

	return max(1, fixed, expansion*f.Data.FileSizeBytes()/max(1, f.Data.Count()))
}

// wholeSize is what the whole file takes while it is decoded.
func (f File) wholeSize() int64 {
	if f.shape != nil {
		return f.shape.decoded + f.shape.encoded
	}

	return expansion * f.Data.FileSizeBytes()
}
