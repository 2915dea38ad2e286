package splice

import (
	"bytes"
	"testing"

	"github.com/apache/iceberg-go"

	"compactor/pkg/rewrite/rewritetest"
	"compactor/pkg/rewrite/splice/layout"
)

// fuzzSchema is small, so that a run takes little time.
func fuzzSchema() *iceberg.Schema {
	return iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "s", Type: iceberg.PrimitiveTypes.String},
		iceberg.NestedField{ID: 3, Name: "l", Type: &iceberg.ListType{ElementID: 4, Element: iceberg.PrimitiveTypes.Float64}},
		iceberg.NestedField{ID: 5, Name: "b", Type: iceberg.PrimitiveTypes.Bool},
	)
}

// FuzzFile joins a damaged file with itself. Whatever it holds, there is an
// error or a file with twice the rows, and neither a panic nor a large
// allocation.
func FuzzFile(f *testing.F) {
	sc := fuzzSchema()
	seed(f, sc)
	f.Fuzz(func(t *testing.T, raw []byte, small bool) {
		in, err := OpenFile(bytes.NewReader(raw), int64(len(raw)), &layout.Finder{Schema: sc})
		if err != nil || in.Footer.NumRows > 1<<16 {
			return
		}
		o := columnOptions()
		if !small {
			o.SmallPage = 0
		}
		// Bounds of floats are only believed of known writers.
		out, _, err := join(sc, Options{Column: o, CreatedBy: "compactor"}, raw, raw)
		if err != nil {
			return
		}
		got, err := OpenFile(bytes.NewReader(out), int64(len(out)), &layout.Finder{Schema: sc})
		if err != nil {
			t.Fatalf("the output: %v", err)
		}
		if got.Footer.NumRows != 2*in.Footer.NumRows {
			t.Fatalf("%d rows became %d", 2*in.Footer.NumRows, got.Footer.NumRows)
		}
		if _, _, err := join(sc, Options{Column: o}, out); err != nil {
			t.Fatalf("the output's pages: %v", err)
		}
	})
}

// seed adds small files of all kinds.
func seed(f *testing.F, sc *iceberg.Schema) {
	f.Helper()
	for i, cell := range rewritetest.Covering() {
		rec, err := rewritetest.CorpusBatch(sc, cell.Nulls, 3+i%20, uint64(i))
		if err != nil {
			f.Fatal(err)
		}
		raw, err := rewritetest.WriteCell(cell, rec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, i%2 == 0)
	}
}

// FuzzDecoded is FuzzFile for columns that are decoded: rows are left out, or
// the table has columns that the file does not have.
func FuzzDecoded(f *testing.F) {
	sc := fuzzSchema()
	more := iceberg.NewSchema(0, append(sc.Fields(),
		iceberg.NestedField{ID: 6, Name: "more", Type: iceberg.PrimitiveTypes.Int64, InitialDefault: int64(7)})...)
	seed(f, sc)
	f.Fuzz(func(t *testing.T, raw []byte, without bool) {
		in, err := OpenFile(bytes.NewReader(raw), int64(len(raw)), &layout.Finder{Schema: more})
		if err != nil || in.Footer.NumRows > 1<<16 {
			return
		}
		var units []Unit
		var rows int64
		for _, u := range in.Units() {
			if u, err = u.Load(); err != nil {
				return
			}
			if without {
				u = u.Without(func(pos int64) bool { return pos%3 == 1 })
			}
			if rows += u.Rows(); u.Rows() > 0 {
				units = append(units, u)
			}
		}
		if len(units) == 0 {
			return
		}
		var out bytes.Buffer
		w, err := NewWriter(&out, in.Layout, Options{Column: columnOptions()})
		if err != nil {
			t.Fatal(err)
		}
		if w.RowGroup(t.Context(), units) != nil {
			return
		}
		if _, err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()), &layout.Finder{Schema: more})
		if err != nil {
			t.Fatalf("the output: %v", err)
		}
		if got.Footer.NumRows != rows {
			t.Fatalf("%d rows became %d", rows, got.Footer.NumRows)
		}
	})
}
