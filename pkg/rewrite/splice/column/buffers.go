package column

import "sync"

// Buffers lends memory to one chunk after the other. The zero value is ready. It
// is safe for concurrent use.
type Buffers struct{ pool sync.Pool }

// buffers are what a chunk needs while it is built and not after.
type buffers struct {
	pending pending
	buf     []byte // decompressed page
	scratch []byte // compressed page
	indices []uint32
}

func (b *Buffers) lend() buffers {
	if b == nil {
		return buffers{}
	}
	if used, ok := b.pool.Get().(*buffers); ok {
		return *used
	}

	return buffers{}
}

func (b *Buffers) giveBack(used buffers) {
	if b != nil {
		used.pending.reset()
		b.pool.Put(&used)
	}
}
