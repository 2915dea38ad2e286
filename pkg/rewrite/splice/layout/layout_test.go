package layout

import (
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/refuse"
)

func element(name string, id int32, rep format.Repetition, typ format.Type) format.SchemaElement {
	return format.SchemaElement{Name: name, FieldID: &id, Repetition: &rep, Type: &typ}
}

// flat is a footer of leaf columns.
func flat(elements ...format.SchemaElement) *format.FileMetaData {
	root := format.SchemaElement{Name: "table", NumChildren: int32(len(elements))}

	return &format.FileMetaData{Schema: append([]format.SchemaElement{root}, elements...)}
}

func refused(t *testing.T, err error, rule refuse.Rule) {
	t.Helper()
	var why *refuse.Error
	require.ErrorAs(t, err, &why)
	assert.Equal(t, rule, why.Rule)
}

func TestFilesAreRefusedUnderARule(t *testing.T) {
	p := iceberg.PrimitiveTypes
	sc := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: p.Int64},
		iceberg.NestedField{ID: 2, Name: "st", Type: &iceberg.StructType{FieldList: []iceberg.NestedField{{ID: 3, Name: "a", Type: p.Int32}}}})
	id := element("id", 1, format.Optional, format.Int64)
	optional, number := format.Optional, int32(2)
	group := format.SchemaElement{Name: "st", FieldID: &number, Repetition: &optional, NumChildren: 1}

	_, err := Of(sc, &format.FileMetaData{Schema: append(flat(id, group).Schema, element("other", 1, format.Optional, format.Int32))})
	refused(t, err, RuleTwice)
	inner := element("a", 0, format.Optional, format.Int32)
	inner.FieldID = nil
	_, err = Of(sc, &format.FileMetaData{Schema: append([]format.SchemaElement{{Name: "table", NumChildren: 2}}, id, group, inner)})
	refused(t, err, RuleNoIDs) // taken for missing, its values would be lost
	_, err = Of(sc, flat(element("id", 1, format.Optional, format.Double)))
	refused(t, err, RulePhysical)
	_, err = Of(iceberg.NewSchema(0, iceberg.NestedField{ID: 9, Name: "r", Type: p.Int64, Required: true}), flat(id))
	refused(t, err, RuleRequired)
	_, err = Of(iceberg.NewSchema(0, iceberg.NestedField{ID: 9, Name: "r", Type: p.Int64, InitialDefault: "seven"}), flat(id))
	refused(t, err, RuleDefault)
}

func TestColumnsOfOneFileTakeThoseOfAnother(t *testing.T) {
	sc := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64})
	of := func(e format.SchemaElement) *Layout {
		l, err := Of(sc, flat(e))
		require.NoError(t, err)

		return l
	}
	optional, required := of(element("id", 1, format.Optional, format.Int64)), of(element("x", 1, format.Required, format.Int64))
	narrow := of(element("id", 1, format.Required, format.Int32))

	got, err := optional.Take(of(element("other name", 1, format.Optional, format.Int64)))
	require.NoError(t, err)
	assert.True(t, got[0].Moved())
	got, err = optional.Take(required)
	require.NoError(t, err)
	assert.False(t, got[0].Moved())
	assert.Equal(t, []int16{1}, got[0].Levels, "what is required is there")
	got, err = optional.Take(narrow)
	require.NoError(t, err)
	assert.True(t, got[0].Converted)
	_, err = required.Take(optional)
	refused(t, err, RuleDifferent)
}

func TestLevelsOfNestedColumnsAreMapped(t *testing.T) {
	group := func(name string, id int32, rep format.Repetition) format.SchemaElement {
		return format.SchemaElement{Name: name, FieldID: &id, Repetition: &rep, NumChildren: 1}
	}
	to := []format.SchemaElement{
		group("a", 1, format.Optional), group("b", 2, format.Optional), group("c", 3, format.Optional), element("d", 4, format.Optional, format.Int64),
	}
	from := []format.SchemaElement{
		group("a", 1, format.Optional), group("b", 2, format.Required), group("c", 3, format.Optional), element("d", 4, format.Required, format.Int64),
	}
	levels, ok := compare(to, from)
	require.True(t, ok)
	// Without a: 0. With a, and so with b, without c: 2. With c, and so with d: 4.
	assert.Equal(t, [][]int16{{0, 2, 4}}, levels)
	_, ok = compare(from, to)
	assert.False(t, ok)
}
