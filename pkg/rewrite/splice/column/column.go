// Package column builds one column chunk from the chunks of many row groups,
// moving pages instead of values.
//
// What becomes of a page, cheapest first:
//
//	verbatim   the bytes are moved as they are. Values may have any encoding.
//	           Pages of indices too, when the chunk's dictionary has the same
//	           indices in the merged one.
//	remap      the indices into the dictionary are rewritten for the merged
//	           dictionary; the values are not looked at.
//	promote    a dictionary whose values are all used once, in order, becomes a
//	           PLAIN page as it is, compressed body and all.
//	gather     the values are copied out of a dictionary that is not worth
//	           keeping.
//	coalesce   the values of small pages are put together undecoded: compressed
//	           as they are where the codec allows it and that takes little more
//	           room, or else compressed anew. Differences between integers are
//	           added up and taken anew.
//	transcode  the body is compressed anew, for a chunk has one codec.
//	null       pages of nulls are made for a column that a file does not have.
//
// Rules of the Parquet specification relied on: every data page has its own
// encoding and may be of either version (parquet.thrift, PageHeader); the bit
// width of indices is stored in the page (Encodings.md, Dictionary Encoding), so
// that a larger dictionary changes nothing for old pages; levels never refer to
// another page (README.md, Data Pages); a chunk has one dictionary page, its
// first; one codec holds for a chunk.
package column

import (
	"fmt"

	"compactor/pkg/rewrite/splice/codec"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/stats"
)

// Options are the same for all columns of a file.
type Options struct {
	Pool *codec.Pool
	// Buffers are optional.
	Buffers *Buffers
	// Codec is that of chunks none of whose inputs has pages, and of all chunks
	// when Recompress asks for it.
	Codec format.Codec
	// Recompress says which pages are compressed anew although they are moved.
	Recompress Recompression
	// V2 writes data pages of version 2 where a page is made anew.
	V2 bool
	// PageBytes is the size of a page made anew, uncompressed.
	PageBytes int
	// DictionaryBytes bounds a merged dictionary, uncompressed. A larger one is
	// given up, and its values are written PLAIN.
	DictionaryBytes int
	// SmallPage is the average size of pages, compressed, below which a column's
	// pages are put together.
	SmallPage int
	// SmallFrame is the average size of bodies, uncompressed, from which on they may
	// be put together without compressing them anew; 0 stands for never. Readers pay
	// for each. Bodies that did not shrink when they were compressed may be of any size.
	SmallFrame int
	// FrameExcess is how many percent larger than what is compressed anew they may be.
	FrameExcess int
}

// Recompression is which pages are compressed anew.
type Recompression int

const (
	// RecompressNone keeps the codec that most bytes of a chunk have.
	RecompressNone Recompression = iota
	// RecompressOther compresses pages of another codec than Options.Codec.
	RecompressOther
	// RecompressAll compresses every page, for a page does not tell its level.
	RecompressAll
)

// Source is a column chunk to be taken in, whole.
type Source struct {
	// Chunk is nil for a column that the file does not have.
	Chunk *page.Chunk
	Rows  int64
	// Summary is that of the whole chunk.
	Summary stats.Summary
	// Pages are the summaries of the data pages, as far as they are known.
	Pages []stats.Summary
	// Decoded says that the chunk is no input's own: it was made for the output.
	Decoded bool
	// Part says that it is some pages of a chunk, which begin with a row. The first
	// part has the summary of the chunk, the others have none.
	Part bool
	// Trimmed says that the pages of the part were made from decoded ones.
	// PagesTrimmed is how many were decoded for all parts; the first part has it.
	Trimmed      bool
	PagesTrimmed int64
	// NaNs are those of a chunk that was decoded.
	NaNs NaNs
}

// Counts say what became of the pages.
type Counts struct {
	Verbatim, Remapped, Promoted, Gathered, Coalesced, Transcoded int64 // input pages
	Decoded                                                       int64 // chunks that were made anew from decoded values
	Trimmed                                                       int64 // input pages of which rows were deleted, beside others of their chunk
	BytesVerbatim                                                 int64 // compressed bytes that were moved
	BytesMade                                                     int64 // compressed bytes that were made anew
}

// Add adds the other counts.
func (c *Counts) Add(o Counts) {
	c.Verbatim += o.Verbatim
	c.Remapped += o.Remapped
	c.Promoted += o.Promoted
	c.Gathered += o.Gathered
	c.Coalesced += o.Coalesced
	c.Transcoded += o.Transcoded
	c.Decoded += o.Decoded
	c.Trimmed += o.Trimmed
	c.BytesVerbatim += o.BytesVerbatim
	c.BytesMade += o.BytesMade
}

