package rowsort

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// keys are the keys of a batch's rows, one after the other.
type keys struct {
	arena []byte
	ends  []int
}

// keysOf makes the keys of a batch.
func (o Order) keysOf(rec arrow.RecordBatch) (keys, error) {
	encoders := make([]encoder, 0, len(o.Keys))
	for _, k := range o.Keys {
		enc, err := k.encoder(rec)
		if err != nil {
			return keys{}, err
		}
		encoders = append(encoders, enc)
	}
	out := keys{ends: make([]int, rec.NumRows())}
	for row := range out.ends {
		for _, encode := range encoders {
			out.arena = encode(out.arena, row)
		}
		out.ends[row] = len(out.arena)
	}

	return out, nil
}

func (k keys) at(row int) []byte {
	start := 0
	if row > 0 {
		start = k.ends[row-1]
	}

	return k.arena[start:k.ends[row]]
}

// size is what the keys take in memory.
func (k keys) size() int64 { return int64(cap(k.arena)) + 8*int64(cap(k.ends)) }

// prefix are the first bytes of a key as a number, which decides most
// comparisons.
func prefix(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var padded [8]byte
	copy(padded[:], key)

	return binary.BigEndian.Uint64(padded[:])
}

// sorted returns the rows in order. Rows with equal keys keep their order.
func (k keys) sorted() []int32 {
	type row struct {
		prefix uint64
		index  int32
	}
	rows := make([]row, len(k.ends))
	for i := range rows {
		rows[i] = row{prefix(k.at(i)), int32(i)}
	}
	slices.SortFunc(rows, func(a, b row) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}

		return cmp.Or(bytes.Compare(k.at(int(a.index)), k.at(int(b.index))), cmp.Compare(a.index, b.index))
	})
	out := make([]int32, len(rows))
	for i, r := range rows {
		out[i] = r.index
	}

	return out
}

// permuted are the keys in another order of rows.
func (k keys) permuted(rows []int32) keys {
	out := keys{arena: make([]byte, 0, len(k.arena)), ends: make([]int, len(rows))}
	for i, row := range rows {
		out.arena = append(out.arena, k.at(int(row))...)
		out.ends[i] = len(out.arena)
	}

	return out
}

// Checker sees whether batches come in an order. The zero value with an Order is
// ready. It is not safe for concurrent use.
type Checker struct {
	Order Order
	last  []byte
	rows  int64
}

// Check returns the number, from zero, of the first row that comes before the
// row ahead of it, or -1. It counts rows over all batches it has seen.
func (c *Checker) Check(rec arrow.RecordBatch) (int64, error) {
	k, err := c.Order.keysOf(rec)
	if err != nil {
		return -1, err
	}
	for row := range k.ends {
		key := k.at(row)
		before := c.last
		if row > 0 {
			before = k.at(row - 1)
		}
		if c.rows+int64(row) > 0 && bytes.Compare(before, key) > 0 {
			return c.rows + int64(row), nil
		}
	}
	if n := len(k.ends); n > 0 {
		c.last = append(c.last[:0], k.at(n-1)...)
		c.rows += int64(n)
	}

	return -1, nil
}
