package column

import (
	"compactor/pkg/rewrite/splice/dict"
	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/stats"
)

// NaNs is what is known of the NaNs of a source. It means nothing for columns that
// are not of floating-point numbers, or in lists.
type NaNs struct {
	// Kept are those that come out, where Counted says that all were counted.
	Kept    int64
	Counted bool
	// Dropped are those of the rows that were left out.
	Dropped int64
	// Values are those that come out and are not null.
	Values int64
}

// nanCount counts the NaNs of one source in passing: where pages are put together
// the values are at hand anyway. A page that is moved is not searched.
type nanCount struct {
	kept   int64
	missed bool // there are values that were not looked at
}

func (b *builder) floats() bool { return b.leaf.Type == format.Float || b.leaf.Type == format.Double }

// noteNaNs records what is known of the source that was taken in last.
func (b *builder) noteNaNs(s Source) {
	known := s.NaNs
	known.Values = s.Rows - s.Summary.Nulls
	if !known.Counted && b.floats() && !b.nans.missed {
		known.Kept, known.Counted = b.nans.kept, true
	}
	b.out.NaNs = append(b.out.NaNs, known)
	b.nans = nanCount{}
}

// sawPlain counts in values that are put out.
func (b *builder) sawPlain(values []byte) {
	b.nans.kept += stats.NaNs(b.leaf, values)
}

// mostNaNForms is how many different NaNs of a dictionary are looked for.
const mostNaNForms = 8

// sawIndices counts in indices into the merged dictionary.
func (b *builder) sawIndices(indices []uint32) {
	if len(b.nanIndices) > mostNaNForms {
		b.nans.missed = true

		return
	}
	for _, nan := range b.nanIndices {
		for _, i := range indices {
			if i == nan {
				b.nans.kept++
			}
		}
	}
}

// findNaNs finds the indices of NaNs in the merged dictionary.
func (b *builder) findNaNs(merged *dict.Merged) {
	if stats.NaNs(b.leaf, merged.Plain) == 0 {
		return
	}
	width := b.leaf.Width()
	for i := range merged.Count {
		if stats.NaNs(b.leaf, merged.Plain[i*width:(i+1)*width]) > 0 {
			b.nanIndices = append(b.nanIndices, uint32(i))
		}
	}
}
