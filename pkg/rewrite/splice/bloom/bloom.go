// Package bloom makes the Bloom filter of a finished column chunk (BloomFilter.md
// of the Parquet format: split blocks, xxHash of the PLAIN value without its
// length, no compression).
//
// A chunk whose pages all have indices is not decoded: its dictionary has every
// value. It may have values that no row has, which a filter may contain too.
package bloom

import (
	"bytes"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/metadata"

	"compactor/pkg/rewrite/splice/codec"
	"compactor/pkg/rewrite/splice/dict"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/remake"
)

// falsePositives is the share of values that are not there and seem to be.
const falsePositives = 0.01

// Chunk is a finished column chunk.
type Chunk struct {
	Leaf  page.Leaf
	Bytes []byte
	Meta  *format.ColumnMetaData
}

// Filter returns the serialized filter, header and bits, of at most so many bytes
// of bits. A column of booleans has none: the result is nil.
func Filter(c Chunk, pool *codec.Pool, maxBytes int) ([]byte, error) {
	if c.Leaf.Type == format.Boolean {
		return nil, nil
	}
	d, err := c.dictionary(pool)
	if err != nil {
		return nil, fmt.Errorf("hash values: %w", err)
	}
	values := c.Meta.NumValues
	if d != nil {
		values = int64(d.Count)
	}
	distinct := uint32(min(max(1, values), math.MaxUint32))
	filter := metadata.NewBloomFilterFromNDVAndFPP(distinct, falsePositives, int64(maxBytes), memory.DefaultAllocator)
	defer filter.Release()
	add := func(plain []byte) { filter.InsertHash(filter.Hasher().Sum64(plain)) }
	if d == nil {
		if err := remake.Values(c.Bytes, c.Meta, c.Leaf, add); err != nil {
			return nil, fmt.Errorf("hash values: %w", err)
		}
	} else {
		for i := range d.Count {
			add(withoutLength(d.At(uint32(i)), c.Leaf))
		}
	}
	out := bytes.NewBuffer(format.AppendBloomHeader(nil, int32(filter.Size())))
	if _, err := filter.WriteTo(out, nil); err != nil {
		return nil, fmt.Errorf("write filter: %w", err)
	}

	return out.Bytes(), nil
}

// dictionary is that of a chunk which has nothing but indices, else nil.
func (c Chunk) dictionary(pool *codec.Pool) (*dict.Dictionary, error) {
	chunk, err := page.Walk(c.Bytes, c.Meta, c.Leaf)
	if err != nil || chunk.Dictionary == nil {
		return nil, err //nolint:wrapcheck // says what it is
	}
	for i := range chunk.Pages {
		if !chunk.Pages[i].Encoding().Dictionary() {
			return nil, nil
		}
	}

	return dict.Parse(chunk.Dictionary, chunk.Codec, c.Leaf, pool, nil) //nolint:wrapcheck // says what it is
}

func withoutLength(plain []byte, leaf page.Leaf) []byte {
	const length = 4
	if leaf.Type == format.ByteArray {
		return plain[length:]
	}

	return plain
}
