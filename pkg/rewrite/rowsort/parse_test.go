package rowsort

import (
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOrdersThatAreNotUnderstood(t *testing.T) {
	sc := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "odd name", Type: iceberg.PrimitiveTypes.String},
		iceberg.NestedField{ID: 3, Name: "l", Type: &iceberg.ListType{ElementID: 4, Element: iceberg.PrimitiveTypes.Int64}},
		iceberg.NestedField{ID: 5, Name: "v", Type: iceberg.VariantType{}},
		iceberg.NestedField{ID: 6, Name: "st", Type: &iceberg.StructType{FieldList: []iceberg.NestedField{{ID: 7, Name: "x", Type: iceberg.PrimitiveTypes.Int64}}}},
	)
	for text, says := range map[string]string{
		"":                          "expected a column",
		"id,":                       "expected a column at the end",
		",id":                       "expected a column",
		"nope":                      `no column "nope"`,
		"id asc desc":               `expected "," before "desc"`,
		"id nulls":                  `expected "first" or "last" at the end`,
		"id nulls middle":           `expected "first" or "last" before "middle"`,
		"zorder(id)":                `no transform "zorder"`,
		"bucket(id)":                "takes a number",
		"bucket(0, id)":             "takes a number",
		"bucket(-4, id)":            "takes a number",
		"bucket(99999999999, id)":   "takes a number",
		"bucket(4 id)":              `expected ","`,
		"bucket(4, id":              `expected ")"`,
		"day(id)":                   "does not take column id",
		"l":                         "have no order",
		"l.element":                 "inside a list",
		"v":                         "have no order",
		"st":                        "have no order",
		`"odd name`:                 "quote that is not closed",
		"odd name":                  `no column "odd"`,
		"id; drop table":            `no column "id;"`,
		"(id)":                      "expected a column",
		strings.Repeat("(", 100000): "expected a column",
	} {
		_, err := Parse(text, sc, NullsByDirection)
		require.ErrorIs(t, err, ErrUnsupported, text)
		assert.ErrorContains(t, err, says, text)
	}
	for text, reads := range map[string]string{
		`"odd name"`:                          `"odd name" asc nulls first`,
		"`odd name` desc , id":                `"odd name" desc nulls last, id asc nulls first`,
		"st.x nulls last":                     "st.x asc nulls last",
		"Bucket( 16 ,id) DESC":                "bucket(16, id) desc nulls last",
		`truncate(4, "odd name") nulls first`: `truncate(4, "odd name") asc nulls first`,
	} {
		o, err := Parse(text, sc, NullsByDirection)
		require.NoError(t, err)
		assert.Equal(t, reads, o.String())
	}
	o, err := Parse("id desc nulls first, id", sc, NullsLast)
	require.NoError(t, err)
	assert.Equal(t, "id desc nulls first, id asc nulls last", o.String())
}

func FuzzParse(f *testing.F) {
	sc := manyTypes
	for _, text := range []string{"n", "k.s desc nulls last, bucket(16, n)", `"b" asc`, "truncate(3,k.s)"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := Parse(text, sc, NullsByDirection)
		if err != nil {
			return
		}
		again, err := Parse(o.String(), sc, NullsByDirection)
		require.NoError(t, err)
		require.True(t, o.Equal(again))
	})
}
