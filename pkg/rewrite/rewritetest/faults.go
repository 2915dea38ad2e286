// Package rewritetest holds faults to inject between the reader and the writer
// of a rewrite, through rewrite.Options.BeforeWrite. Each hook does its damage
// once and passes every other batch through.
package rewritetest

import (
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// DropRow loses the last row of the first batch.
func DropRow() func(arrow.RecordBatch) arrow.RecordBatch {
	return once(func(rec arrow.RecordBatch) arrow.RecordBatch { return rec.NewSlice(0, rec.NumRows()-1) })
}

// RepeatRow writes the first row of the first batch twice and loses the last
// one, so that every count stays right.
func RepeatRow() func(arrow.RecordBatch) arrow.RecordBatch {
	return once(func(rec arrow.RecordBatch) arrow.RecordBatch {
		cols := make([]arrow.Array, rec.NumCols())
		for i, col := range rec.Columns() {
			cols[i] = concat(array.NewSlice(col, 0, 1), array.NewSlice(col, 0, rec.NumRows()-1))
		}

		return batch(rec, cols)
	})
}

// SwapHalves exchanges the two halves of one column, as if two of its pages had
// been written in the wrong order. Every value of the column is still there.
func SwapHalves(column int) func(arrow.RecordBatch) arrow.RecordBatch {
	return once(func(rec arrow.RecordBatch) arrow.RecordBatch {
		half := rec.NumRows() / 2
		cols := make([]arrow.Array, rec.NumCols())
		for i, col := range rec.Columns() {
			if i == column {
				cols[i] = concat(array.NewSlice(col, half, rec.NumRows()), array.NewSlice(col, 0, half))
			} else {
				col.Retain()
				cols[i] = col
			}
		}

		return batch(rec, cols)
	})
}

// once applies do to the first batch of at least two rows.
func once(do func(arrow.RecordBatch) arrow.RecordBatch) func(arrow.RecordBatch) arrow.RecordBatch {
	var done atomic.Bool

	return func(rec arrow.RecordBatch) arrow.RecordBatch {
		if rec.NumRows() < 2 || done.Swap(true) {
			return rec
		}
		defer rec.Release()

		return do(rec)
	}
}

// batch makes a record of columns it takes over.
func batch(like arrow.RecordBatch, cols []arrow.Array) arrow.RecordBatch {
	out := array.NewRecordBatch(like.Schema(), cols, int64(cols[0].Len()))
	for _, col := range cols {
		col.Release()
	}

	return out
}
