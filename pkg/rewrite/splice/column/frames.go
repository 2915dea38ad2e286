package column

import (
	"fmt"
	"slices"

	"compactor/pkg/rewrite/splice/codec"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/stats"
)

const (
	// frameSample is how much is compressed anew to tell what that would save, in
	// bytes.
	frameSample = 512 << 10
	// framesStored is the size from which bodies did not shrink, in percent of what is
	// in them: readers copy them and are done.
	framesStored = 97
)

// compressed is the body of the values of a page, and their size in PLAIN form.
type compressed struct {
	body []byte
	size int
}

// framed is the compressed values of a page that may be put behind those of
// another without being decompressed. There are none where levels are compressed
// too, or the size does not tell that there are as many values as there should be.
func (b *builder) framed(s Source, p *page.Page) (c compressed, ok bool) {
	if b.leaf.Width() == 0 || b.leaf.MaxRep > 0 || p.Encoding() != format.Plain || !codec.Joins(b.out.Codec) || !b.keepsBytes(s) {
		return c, false
	}
	c = compressed{body: p.Body, size: int(p.Header.Uncompressed)}
	if b.leaf.MaxDef > 0 {
		if !p.V2() || !b.opts.V2 {
			return c, false
		}
		parts := p.PartsV2()
		c.body, c.size = parts.Values, c.size-len(parts.Def)
	}
	raw := p.V2() && p.Header.DataV2.Raw

	return c, !raw && c.size > 0 && codec.Whole(c.body, c.size)
}

// judgeFrames decides whether small pages are put together without decompressing
// them, by the pages in the middle: not where it makes the chunk much larger, as
// small bodies of data do that resemble each other.
func (b *builder) judgeFrames(sources []Source) error {
	if !b.small || b.opts.SmallFrame <= 0 {
		return nil
	}
	sample := b.sampleFrames(sources[len(sources)/2:])
	stored, size := 0, 0
	for _, c := range sample {
		stored += len(c.body)
		size += c.size
	}
	if size < b.opts.SmallFrame*len(sample) && stored*100 < size*framesStored || len(sample) == 0 {
		return nil
	}
	if yes, known := b.memory.frames.recall(); known {
		b.frames = yes

		return nil
	}
	plain := slices.Grow(b.pending.values[:0], size)
	for _, c := range sample {
		values, err := b.opts.Pool.Decode(b.out.Codec, b.buf, c.body, c.size)
		if err != nil {
			return err //nolint:wrapcheck // says what it is
		}
		b.buf = values
		plain = append(plain, values...)
	}
	b.pending.values = plain[:0]
	var err error
	if b.scratch, err = b.opts.Pool.Encode(b.out.Codec, b.scratch[:0], plain); err != nil {
		return err //nolint:wrapcheck // says what it is
	}
	b.frames = stored*100 <= len(b.scratch)*(100+b.opts.FrameExcess)
	b.memory.frames.keep(b.frames)

	return nil
}

// sampleFrames are the compressed values of the first pages that have such.
func (b *builder) sampleFrames(sources []Source) (sample []compressed) {
	size := 0
	for _, s := range sources {
		if s.Chunk == nil {
			continue
		}
		for n := range s.Chunk.Pages {
			c, ok := b.framed(s, &s.Chunk.Pages[n])
			if !ok || c.size > b.opts.PageBytes {
				continue
			}
			sample = append(sample, c)
			if size += c.size; size >= frameSample {
				return sample
			}
		}
	}

	return sample
}

// join puts the values of a small page behind those before.
func (b *builder) join(s Source, p *page.Page, summary stats.Summary) error {
	if b.frames {
		if c, ok := b.framed(s, p); ok {
			return b.append(p, c, summary)
		}
	}

	return b.coalesce(s, p, summary)
}

// append puts the compressed values of a page behind those before.
func (b *builder) append(p *page.Page, c compressed, summary stats.Summary) error {
	var parts page.Parts
	if p.V2() {
		parts = p.PartsV2()
	}
	present, err := b.take(p, parts, format.Plain)
	if err != nil {
		return err
	}
	if present*b.leaf.Width() != c.size {
		return fmt.Errorf("%w: %d values take %d bytes of %d", page.ErrCorrupt, present, present*b.leaf.Width(), c.size)
	}
	if err := b.seal(); err != nil {
		return err
	}
	pend := &b.pending
	pend.sealed = append(pend.sealed, c.body)
	pend.sealedBytes += c.size
	b.nans.missed = b.nans.missed || present > 0
	b.out.Counts.Coalesced++
	b.out.Counts.BytesVerbatim += int64(len(c.body))
	b.took(summary)

	return nil
}

// seal compresses the values that the pending page has so far, so that compressed
// ones may come behind them.
func (b *builder) seal() error {
	pend := &b.pending
	if len(pend.values) == 0 {
		return nil
	}
	body, err := b.encode(pend.values)
	if err != nil {
		return err
	}
	b.out.Counts.BytesMade += int64(len(body))
	pend.sealed = append(pend.sealed, body)
	pend.sealedBytes += len(pend.values)
	pend.values = pend.values[:0]

	return nil
}
