package layout

import (
	"fmt"
	"reflect"

	"github.com/apache/iceberg-go"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
	"compactor/pkg/rewrite/splice/refuse"
)

// Rules of refusal.
const (
	RuleType      refuse.Rule = "column of a type that is not known"
	RulePhysical  refuse.Rule = "column stored in another form than its type's"
	RuleNoIDs     refuse.Rule = "columns without field ids"
	RuleNested    refuse.Rule = "nested column added since"
	RuleDefault   refuse.Rule = "missing column with a default value"
	RuleRequired  refuse.Rule = "missing column that is required"
	RuleDifferent refuse.Rule = "files store a column in different forms"
)

// Column is a leaf of the table's schema.
type Column struct {
	ID   int
	Path []string // in the output
	Leaf page.Leaf
	// Source is the leaf column in the file, -1 when the file has none.
	Source int
}

// Field is a top-level field of the table.
type Field struct {
	ID int
	// Elements are the field's part of an output's schema, in preorder.
	Elements []format.SchemaElement
	Columns  []Column
	// Missing says that the file does not have the field. Elements then have the
	// form in which this program would write it.
	Missing bool
}

// Layout is how a file holds a table's fields, in the order of its schema.
type Layout struct{ Fields []Field }

// Of finds the fields of a schema in a file. The error is a refusal or wraps
// ErrCorrupt.
func Of(sc *iceberg.Schema, footer *format.FileMetaData) (*Layout, error) {
	root, leaves, err := tree(footer.Schema)
	if err != nil {
		return nil, err
	}
	for i := range footer.RowGroups {
		if n := len(footer.RowGroups[i].Columns); n != leaves {
			return nil, fmt.Errorf("%w: %d columns in a row group, %d in the schema", ErrCorrupt, n, leaves)
		}
	}
	seen := make(map[int]bool)
	for _, n := range root.children {
		if n.id() < 0 || seen[n.id()] {
			return nil, &refuse.Error{Rule: RuleNoIDs, Detail: n.element.Name}
		}
		seen[n.id()] = true
	}
	l := &Layout{}
	for _, f := range sc.Fields() {
		field := Field{ID: f.ID}
		n := root.child(f.ID)
		e := &emitter{field: &field}
		if n == nil {
			if err := missing(f); err != nil {
				return nil, err
			}
			field.Missing = true
			e.fresh(f)
		} else if err := e.found(f, n); err != nil {
			return nil, err
		}
		if err := e.err; err != nil {
			return nil, err
		}
		e.number()
		l.Fields = append(l.Fields, field)
	}

	return l, nil
}

func missing(f iceberg.NestedField) error {
	switch {
	case f.InitialDefault != nil:
		return &refuse.Error{Rule: RuleDefault, Detail: f.Name}
	case f.Required:
		return &refuse.Error{Rule: RuleRequired, Detail: f.Name}
	}

	return nil
}

// Columns are the leaves of all fields, in the order of the output.
func (l *Layout) Columns() []Column {
	var out []Column
	for _, f := range l.Fields {
		out = append(out, f.Columns...)
	}

	return out
}

// Elements are the schema of an output.
func (l *Layout) Elements() []format.SchemaElement {
	out := []format.SchemaElement{{Name: "table", NumChildren: int32(len(l.Fields))}}
	for _, f := range l.Fields {
		out = append(out, f.Elements...)
	}

	return out
}

// Take says, for every column of the output, which leaf column of another file
// holds it, -1 for nulls. The error is a refusal: the file stores a field in a
// form that cannot stand beside that of the output.
func (l *Layout) Take(other *Layout) ([]int, error) {
	var sources []int
	for i, f := range l.Fields {
		o := other.Fields[i]
		if o.Missing {
			if *f.Elements[0].Repetition != format.Optional {
				return nil, &refuse.Error{Rule: RuleRequired, Detail: f.Elements[0].Name}
			}
			for range f.Columns {
				sources = append(sources, -1)
			}

			continue
		}
		if !reflect.DeepEqual(f.Elements, o.Elements) {
			return nil, &refuse.Error{Rule: RuleDifferent, Detail: f.Elements[0].Name}
		}
		for _, c := range o.Columns {
			sources = append(sources, c.Source)
		}
	}

	return sources, nil
}

// emitter writes the output's elements for one field, and finds its leaves.
type emitter struct {
	field *Field
	path  []string
	err   error
}

// number fills in the levels, which follow from the elements.
func (e *emitter) number() {
	root := format.SchemaElement{NumChildren: 1}
	n, _, err := tree(append([]format.SchemaElement{root}, e.field.Elements...))
	if err != nil {
		e.err = err

		return
	}
	var walk func(n *node)
	walk = func(n *node) {
		if n.leaf() {
			e.field.Columns[n.column].Leaf.MaxDef = n.def
			e.field.Columns[n.column].Leaf.MaxRep = n.rep
		}
		for _, c := range n.children {
			walk(c)
		}
	}
	walk(n)
}

func (e *emitter) group(el format.SchemaElement, rep format.Repetition, id int) {
	el.Repetition = &rep
	if id >= 0 {
		v := int32(id)
		el.FieldID = &v
	}
	e.field.Elements = append(e.field.Elements, el)
}

func (e *emitter) column(id int, el format.SchemaElement, rep format.Repetition, source int) {
	e.group(el, rep, id)
	e.field.Columns = append(e.field.Columns, Column{
		ID: id, Source: source,
		Path: append(append([]string(nil), e.path...), el.Name),
		Leaf: page.Leaf{
			Type: *el.Type, TypeLength: int(el.TypeLength),
			SignedBytes: el.Logical.Kind == format.LogicalDecimal && *el.Type >= format.ByteArray,
		},
	})
}

func (e *emitter) within(name string, body func()) {
	e.path = append(e.path, name)
	body()
	e.path = e.path[:len(e.path)-1]
}