// Built is a finished chunk. Offsets are relative to its first byte.
type Built struct {
	// Pieces are the bytes, in order. Those of moved pages belong to the inputs.
	Pieces         [][]byte
	Size           int64
	Uncompressed   int64
	DictionarySize int64 // of the dictionary page, 0 without one
	Values         int64
	Codec          format.Codec
	Encodings      []format.Encoding
	EncodingStats  []format.PageEncodingStats
	Statistics     *format.Statistics
	// Locations are missing where a row goes on from one page to the next.
	Locations []format.PageLocation
	Index     *format.ColumnIndex // nil where the pages' bounds are not known
	Bloom     []byte              // the serialized Bloom filter, which the writer of the file adds
	NaNs      []NaNs              // by source
	Counts    Counts
}

// Build puts the sources together in their order. Nothing is written to the
// sources' memory. An error is a refusal or says that a source is damaged; the
// caller names the column. The memory is that of the column's chunks before. It is
// safe to run for several columns at once.
func Build(leaf page.Leaf, sources []Source, memory *Memory, o Options) (*Built, error) {
	b := &builder{leaf: leaf, opts: o, memory: memory, out: &Built{Codec: o.Codec}, buffers: o.Buffers.lend()}
	defer func() { o.Buffers.giveBack(b.buffers) }()
	if o.Recompress == RecompressNone {
		b.out.Codec = chunkCodec(sources, o.Codec)
	}
	b.small = averagePage(sources) < int64(o.SmallPage)
	if err := b.mergeDictionaries(sources); err != nil {
		return nil, err
	}
	if err := b.judgeFrames(sources); err != nil {
		return nil, err
	}
	for i, s := range sources {
		if err := b.add(i, s); err != nil {
			return nil, err
		}
	}
	if err := b.flush(); err != nil {
		return nil, err
	}

	return b.finish(sources)
}

// chunkCodec is the one with most bytes, so that least is compressed anew.
func chunkCodec(sources []Source, without format.Codec) format.Codec {
	bytes := make(map[format.Codec]int)
	best, most := without, 0
	for _, s := range sources {
		if s.Chunk == nil {
			continue
		}
		for i := range s.Chunk.Pages {
			bytes[s.Chunk.Codec] += len(s.Chunk.Pages[i].Raw)
		}
		if n := bytes[s.Chunk.Codec]; n > most {
			best, most = s.Chunk.Codec, n
		}
	}

	return best
}

func averagePage(sources []Source) int64 {
	var bytes, pages int64
	for _, s := range sources {
		if s.Chunk == nil {
			continue
		}
		for i := range s.Chunk.Pages {
			bytes += int64(len(s.Chunk.Pages[i].Raw))
			pages++
		}
	}

	return bytes / max(1, pages)
}

// finish adds up and makes sure that no row has gone.
func (b *builder) finish(sources []Source) (*Built, error) {
	var rows, values int64
	var summary stats.Summary
	for _, s := range sources {
		rows += s.Rows
		values += s.Rows
		if s.Chunk != nil {
			values -= s.Rows
			for i := range s.Chunk.Pages {
				values += int64(s.Chunk.Pages[i].Values())
			}
		}
		summary = stats.Merge(b.leaf, summary, s.Summary)
	}
	if b.rows != rows || b.out.Values != values {
		return nil, fmt.Errorf("%w: %d rows and %d values came out of %d and %d", page.ErrCorrupt, b.rows, b.out.Values, rows, values)
	}
	if b.leaf.MaxRep > 0 {
		summary.Nulls = b.nulls
	}
	if summary.Unknown {
		return nil, fmt.Errorf("%w: statistics were not measured", page.ErrCorrupt)
	}
	chunk, ok := summary.ForChunk(b.leaf)
	if !ok {
		return nil, errLongBound
	}
	b.out.Statistics = chunk
	if b.spans {
		b.out.Locations = nil
	} else {
		b.out.Index = stats.Index(b.leaf, b.summaries, b.pageValues)
	}
	b.out.Encodings, b.out.EncodingStats = b.encodings()

	return b.out, nil
}

// encodings lists what is used, levels included, in a fixed order.
func (b *builder) encodings() ([]format.Encoding, []format.PageEncodingStats) {
	var list []format.Encoding
	var counted []format.PageEncodingStats
	seen := make(map[format.Encoding]bool)
	note := func(e format.Encoding) {
		if !seen[e] {
			seen[e] = true
			list = append(list, e)
		}
	}
	for _, kind := range []format.PageType{format.DictionaryPage, format.DataPage, format.DataPageV2} {
		for e := format.Plain; e <= format.ByteStreamSplit; e++ {
			if n := b.encoded[pageKind{kind, e}]; n > 0 {
				counted = append(counted, format.PageEncodingStats{Type: kind, Encoding: e, Count: n})
				note(e)
			}
		}
	}
	note(format.RLE)

	return list, counted
}
