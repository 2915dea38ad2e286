package layout

import (
	"reflect"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/refuse"
)

// Origin says how a column of an output comes out of a file.
type Origin struct {
	// Source is the leaf column to read, -1 for none.
	Source int
	// Leaf is the column in the form of the file's own layout.
	Leaf page.Leaf
	// Levels has the definition level of the output for each one of Leaf; nil
	// where they are the same.
	Levels []int16
	// Shape is that of Column.
	Shape *Shape
	// Converted says that values have to be brought into another form.
	Converted bool
	// Default is the PLAIN value of what is missing; nil for null.
	Default []byte
}

// Moved reports whether pages of the column can go into the output as they are.
func (o Origin) Moved() bool {
	return o.Source >= 0 && o.Levels == nil && o.Shape == nil && !o.Converted
}

// Take says how every column of the output comes out of another file. The error
// is a refusal: the file stores a field in a form that cannot be brought into
// that of the output.
func (l *Layout) Take(other *Layout) ([]Origin, error) {
	var out []Origin
	for i := range l.Fields {
		origins, err := l.Fields[i].take(&other.Fields[i])
		if err != nil {
			return nil, err
		}
		out = append(out, origins...)
	}

	return out, nil
}

func (f *Field) take(o *Field) ([]Origin, error) {
	differs := &refuse.Error{Rule: RuleDifferent, Detail: f.Elements[0].Name}
	alike := reflect.DeepEqual(f.Elements, o.Elements)
	if len(f.Elements) != len(o.Elements) || len(f.Columns) != len(o.Columns) {
		return nil, differs
	}
	var levels [][]int16
	if !alike {
		var ok bool
		if levels, ok = compare(f.Elements, o.Elements); !ok {
			return nil, differs
		}
	}
	out := make([]Origin, 0, len(f.Columns))
	for i, c := range o.Columns {
		to := f.Columns[i].Leaf
		origin := Origin{
			Source: c.Source, Leaf: c.Leaf, Shape: c.Shape,
			Converted: c.Stored != nil || c.Leaf.Type != to.Type || c.Leaf.TypeLength != to.TypeLength,
		}
		if !alike {
			origin.Levels = levels[i]
		}
		if c.defaulted {
			var err error
			if origin.Default, err = plain(c.field, to); err != nil {
				return nil, err
			}
		}
		out = append(out, origin)
	}

	return out, nil
}

// compare finds the levels of each leaf in the output for those in a file. It
// returns false when the two are no two forms of one field: a file may require
// what is optional in the output, and store a decimal in another way.
func compare(to, from []format.SchemaElement) ([][]int16, bool) {
	root := format.SchemaElement{NumChildren: 1}
	a, _, errA := tree(append([]format.SchemaElement{root}, to...))
	b, _, errB := tree(append([]format.SchemaElement{root}, from...))
	if errA != nil || errB != nil {
		return nil, false
	}
	var out [][]int16
	ok := compareNodes(a.children[0], b.children[0], []int16{0}, &out)

	return out, ok
}

// compareNodes walks both trees; levels are those of the parent.
func compareNodes(to, from *node, levels []int16, out *[][]int16) bool {
	a, b := *to.element, *from.element
	if to.leaf() != from.leaf() || len(to.children) != len(from.children) || to.id() != from.id() {
		return false
	}
	if to.leaf() && a.Logical.Kind == format.LogicalDecimal && b.Logical == a.Logical {
		b.Type, b.TypeLength = a.Type, a.TypeLength
	}
	rep, inFile := to.repetition(), from.repetition()
	switch {
	case rep == inFile:
		if rep != format.Required {
			levels = append(levels[:len(levels):len(levels)], levels[len(levels)-1]+1)
		}
	case rep == format.Optional && inFile == format.Required:
		// What is required is there whenever what is around it is.
		levels = append(levels[:len(levels)-1:len(levels)-1], levels[len(levels)-1]+1)
		b.Repetition = a.Repetition
	default:
		return false
	}
	if !reflect.DeepEqual(a, b) {
		return false
	}
	if to.leaf() {
		if len(levels) == to.def+1 && levels[to.def] == int16(to.def) {
			levels = nil // nothing changes
		}
		*out = append(*out, levels)

		return true
	}
	for i := range to.children {
		if !compareNodes(to.children[i], from.children[i], levels, out) {
			return false
		}
	}

	return true
}
