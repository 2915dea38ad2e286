package rewrite

import (
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// requiredEverywhere is a table whose nested values may not be missing.
func requiredEverywhere() *iceberg.Schema {
	p := iceberg.PrimitiveTypes
	inner := &iceberg.StructType{FieldList: []iceberg.NestedField{
		{ID: 7, Name: "a", Type: p.Int64, Required: true},
		{ID: 8, Name: "l", Type: &iceberg.ListType{ElementID: 9, Element: p.String, ElementRequired: true}, Required: true},
	}}

	return iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: p.Int64, Required: true},
		iceberg.NestedField{ID: 2, Name: "m", Type: &iceberg.MapType{KeyID: 3, KeyType: p.String, ValueID: 4, ValueType: inner, ValueRequired: true}},
		iceberg.NestedField{ID: 5, Name: "s", Type: &iceberg.StructType{FieldList: []iceberg.NestedField{{ID: 6, Name: "b", Type: p.String, Required: true}}}},
	)
}

func TestTablesWithRequiredNestedFields(t *testing.T) {
	for _, engine := range []string{EngineGeneral, EngineSplice} {
		t.Run(engine, func(t *testing.T) {
			e := newEnv(t, requiredEverywhere(), *iceberg.UnpartitionedSpec, nil)
			want := e.addRequired()
			out := e.sameRows(PlanOptions{MinInputFiles: 2}, Options{Engine: engine})
			require.Len(t, out.results, 1)
			assert.Equal(t, want, e.rows())
			exactMetrics(t, e.load(), out.results[0].Outputs)
		})
	}
}

// addRequired adds the same file twice and returns the rows of both.
func (e *env) addRequired() []string {
	rows := []string{
		`{"id":1,"m":[{"key":"k","value":{"a":1,"l":["x","y"]}},{"key":"j","value":{"a":2,"l":[]}}],"s":{"b":"v"}}`,
		`{"id":2,"m":null,"s":null}`, `{"id":3,"m":[],"s":{"b":""}}`,
	}
	sc, err := table.SchemaToArrowSchemaWithOptions(e.load().Schema(), table.ArrowSchemaOptions{IncludeFieldIDs: true})
	require.NoError(e.t, err)
	for range 2 {
		e.addFile(foreignFile{fields: sc.Fields(), rows: rows})
	}

	return e.wanted(2, rows...)
}

func TestRequiredNestedFieldsOfAnOldSpec(t *testing.T) {
	e := newEnv(t, requiredEverywhere(), *iceberg.UnpartitionedSpec, nil)
	want := e.addRequired()
	e.commit(func(tx *table.Transaction) {
		require.NoError(t, tx.UpdateSpec(true).AddField("id", iceberg.BucketTransform{NumBuckets: 2}, "b").Commit())
	})
	e.compact(PlanOptions{MinInputFiles: 2}, Options{})
	assert.Equal(t, want, e.rows())
}

// TestNullsInRequiredColumnsFailTheGroup has files that do not keep what the table
// promises. Encoded anew, a null would become a zero.
func TestNullsInRequiredColumnsFailTheGroup(t *testing.T) {
	for name, row := range map[string]string{
		"id":      `{"id":null,"m":[],"s":{"b":""}}`,
		"b":       `{"id":1,"m":[],"s":{"b":null}}`,
		"a":       `{"id":1,"m":[{"key":"k","value":{"a":null,"l":[]}}],"s":null}`,
		"l":       `{"id":1,"m":[{"key":"k","value":{"a":1,"l":null}}],"s":null}`,
		"element": `{"id":1,"m":[{"key":"k","value":{"a":1,"l":["x",null]}}],"s":null}`,
		"value":   `{"id":1,"m":[{"key":"k","value":null}],"s":null}`,
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, requiredEverywhere(), *iceberg.UnpartitionedSpec, nil)
			nullable, err := table.SchemaToArrowSchemaWithOptions(optional(e.load().Schema()), table.ArrowSchemaOptions{IncludeFieldIDs: true})
			require.NoError(t, err)
			for range 2 {
				e.addFile(foreignFile{fields: nullable.Fields(), rows: []string{row}})
			}
			disk := e.onDisk()
			plan := e.plan(PlanOptions{MinInputFiles: 2})
			results, err := New(Options{Engine: EngineGeneral}).Rewrite(t.Context(), e.load(), plan.Groups)
			require.NoError(t, err)
			require.ErrorContains(t, results[0].Err, "no value in a required column "+name)
			assert.Equal(t, disk, e.onDisk())
			spliced := rewriteWith(t, e.load(), plan, Options{Engine: EngineSplice})[0]
			require.Equal(t, EngineSplice, spliced.Engine.Name, "pages are moved with their nulls")
			inputs := []iceberg.DataFile{plan.Groups[0].Files[0].Data, plan.Groups[0].Files[1].Data}
			assert.Equal(t, inOrder(t, e.load(), inputs), inOrder(t, e.load(), spliced.Outputs))
		})
	}
}

// optional is the schema of a writer that keeps no promises.
func optional(sc *iceberg.Schema) *iceberg.Schema {
	var loosen func(iceberg.Type) iceberg.Type
	fields := func(in []iceberg.NestedField) (out []iceberg.NestedField) {
		for _, f := range in {
			f.Required, f.Type = false, loosen(f.Type)
			out = append(out, f)
		}

		return out
	}
	loosen = func(typ iceberg.Type) iceberg.Type {
		switch typ := typ.(type) {
		case *iceberg.StructType:
			return &iceberg.StructType{FieldList: fields(typ.FieldList)}
		case *iceberg.ListType:
			return &iceberg.ListType{ElementID: typ.ElementID, Element: loosen(typ.Element)}
		case *iceberg.MapType:
			return &iceberg.MapType{KeyID: typ.KeyID, KeyType: typ.KeyType, ValueID: typ.ValueID, ValueType: loosen(typ.ValueType)}
		default:
			return typ
		}
	}

	return iceberg.NewSchema(0, fields(sc.Fields())...)
}
