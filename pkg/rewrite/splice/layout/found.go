package layout

import (
	"strings"

	"github.com/apache/iceberg-go"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/refuse"
)

// found emits a field that the file has. Names, annotations and the order of
// struct fields become those of the table; physical types, repetitions and
// nesting stay those of the file, for the pages depend on them.
func (e *emitter) found(f iceberg.NestedField, n *node) error {
	if n.repetition() == format.Repeated {
		return &refuse.Error{Rule: RulePhysical, Detail: f.Name}
	}
	switch t := f.Type.(type) {
	case *iceberg.StructType:
		return e.foundStruct(f, t, n)
	case *iceberg.ListType:
		return e.foundList(f, t, n)
	case *iceberg.MapType:
		return e.foundMap(f, t, n)
	}
	el, stored, err := primitive(f, n)
	if err != nil {
		return err
	}
	e.column(f, el, n.repetition(), Column{Source: n.column, Stored: stored})

	return nil
}

func (e *emitter) foundStruct(f iceberg.NestedField, t *iceberg.StructType, n *node) (err error) {
	if n.leaf() || len(t.FieldList) == 0 {
		return &refuse.Error{Rule: RulePhysical, Detail: f.Name}
	}
	if err := n.identified(); err != nil {
		return err
	}
	e.group(format.SchemaElement{Name: f.Name, NumChildren: int32(len(t.FieldList))}, n.repetition(), f.ID)
	e.within(f.Name, func() {
		for _, inner := range t.FieldList {
			c := n.child(inner.ID)
			if c == nil {
				e.fresh(inner, n)

				continue
			}
			if err = e.found(inner, c); err != nil {
				return
			}
		}
	})

	return err
}

// foundList knows the three levels of LogicalTypes.md, Lists. Older forms, which
// its compatibility rules tell by their names, are refused.
func (e *emitter) foundList(f iceberg.NestedField, t *iceberg.ListType, n *node) (err error) {
	if n.leaf() || !n.isList() || len(n.children) != 1 {
		return &refuse.Error{Rule: RulePhysical, Detail: f.Name}
	}
	mid := n.children[0]
	old := mid.element.Name == "array" || strings.HasSuffix(mid.element.Name, "_tuple")
	if mid.leaf() || old || mid.repetition() != format.Repeated || len(mid.children) != 1 || mid.children[0].id() != t.ElementID {
		return &refuse.Error{Rule: RulePhysical, Detail: f.Name}
	}
	e.listHead(f, n.repetition())
	e.within(f.Name, func() {
		e.within("list", func() { err = e.found(t.ElementField(), mid.children[0]) })
	})

	return err
}

func (e *emitter) listHead(f iceberg.NestedField, rep format.Repetition) {
	converted := format.ConvertedList
	e.group(format.SchemaElement{
		Name: f.Name, NumChildren: 1, Converted: &converted, Logical: format.LogicalType{Kind: format.LogicalList},
	}, rep, f.ID)
	e.group(format.SchemaElement{Name: "list", NumChildren: 1}, format.Repeated, -1)
}

// foundMap knows the form of LogicalTypes.md, Maps.
func (e *emitter) foundMap(f iceberg.NestedField, t *iceberg.MapType, n *node) (err error) {
	if n.leaf() || !n.isMap() || len(n.children) != 1 {
		return &refuse.Error{Rule: RulePhysical, Detail: f.Name}
	}
	mid := n.children[0]
	if mid.leaf() || mid.repetition() != format.Repeated || len(mid.children) != 2 ||
		mid.children[0].id() != t.KeyID || mid.children[1].id() != t.ValueID {
		return &refuse.Error{Rule: RulePhysical, Detail: f.Name}
	}
	e.mapHead(f, n.repetition())
	e.within(f.Name, func() {
		e.within("key_value", func() {
			if err = e.found(t.KeyField(), mid.children[0]); err == nil {
				err = e.found(t.ValueField(), mid.children[1])
			}
		})
	})

	return err
}

func (e *emitter) mapHead(f iceberg.NestedField, rep format.Repetition) {
	converted := format.ConvertedMap
	e.group(format.SchemaElement{
		Name: f.Name, NumChildren: 1, Converted: &converted, Logical: format.LogicalType{Kind: format.LogicalMap},
	}, rep, f.ID)
	e.group(format.SchemaElement{Name: "key_value", NumChildren: 2}, format.Repeated, -1)
}

// fresh emits a field that the file does not have, in the form in which it would
// be written. A group that the file has around it gives it its shape.
func (e *emitter) fresh(f iceberg.NestedField, around *node) {
	if err := missing(f); err != nil && e.err == nil {
		e.err = err
	}
	e.made(f, around)
	if n := len(e.field.Columns); f.InitialDefault != nil && n > 0 {
		e.field.Columns[n-1].defaulted = true // it is no group, or it was refused above
	}
}

func (e *emitter) made(f iceberg.NestedField, around *node) {
	rep := format.Optional
	if f.Required {
		rep = format.Required
	}
	switch t := f.Type.(type) {
	case *iceberg.StructType:
		if len(t.FieldList) == 0 {
			e.err = &refuse.Error{Rule: RuleType, Detail: f.Name}

			return
		}
		e.group(format.SchemaElement{Name: f.Name, NumChildren: int32(len(t.FieldList))}, rep, f.ID)
		e.within(f.Name, func() {
			for _, inner := range t.FieldList {
				e.made(inner, around)
			}
		})
	case *iceberg.ListType:
		e.listHead(f, rep)
		e.within(f.Name, func() { e.within("list", func() { e.made(t.ElementField(), around) }) })
	case *iceberg.MapType:
		e.mapHead(f, rep)
		e.within(f.Name, func() {
			e.within("key_value", func() {
				e.made(t.KeyField(), around)
				e.made(t.ValueField(), around)
			})
		})
	default:
		forms := formsOf(f.Type)
		if len(forms) == 0 {
			e.err = &refuse.Error{Rule: RuleType, Detail: f.Name}

			return
		}
		c := Column{Source: -1}
		if around != nil {
			c.Source, c.Shape = around.anyLeaf(), &Shape{Def: around.def, Rep: around.rep}
		}
		e.column(f, annotated(f, forms[0], forms[0].typ), rep, c)
	}
}
