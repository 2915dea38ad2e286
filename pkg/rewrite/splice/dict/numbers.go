package dict

import (
	"hash/maphash"
	"math/bits"
)

// leastSlots is the size of the smallest table, a power of two.
const leastSlots = 1 << 10

// numbers finds the index of a number. It is a table with open addressing that
// is never more than half full; the built-in map takes twice the time, which is
// most of the time of merging dictionaries. The zero value is empty.
type numbers struct {
	slots []slot
	used  int
	seed  uint64
}

// slot is free when next is 0, and else holds an index less by one.
type slot struct {
	number uint64
	next   uint32
}

// place returns the index of a number, or notes the given one for it.
func (t *numbers) place(v uint64, index uint32) (at uint32, known bool) {
	if 2*t.used >= len(t.slots) {
		t.grow()
	}
	s := t.find(v)
	if s.next > 0 {
		return s.next - 1, true
	}
	*s = slot{number: v, next: index + 1}
	t.used++

	return index, false
}

// find returns the slot of a number, or the free one that it would have.
func (t *numbers) find(v uint64) *slot {
	const odd = 0x9e3779b97f4a7c15
	high, low := bits.Mul64(v^t.seed, odd)
	mask := uint64(len(t.slots) - 1)
	for i := high ^ low; ; i++ {
		if s := &t.slots[i&mask]; s.next == 0 || s.number == v {
			return s
		}
	}
}

func (t *numbers) reset() {
	clear(t.slots)
	t.used = 0
}

func (t *numbers) grow() {
	old := t.slots
	if old == nil {
		// A file must not be able to choose numbers that meet in one slot.
		t.seed = maphash.Bytes(maphash.MakeSeed(), nil)
	}
	t.slots = make([]slot, max(leastSlots, 2*len(old)))
	for _, s := range old {
		if s.next > 0 {
			*t.find(s.number) = s
		}
	}
}
