package layout

import (
	"fmt"

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
	RuleTwice     refuse.Rule = "two columns with one field id"
	RuleDefault   refuse.Rule = "default value of a missing column that is not known"
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
	// Stored is the form in the file, when that is another one than Leaf's.
	Stored *Stored
	// Shape says that Source is another column of the innermost group that the
	// file has, and at which of its levels this one is missing.
	Shape *Shape

	field iceberg.NestedField
	// defaulted says that the file lacks this very field, and not one around it.
	defaulted bool
}

// InFile is the physical type of the leaf that Source names, false when that is
// of no matter.
func (c Column) InFile() (format.Type, bool) {
	switch {
	case c.Source < 0 || c.Shape != nil:
		return 0, false
	case c.Stored != nil:
		return c.Stored.Type, true
	default:
		return c.Leaf.Type, true
	}
}

// Stored is a physical form.
type Stored struct {
	Type   format.Type
	Length int32
}

// Shape is a place in the nesting: the levels of a group that is there.
type Shape struct{ Def, Rep int }

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
type Layout struct {
	Fields []Field

	columns []Column // of all fields
	leaves  int      // of the file
}

// Of finds the fields of a schema in a file. The error is a refusal or wraps
// ErrCorrupt.
func Of(sc *iceberg.Schema, footer *format.FileMetaData) (*Layout, error) {
	root, leaves, err := tree(footer.Schema)
	if err != nil {
		return nil, err
	}
	l := &Layout{leaves: leaves}
	if err := l.fits(footer); err != nil {
		return nil, err
	}
	if err := root.identified(); err != nil {
		return nil, err
	}
	for _, f := range sc.Fields() {
		field := Field{ID: f.ID}
		n := root.child(f.ID)
		e := &emitter{field: &field}
		if n == nil {
			field.Missing = true
			e.fresh(f, nil)
		} else if err := e.found(f, n); err != nil {
			return nil, err
		}
		if err := e.err; err != nil {
			return nil, err
		}
		e.number()
		l.add(field)
	}

	return l, nil
}

func (l *Layout) add(f Field) {
	l.Fields = append(l.Fields, f)
	l.columns = append(l.columns, f.Columns...)
}

// fits makes sure that row groups have the columns of the file's schema.
func (l *Layout) fits(footer *format.FileMetaData) error {
	for i := range footer.RowGroups {
		if n := len(footer.RowGroups[i].Columns); n != l.leaves {
			return fmt.Errorf("%w: %d columns in a row group, %d in the schema", ErrCorrupt, n, l.leaves)
		}
	}

	return nil
}

// missing refuses a field that cannot be made up. Its value is its initial
// default, or null (Iceberg specification, Column Projection).
func missing(f iceberg.NestedField) error {
	if f.InitialDefault == nil {
		if f.Required {
			return &refuse.Error{Rule: RuleRequired, Detail: f.Name}
		}

		return nil
	}
	forms := formsOf(f.Type)
	if len(forms) == 0 {
		return &refuse.Error{Rule: RuleDefault, Detail: f.Name}
	}
	_, err := plain(f, page.Leaf{Type: forms[0].typ, TypeLength: int(forms[0].length)})

	return err
}

// Columns are the leaves of all fields, in the order of the output. They must not
// be changed.
func (l *Layout) Columns() []Column { return l.columns }

// Elements are the schema of an output.
func (l *Layout) Elements() []format.SchemaElement {
	out := []format.SchemaElement{{Name: "table", NumChildren: int32(len(l.Fields))}}
	for _, f := range l.Fields {
		out = append(out, f.Elements...)
	}

	return out
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

// column emits a leaf; c says where it comes from.
func (e *emitter) column(f iceberg.NestedField, el format.SchemaElement, rep format.Repetition, c Column) {
	e.group(el, rep, f.ID)
	e.field.Columns = append(e.field.Columns, Column{
		ID: f.ID, Source: c.Source, Stored: c.Stored, Shape: c.Shape, field: f,
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
