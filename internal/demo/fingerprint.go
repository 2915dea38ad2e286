package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go/table"
	"github.com/zeebo/xxh3"
)

// Fingerprint identifies the rows of a table, whatever their order and files:
// the 128-bit hashes of all rows, added up.
type Fingerprint struct {
	Rows   int64
	Hi, Lo uint64
}

func (f Fingerprint) String() string {
	return fmt.Sprintf("%d rows, sum %016x%016x", f.Rows, f.Hi, f.Lo)
}

// Take reads every row of the current snapshot.
func Take(ctx context.Context, tbl *table.Table) (Fingerprint, error) {
	_, batches, err := tbl.Scan().ToArrowRecords(ctx)
	if err != nil {
		return Fingerprint{}, fmt.Errorf("scan %v: %w", tbl.Identifier(), err)
	}
	var f Fingerprint
	for rec, err := range batches {
		if err != nil {
			return Fingerprint{}, fmt.Errorf("scan %v: %w", tbl.Identifier(), err)
		}
		for i := range int(rec.NumRows()) {
			f.add(rowText(rec, i))
		}
		rec.Release()
	}

	return f, nil
}

// rowText writes the values of a row so that no two rows share a text: each
// value is preceded by its length, a null by a dash.
func rowText(rec arrow.RecordBatch, i int) string {
	var b strings.Builder
	for c := range int(rec.NumCols()) {
		col := rec.Column(c)
		if col.IsNull(i) {
			b.WriteString("-;")

			continue
		}
		v := col.ValueStr(i)
		fmt.Fprintf(&b, "%d:%s;", len(v), v)
	}

	return b.String()
}

func (f *Fingerprint) add(row string) {
	h := xxh3.HashString128(row)
	f.Rows++
	before := f.Lo
	f.Lo += h.Lo
	f.Hi += h.Hi
	if f.Lo < before {
		f.Hi++
	}
}
