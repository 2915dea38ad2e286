package splice

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/parquet"
	"golang.org/x/sync/errgroup"

	"compactor/pkg/rewrite/splice/bloom"
	"compactor/pkg/rewrite/splice/column"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/layout"
)

const (
	// formatVersion is that of a footer whose file may have version 2 pages.
	formatVersion = 2
	// writeBuffer is how much is handed to the output at once, in bytes.
	writeBuffer = 1 << 20
)

// Options configure a Writer.
type Options struct {
	Column column.Options
	// Workers is how many columns are built at once. Values below 1 mean 1.
	Workers int
	// CreatedBy names the program in the footer.
	CreatedBy string
	// Remake are the properties with which columns are encoded that had to be
	// decoded.
	Remake []parquet.WriterProperty
	// Bloom are the columns, by path, that get a Bloom filter, and BloomBytes bounds
	// its size in bytes.
	Bloom      map[string]bool
	BloomBytes int
	// TrimBytes is the compressed size of a chunk from which pages that lose no row
	// are moved when others do. Of a smaller chunk, all pages are decoded.
	TrimBytes int64
	// KeyValues are the file's own metadata.
	KeyValues []format.KeyValue
	// Tamper, when set, sees each chunk before it is written. It exists to inject
	// faults in tests.
	Tamper func(path []string, chunk *column.Built)
}

// Writer writes one Parquet file. It is not safe for concurrent use.
type Writer struct {
	out     *bufio.Writer
	off     int64
	opts    Options
	layout  *layout.Layout
	columns []layout.Column
	memory  []column.Memory // by column
	meta    format.FileMetaData
	indexes [][]*column.Built // by row group and column
	counts  column.Counts
	nans    nanLedger
}

// NewWriter begins a file whose columns are those of the layout. Every byte goes
// to w; closing it is left to the caller.
func NewWriter(w io.Writer, l *layout.Layout, o Options) (*Writer, error) {
	o.Workers = max(1, o.Workers)
	out := &Writer{
		out: bufio.NewWriterSize(w, writeBuffer), opts: o, layout: l, columns: l.Columns(),
		meta: format.FileMetaData{Version: formatVersion, Schema: l.Elements(), CreatedBy: o.CreatedBy, KeyValues: o.KeyValues},
	}
	out.memory = make([]column.Memory, len(out.columns))
	for range out.columns {
		out.meta.ColumnOrders = append(out.meta.ColumnOrders, true)
	}

	return out, out.write([]byte(magic))
}

// Written is how many bytes the file has so far.
func (w *Writer) Written() int64 { return w.off }

// Counts say what became of the pages so far.
func (w *Writer) Counts() column.Counts { return w.counts }

// RowGroup writes one row group with the rows of the units, in their order. The
// units have to be loaded. After an error, which is a refusal, says which input
// is damaged, or comes from the output, the file is of no use.
func (w *Writer) RowGroup(ctx context.Context, units []Unit) error {
	sources, err := w.sources(units)
	if err != nil {
		return err
	}
	built := make([]chan *column.Built, len(w.columns))
	for i := range built {
		built[i] = make(chan *column.Built, 1)
	}
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error {
		builders, ctx := errgroup.WithContext(ctx)
		builders.SetLimit(w.opts.Workers)
		for i := range w.columns {
			builders.Go(func() error {
				if err := context.Cause(ctx); err != nil {
					return err
				}
				b, err := w.build(i, units, sources)
				built[i] <- b

				return err
			})
		}

		return builders.Wait()
	})
	work.Go(func() error { return w.writeGroup(ctx, units, built) })

	return work.Wait() //nolint:wrapcheck // wrapped where it was made
}

// sources says for each unit what comes from where.
func (w *Writer) sources(units []Unit) ([][]layout.Origin, error) {
	out := make([][]layout.Origin, len(units))
	known := make(map[*layout.Layout][]layout.Origin)
	for i, u := range units {
		take, ok := known[u.File.Layout]
		if !ok {
			var err error
			if take, err = w.layout.Take(u.File.Layout); err != nil {
				return nil, err //nolint:wrapcheck // says what it is
			}
			known[u.File.Layout] = take
		}
		out[i] = take
	}

	return out, nil
}

