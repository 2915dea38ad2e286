package layout

import (
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/splice/format"
)

// unnamed is an element without an id: a leaf, or a group of so many children.
func unnamed(name string, rep format.Repetition, children int32) format.SchemaElement {
	e := element(name, 0, rep, format.Int64)
	e.FieldID = nil
	if children > 0 {
		e.Type, e.NumChildren = nil, children
	}

	return e
}

func annotatedAs(e format.SchemaElement, kind format.LogicalKind) format.SchemaElement {
	e.Logical.Kind = kind

	return e
}

func schemaOf(children int32, elements ...format.SchemaElement) *format.FileMetaData {
	return &format.FileMetaData{Schema: append([]format.SchemaElement{{Name: "table", NumChildren: children}}, elements...)}
}

// ids are those of the elements, 0 for none.
func ids(m *format.FileMetaData) (out []int32) {
	for _, e := range m.Schema[1:] {
		id := int32(0)
		if e.FieldID != nil {
			id = *e.FieldID
		}
		out = append(out, id)
	}

	return out
}

func named(id int, name string, inner ...iceberg.MappedField) iceberg.MappedField {
	return iceberg.MappedField{FieldID: &id, Names: []string{name, "old " + name}, Fields: inner}
}

func TestColumnsGetTheIDsOfTheirNames(t *testing.T) {
	const opt, rep = format.Optional, format.Repeated
	m := schemaOf(3,
		unnamed("old a", opt, 0),
		annotatedAs(unnamed("l", opt, 1), format.LogicalList), unnamed("bag", rep, 1), unnamed("array_element", opt, 2),
		unnamed("x", opt, 0), unnamed("old y", opt, 0),
		annotatedAs(unnamed("m", opt, 1), format.LogicalMap), unnamed("entries", rep, 2), unnamed("k", format.Required, 0), unnamed("v", opt, 0))
	require.NoError(t, Identify(m, iceberg.NameMapping{
		named(7, "not in the file"), named(1, "a"),
		named(2, "l", named(3, "element", named(4, "x"), named(5, "y"))),
		named(6, "m", named(8, "key"), named(9, "value")),
	}))
	assert.Equal(t, []int32{1, 2, 0, 3, 4, 5, 6, 0, 8, 9}, ids(m))
}

func TestColumnsWithoutOnePlaceInTheMappingAreRefused(t *testing.T) {
	const opt, rep = format.Optional, format.Repeated
	mapping := iceberg.NameMapping{
		named(1, "a"), named(2, "twice"), named(3, "twice"), {Names: []string{"no id"}}, named(4, "l", named(5, "element")), named(-1, "negative"),
		named(1<<40, "large"), named(6, "m", named(7, "key")), named(8, "st", named(9, "x")),
	}
	for name, elements := range map[string][]format.SchemaElement{
		"not mapped":          {unnamed("b", opt, 0)},
		"another case":        {unnamed("A", opt, 0)},
		"two places":          {unnamed("twice", opt, 0)},
		"without an id":       {unnamed("no id", opt, 0)},
		"negative id":         {unnamed("negative", opt, 0)},
		"id beyond 32 bits":   {unnamed("large", opt, 0)},
		"list of two levels":  {annotatedAs(unnamed("l", opt, 1), format.LogicalList), unnamed("array", rep, 0)},
		"list not marked":     {unnamed("l", opt, 1), unnamed("list", rep, 1), unnamed("element", opt, 0)},
		"value not mapped":    {annotatedAs(unnamed("m", opt, 1), format.LogicalMap), unnamed("key_value", rep, 2), unnamed("key", format.Required, 0), unnamed("value", opt, 0)},
		"in a struct":         {unnamed("st", opt, 1), unnamed("y", opt, 0)},
		"map of keys alone":   {annotatedAs(unnamed("m", opt, 1), format.LogicalMap), unnamed("key_value", rep, 1), unnamed("key", format.Required, 0)},
		"mapping is of a map": {unnamed("m", opt, 1), unnamed("x", opt, 0)},
	} {
		t.Run(name, func(t *testing.T) { refused(t, Identify(schemaOf(1, elements...), mapping), RuleNoIDs) })
	}
	two := schemaOf(2, unnamed("a", format.Optional, 0), unnamed("old a", format.Optional, 0))
	require.NoError(t, Identify(two, mapping))
	_, err := Of(iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "a", Type: iceberg.PrimitiveTypes.Int64}), two)
	refused(t, err, RuleTwice)
	require.ErrorIs(t, Identify(schemaOf(3, unnamed("a", format.Optional, 0)), mapping), ErrCorrupt)
}

func TestIDsOfTheFileComeFirst(t *testing.T) {
	m := flat(element("a", 9, format.Optional, format.Int64), unnamed("b", format.Optional, 0))
	require.NoError(t, Identify(m, iceberg.NameMapping{named(1, "a"), named(2, "b")}))
	assert.Equal(t, []int32{9, 0}, ids(m))
}
