package layout

import (
	"math"
	"slices"

	"github.com/apache/iceberg-go"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/refuse"
)

// Identify gives the columns of a file that has no field ids those of a name
// mapping (Iceberg specification, Column Projection). A file with an id anywhere
// is left as it is. The error is a refusal or wraps ErrCorrupt: every column has to
// have exactly one place in the mapping. One that has none would be lost, although
// another mapping could still bring it back.
func Identify(footer *format.FileMetaData, names iceberg.NameMapping) error {
	for i := 1; i < len(footer.Schema); i++ {
		if footer.Schema[i].FieldID != nil {
			return nil
		}
	}
	root, _, err := tree(footer.Schema)
	if err != nil {
		return err
	}

	return root.identify(names)
}

// identify gives the children of a struct their ids.
func (n *node) identify(fields []iceberg.MappedField) error {
	for _, c := range n.children {
		if err := c.become(fields, c.element.Name); err != nil {
			return err
		}
	}

	return nil
}

// become gives a node the id of the field that has the name, and what is in it the
// ids of those within. Elements of lists, keys and values have fixed names in
// mappings, whatever the file calls them.
func (n *node) become(fields []iceberg.MappedField, name string) error {
	unknown := &refuse.Error{Rule: RuleNoIDs, Detail: n.element.Name}
	named := func(f iceberg.MappedField) bool { return slices.Contains(f.Names, name) }
	at := slices.IndexFunc(fields, named)
	if at < 0 || slices.ContainsFunc(fields[at+1:], named) {
		return unknown
	}
	field := fields[at]
	if id := field.ID(); id < 0 || id > math.MaxInt32 {
		return unknown
	}
	id := int32(field.ID())
	n.element.FieldID = &id
	inner := n.children
	if len(inner) == 1 && inner[0].repetition() == format.Repeated {
		inner = inner[0].children
	}
	switch {
	case n.isList() && len(inner) == 1:
		return inner[0].become(field.Fields, "element")
	case n.isMap() && len(inner) == 2:
		if err := inner[0].become(field.Fields, "key"); err != nil {
			return err
		}

		return inner[1].become(field.Fields, "value")
	default:
		return n.identify(field.Fields)
	}
}

func (n *node) isList() bool {
	return n.element.Logical.Kind == format.LogicalList || is(n, format.ConvertedList)
}

func (n *node) isMap() bool {
	return n.element.Logical.Kind == format.LogicalMap || is(n, format.ConvertedMap) || is(n, format.ConvertedMapKeyValue)
}
