package column

import (
	"compactor/pkg/rewrite/splice/codec"
	"compactor/pkg/rewrite/splice/dict"
)

// Buffers lends memory to one chunk after the other. The zero value is ready. It
// is safe for concurrent use.
type Buffers struct{ shelf codec.Shelf[buffers] }

// buffers are what a chunk needs while it is built and not after.
type buffers struct {
	pending    pending
	buf        []byte // decompressed page
	dictionary []byte // decompressed dictionary
	packed     []byte // page of indices
	scratch    []byte // compressed page
	indices    []uint32
	union      dict.Merged
}

func (b *Buffers) lend() buffers {
	if b == nil {
		return buffers{}
	}
	used, _ := b.shelf.Take()

	return used
}

func (b *Buffers) giveBack(used buffers) {
	if b != nil {
		used.pending.reset()
		used.union.Reset()
		b.shelf.Put(used)
	}
}
