package rewrite

import (
	"errors"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
)

// errNaNForms means that a group has to be written anew, without dictionaries of
// floating-point numbers.
var errNaNForms = errors.New("not-a-numbers of several forms in one column")

// nanForms sees whether a column, or one inside of it, has NaNs that differ in
// their sign or in the bits that do not matter. arrow-go (v18.8.0) takes all of
// them for one when it makes a dictionary, and gives back the first. But their
// sign decides about their place in an Iceberg sort order, and the proof compares
// bits.
type nanForms struct {
	first    uint64
	children []nanForms
}

// several looks at the next values and reports whether a second form is there.
func (n *nanForms) several(values arrow.Array) bool {
	switch a := values.(type) {
	case *array.Float32:
		for row, v := range a.Values() {
			if math.IsNaN(float64(v)) && a.IsValid(row) && n.other(uint64(math.Float32bits(v))) {
				return true
			}
		}
	case *array.Float64:
		for row, v := range a.Values() {
			if math.IsNaN(v) && a.IsValid(row) && n.other(math.Float64bits(v)) {
				return true
			}
		}
	case *array.Struct:
		for i := range a.NumField() {
			if n.child(i).several(a.Field(i)) {
				return true
			}
		}
	case array.ListLike:
		if a.Len() == 0 {
			return false
		}
		start, _ := a.ValueOffsets(0)
		_, end := a.ValueOffsets(a.Len() - 1)
		some := array.NewSlice(a.ListValues(), start, end)
		defer some.Release()

		return n.child(0).several(some)
	}

	return false
}

func (n *nanForms) other(bits uint64) bool {
	if n.first == 0 { // the bits of no NaN
		n.first = bits
	}

	return bits != n.first
}

func (n *nanForms) child(i int) *nanForms {
	for len(n.children) <= i {
		n.children = append(n.children, nanForms{})
	}

	return &n.children[i]
}

// watched gives up dictionaries of floating-point numbers when the rows that come
// in need that. Once something is written it ends with errNaNForms instead.
func (g *groupRun) watched(in batches) batches {
	if g.plainFloats {
		return in
	}

	return func(yield func(arrow.RecordBatch, error) bool) {
		var forms nanForms
		for rec, err := range in {
			for i := 0; err == nil && !g.plainFloats && i < int(rec.NumCols()); i++ {
				if !forms.child(i).several(rec.Column(i)) {
					continue
				}
				if g.plainFloats = true; g.rows > 0 {
					err = errNaNForms
				} else {
					g.out, err = writerTable(g.tbl, g.fs, true)
				}
			}
			if err != nil && rec != nil {
				rec.Release()
				rec = nil
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// withoutFloatDictionaries names the columns by all names that they may have in
// properties.
func withoutFloatDictionaries(sc *iceberg.Schema, leaves map[int]leafColumn, out iceberg.Properties) {
	for id, leaf := range leaves {
		kind, found := sc.FindTypeByID(id)
		if !found {
			continue
		}
		switch kind.(type) {
		case iceberg.Float32Type, iceberg.Float64Type:
			name, _ := sc.FindColumnName(id)
			out[dictColumnPrefix+name] = "false"
			out[dictColumnPrefix+leaf.path] = "false"
		}
	}
}
