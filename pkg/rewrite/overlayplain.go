package rewrite

import (
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"compactor/pkg/rewrite/splice/codec"
	"compactor/pkg/rewrite/splice/delta"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/stats"
)

// plainer writes chunks of values of a fixed length anew, with PLAIN pages where
// pages were in DELTA_BYTE_ARRAY. Levels, dictionaries and other pages stay.
type plainer struct {
	in      io.ReaderAt
	end     int64 // the size of the file
	to      io.WriteSeeker
	at      int64 // where the next byte lands
	leaf    page.Leaf
	pool    *codec.Pool
	strings delta.Strings
	buffer  []byte
}

// plainColumns writes the columns of all row groups behind what is there, and
// makes the footer point at them.
func plainColumns(p *plainer, footer *format.FileMetaData, columns []int, sc *schema.Schema) error {
	for _, i := range columns {
		c := sc.Column(i)
		p.leaf = page.Leaf{
			Type: format.FixedLenByteArray, TypeLength: c.TypeLength(),
			MaxDef: int(c.MaxDefinitionLevel()), MaxRep: int(c.MaxRepetitionLevel()),
		}
		for g := range footer.RowGroups {
			group := &footer.RowGroups[g]
			if i >= len(group.Columns) || group.Columns[i].Meta == nil || group.Columns[i].Meta.Type != format.FixedLenByteArray {
				return fmt.Errorf("%w: row group %d has no column %s of values of a fixed length", errUnreadable, g, c.Path())
			}
			made, err := p.chunk(group.Columns[i].Meta)
			if err != nil {
				return fmt.Errorf("row group %d: column %s: %w", g, c.Path(), err)
			}
			group.Columns[i] = format.ColumnChunk{Meta: made}
		}
	}

	return nil
}

// chunk writes one chunk and returns its metadata.
func (p *plainer) chunk(meta *format.ColumnMetaData) (*format.ColumnMetaData, error) {
	start := meta.Start()
	if start < 0 || meta.TotalCompressed < 0 || start > p.end-meta.TotalCompressed || !codec.Known(meta.Codec) {
		return nil, fmt.Errorf("%w: chunk of %d bytes at %d, codec %d", errUnreadable, meta.TotalCompressed, start, meta.Codec)
	}
	raw := make([]byte, meta.TotalCompressed)
	if _, err := p.in.ReadAt(raw, start); err != nil {
		return nil, fmt.Errorf("read pages: %w", err)
	}
	chunk, err := page.Walk(raw, meta, p.leaf)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	p.pool = codec.New(meta.Codec, compress.DefaultCompressionLevel)
	made := *meta
	made.Statistics, made.EncodingStats = nil, nil
	made.Encodings = []format.Encoding{format.Plain, format.RLE, format.RLEDictionary}
	made.TotalCompressed, made.TotalUncompressed = 0, 0
	if made.DictionaryOffset = nil; chunk.Dictionary != nil {
		at := p.at
		made.DictionaryOffset = &at
		if err := p.put(&made, chunk.Dictionary.Raw, chunk.Dictionary.Header); err != nil {
			return nil, err
		}
	}
	made.DataPageOffset = p.at
	for i := range chunk.Pages {
		one := &chunk.Pages[i]
		written, header := one.Raw, one.Header
		if one.Encoding() == format.DeltaByteArray {
			if written, header, err = p.page(one, chunk.Codec); err != nil {
				return nil, fmt.Errorf("%w: page %d: %w", errUnreadable, i, err)
			}
		}
		if err := p.put(&made, written, header); err != nil {
			return nil, err
		}
	}

	return &made, nil
}

// put writes a page and counts it.
func (p *plainer) put(made *format.ColumnMetaData, written []byte, header *format.PageHeader) error {
	if _, err := p.to.Write(written); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	p.at += int64(len(written))
	made.TotalCompressed += int64(len(written))
	made.TotalUncompressed += int64(len(written)) - int64(header.Compressed) + int64(header.Uncompressed)

	return nil
}

// page is a page with its values in PLAIN encoding, without statistics and
// checksum. One of version 2 is not compressed.
func (p *plainer) page(old *page.Page, c format.Codec) ([]byte, *format.PageHeader, error) {
	parts, buffer, err := page.Split(old, c, p.leaf, p.pool, p.buffer)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // wrapped by the caller
	}
	p.buffer = buffer
	values, err := page.Present(old, parts.Def, p.leaf)
	if err != nil {
		return nil, nil, fmt.Errorf("definition levels: %w", err)
	}
	p.strings.Reset()
	if err := p.strings.AppendPrefixed(parts.Values, values, p.leaf.TypeLength); err != nil {
		return nil, nil, err //nolint:wrapcheck // wrapped by the caller
	}
	header := *old.Header
	header.CRC = nil
	var body []byte
	if old.V2() {
		data := *old.Header.DataV2
		data.Encoding, data.Raw, data.Statistics = format.Plain, true, nil
		header.DataV2 = &data
		body = p.strings.AppendFixed(slices.Concat(parts.Rep, parts.Def))
		header.Uncompressed = int32(len(body))
	} else {
		data := *old.Header.Data
		data.Encoding, data.Statistics = format.Plain, nil
		header.Data = &data
		plain := p.strings.AppendFixed(page.AppendLevels(nil, parts, p.leaf))
		header.Uncompressed = int32(len(plain))
		if body, err = p.pool.Encode(c, nil, plain); err != nil {
			return nil, nil, err //nolint:wrapcheck // wrapped by the caller
		}
	}
	header.Compressed = int32(len(body))

	return append(header.Append(nil), body...), &header, nil
}

// prefixedBytes is what a column takes while it is made plain.
func prefixedBytes(types parquet.Type, encodings []parquet.Encoding, stored int64) int64 {
	if slices.ContainsFunc(encodings, func(e parquet.Encoding) bool { return stats.Prefixed(types, e) }) {
		return stored
	}

	return 0
}