func (w *Writer) build(i int, units []Unit, origins [][]layout.Origin) (*column.Built, error) {
	c := w.columns[i]
	sources := make([]column.Source, 0, len(units))
	parts := make([]int, len(units))
	for n, u := range units {
		of, err := u.sources(c, origins[n][i], &w.opts)
		if err != nil {
			return nil, fmt.Errorf("column %v: %w", c.Path, err)
		}
		sources = append(sources, of...)
		parts[n] = len(of)
	}
	b, err := column.Build(c.Leaf, sources, &w.memory[i], w.opts.Column)
	if err != nil {
		return nil, fmt.Errorf("column %v: %w", c.Path, err)
	}
	b.NaNs = ofUnits(b.NaNs, parts)
	if w.opts.Bloom[strings.Join(c.Path, ".")] {
		chunk := bloom.Chunk{Leaf: c.Leaf, Bytes: bytes.Join(b.Pieces, nil), Meta: chunkMeta(c, b, 0)}
		if b.Bloom, err = bloom.Filter(chunk, w.opts.Column.Pool, w.opts.BloomBytes); err != nil {
			return nil, fmt.Errorf("column %v: %w", c.Path, err)
		}
	}

	return b, nil
}

// writeGroup writes the columns in their order, each as soon as it is there.
func (w *Writer) writeGroup(ctx context.Context, units []Unit, built []chan *column.Built) error {
	g := format.RowGroup{FileOffset: w.off, Ordinal: int16(len(w.meta.RowGroups))}
	for _, u := range units {
		g.NumRows += u.Rows()
	}
	var group []*column.Built
	for i, c := range w.columns {
		var b *column.Built
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case b = <-built[i]:
		}
		if b == nil {
			return nil // its builder has the error
		}
		if w.opts.Tamper != nil {
			w.opts.Tamper(c.Path, b)
		}
		chunk, err := w.writeChunk(c, b)
		if err != nil {
			return err
		}
		g.Columns = append(g.Columns, chunk)
		g.TotalByteSize += b.Uncompressed
		g.TotalCompressed += b.Size
		w.counts.Add(b.Counts)
		b.Pieces = nil // the bytes are written; what is left goes to the indexes
		group = append(group, b)
	}
	w.countNaNs(units, group)
	for i, b := range group {
		if m := g.Columns[i].Meta; b.Bloom != nil {
			m.BloomOffset, m.BloomLength = w.off, int32(len(b.Bloom))
			if err := w.write(b.Bloom); err != nil {
				return err
			}
			b.Bloom = nil
		}
	}
	w.meta.RowGroups = append(w.meta.RowGroups, g)
	w.meta.NumRows += g.NumRows
	w.indexes = append(w.indexes, group)

	return nil
}

func (w *Writer) writeChunk(c layout.Column, b *column.Built) (format.ColumnChunk, error) {
	start := w.off
	if err := w.write(b.Pieces...); err != nil {
		return format.ColumnChunk{}, err
	}
	for i := range b.Locations {
		b.Locations[i].Offset += start
	}

	return format.ColumnChunk{Meta: chunkMeta(c, b, start)}, nil
}

// chunkMeta describes a chunk that begins at an offset.
func chunkMeta(c layout.Column, b *column.Built, start int64) *format.ColumnMetaData {
	m := &format.ColumnMetaData{
		Type: c.Leaf.Type, Encodings: b.Encodings, Path: c.Path, Codec: b.Codec, NumValues: b.Values,
		TotalUncompressed: b.Uncompressed, TotalCompressed: b.Size, DataPageOffset: start + b.DictionarySize,
		Statistics: b.Statistics, EncodingStats: b.EncodingStats,
	}
	if b.DictionarySize > 0 {
		m.DictionaryOffset = &start
	}

	return m
}

func (w *Writer) write(parts ...[]byte) error {
	for _, p := range parts {
		n, err := w.out.Write(p)
		w.off += int64(n)
		if err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}

	return nil
}

// Close writes the page indexes and the footer, which it returns serialized. The
// file has Written bytes then.
func (w *Writer) Close() ([]byte, error) {
	for i, group := range w.indexes {
		for c, b := range group {
			if b.Index != nil {
				raw := b.Index.Append(nil)
				chunk := &w.meta.RowGroups[i].Columns[c]
				chunk.ColumnIndexOffset, chunk.ColumnIndexLength = w.off, int32(len(raw))
				if err := w.write(raw); err != nil {
					return nil, err
				}
			}
		}
	}
	for i, group := range w.indexes {
		for c, b := range group {
			if b.Locations == nil {
				continue
			}
			raw := format.AppendOffsetIndex(nil, b.Locations)
			chunk := &w.meta.RowGroups[i].Columns[c]
			chunk.OffsetIndexOffset, chunk.OffsetIndexLength = w.off, int32(len(raw))
			if err := w.write(raw); err != nil {
				return nil, err
			}
		}
	}
	footer := w.meta.Append(nil)
	if err := w.write(footer, binary.LittleEndian.AppendUint32(nil, uint32(len(footer))), []byte(magic)); err != nil {
		return nil, err
	}
	if err := w.out.Flush(); err != nil {
		return nil, fmt.Errorf("write output: %w", err)
	}

	return footer, nil
}
