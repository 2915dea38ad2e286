package rewrite

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// splicedLikeGeneral rewrites the only group with both engines and compares rows,
// their order, row ids and metrics. It returns what was spliced.
func (e *env) splicedLikeGeneral() Result {
	e.t.Helper()
	tbl, plan := e.load(), e.plan(PlanOptions{MinInputFiles: 2})
	require.Len(e.t, plan.Groups, 1, plan.Reason)
	general := rewriteWith(e.t, tbl, plan, Options{Engine: EngineGeneral, Verify: true})[0]
	spliced := rewriteWith(e.t, tbl, plan, Options{Engine: EngineSplice, Verify: true})[0]
	require.Equal(e.t, EngineSplice, spliced.Engine.Name, "%s: %s", spliced.Engine.Reason, spliced.Engine.Detail)
	assert.Equal(e.t, general.RowsDeleted, spliced.RowsDeleted)
	lineage := plan.Groups[0].lineage && tbl.Metadata().Version() >= 3
	assert.Equal(e.t, orderedRows(e.t, tbl, general.Outputs, lineage), orderedRows(e.t, tbl, spliced.Outputs, lineage))
	assert.Equal(e.t, inOrder(e.t, tbl, general.Outputs), inOrder(e.t, tbl, spliced.Outputs))
	sameMetrics(e.t, general.Outputs, spliced.Outputs)

	return spliced
}

// orderedRows are the rows of files as text, in their order.
func orderedRows(t *testing.T, tbl *table.Table, files []iceberg.DataFile, lineage bool) (rows []string) {
	t.Helper()
	in := make([]File, 0, len(files))
	for _, df := range files {
		in = append(in, File{Data: df})
	}
	in, err := inspectAll(t.Context(), tbl, in, New(Options{}).inspectionMemory)
	require.NoError(t, err)
	o := readOptions{batchRows: 1000, batchBytes: 8 << 20, lineage: lineage}
	require.NoError(t, eachBatch(t.Context(), tbl, in, o, func(rec arrow.RecordBatch) { rows = append(rows, recordRows(rec)...) }))

	return rows
}

// change changes the schema.
func (e *env) change(do func(u *table.UpdateSchema)) {
	e.t.Helper()
	e.commit(func(tx *table.Transaction) {
		u := tx.UpdateSchema(true, true)
		do(u)
		require.NoError(e.t, u.Commit())
	})
}

func widen(path string, to iceberg.Type) func(u *table.UpdateSchema) {
	return func(u *table.UpdateSchema) {
		u.UpdateColumn([]string{path}, table.ColumnUpdate{FieldType: iceberg.Optional[iceberg.Type]{Val: to, Valid: true}})
	}
}

func TestWidenedColumnsAreDecodedAlone(t *testing.T) {
	p := iceberg.PrimitiveTypes
	sc := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: p.Int64},
		iceberg.NestedField{ID: 2, Name: "i", Type: p.Int32},
		iceberg.NestedField{ID: 3, Name: "f", Type: p.Float32},
		iceberg.NestedField{ID: 4, Name: "d", Type: iceberg.DecimalTypeOf(9, 2)},
		iceberg.NestedField{ID: 5, Name: "s", Type: p.String},
	)
	e := newEnv(t, sc, *iceberg.UnpartitionedSpec, nil)
	e.appendJSON(`{"id":1,"i":-2147483648,"f":-1.5,"d":"-9999999.99","s":"a"}`, `{"id":2,"s":"b"}`)
	e.appendJSON(`{"id":3,"i":2147483647,"f":0.1,"d":"0.01","s":null}`)
	e.change(widen("i", p.Int64))
	e.change(widen("f", p.Float64))
	e.change(widen("d", iceberg.DecimalTypeOf(38, 2)))
	e.appendJSON(`{"id":4,"i":9007199254740993,"f":1e300,"d":"123456789012345678901234567890.12","s":"d"}`, `{"id":5}`)
	res := e.splicedLikeGeneral()
	assert.EqualValues(t, 6, res.Engine.Pages.Decoded, "three columns of two files")
	assert.EqualValues(t, 5, res.RowsOut)
}

func TestColumnsAddedInsideStructsAndDefaultsAreMadeUp(t *testing.T) {
	p := iceberg.PrimitiveTypes
	pair := &iceberg.StructType{FieldList: []iceberg.NestedField{
		{ID: 3, Name: "l", Type: &iceberg.ListType{ElementID: 4, Element: p.String}},
		{ID: 5, Name: "n", Type: p.Int32},
	}}
	sc := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: p.Int64},
		iceberg.NestedField{ID: 2, Name: "st", Type: pair},
		iceberg.NestedField{ID: 6, Name: "many", Type: &iceberg.ListType{ElementID: 7, Element: &iceberg.StructType{FieldList: []iceberg.NestedField{
			{ID: 8, Name: "x", Type: p.Bool}}}}},
	)
	e := newEnv(t, sc, *iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": "3"})
	e.appendJSON(`{"id":1,"st":{"l":["a","b",null],"n":1},"many":[{"x":true},null,{"x":null}]}`, `{"id":2,"st":{"l":[],"n":null},"many":[]}`,
		`{"id":3,"st":null,"many":null}`, `{"id":4,"st":{"l":null,"n":4},"many":[{"x":false}]}`)
	e.appendJSON(`{"id":5,"st":{"l":["z"],"n":5}}`)
	e.change(func(u *table.UpdateSchema) {
		u.AddColumn([]string{"st", "more"}, p.String, "", false, nil)
		u.AddColumn([]string{"many", "element", "y"}, iceberg.FixedTypeOf(3), "", false, nil)
		u.AddColumn([]string{"st", "deep"}, &iceberg.ListType{ElementID: 100, Element: p.Float64}, "", false, nil)
		u.AddColumn([]string{"word"}, p.String, "", false, iceberg.StringLiteral("preset"))
		u.AddColumn([]string{"count"}, p.Int64, "", false, iceberg.Int64Literal(-7))
	})
	e.appendJSON(`{"id":6,"st":{"l":["q"],"n":6,"more":"m","deep":[1.5,null]},"many":[{"x":true,"y":"AAEC"}],"word":null,"count":1}`)
	res := e.splicedLikeGeneral()
	assert.EqualValues(t, 6, res.RowsOut)
	assert.Contains(t, orderedRows(t, e.load(), res.Outputs, false)[0], "preset")
}

func TestFormsOfOneColumnAreBroughtTogether(t *testing.T) {
	sc := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "x", Type: iceberg.DecimalTypeOf(9, 2)})
	e := newEnv(t, sc, *iceberg.UnpartitionedSpec, nil)
	rows := []string{`{"id":1,"x":"-1.25"}`, `{"id":2,"x":"9999999.99"}`, `{"id":3,"x":"0.00"}`}
	decimal := &arrow.Decimal128Type{Precision: 9, Scale: 2}
	required := stored(1, "id", arrow.PrimitiveTypes.Int64)
	required.Nullable = false
	for _, asInteger := range []bool{false, true} {
		e.addFile(foreignFile{
			fields: []arrow.Field{stored(1, "id", arrow.PrimitiveTypes.Int64), stored(2, "x", decimal)}, rows: rows,
			props: []parquet.WriterProperty{parquet.WithStoreDecimalAsInteger(asInteger)},
		})
	}
	e.addFile(foreignFile{fields: []arrow.Field{stored(1, "id", arrow.PrimitiveTypes.Int32), stored(2, "x", &arrow.Decimal128Type{Precision: 5, Scale: 2})},
		rows: []string{`{"id":4,"x":"-999.99"}`, `{"id":null,"x":null}`}})
	e.addFile(foreignFile{fields: []arrow.Field{required, stored(2, "x", decimal)}, rows: rows})
	res := e.splicedLikeGeneral()
	assert.EqualValues(t, 11, res.RowsOut)
	assert.EqualValues(t, 4, res.Engine.Pages.Decoded, "one decimal as integer, two narrow columns, one that is required")
}

func TestFilesOfAnOldSpecAreSplicedIntoATableWithoutPartitions(t *testing.T) {
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1000, Name: "s", Transform: iceberg.IdentityTransform{}})
	e := newEnv(t, idAndText, spec, nil)
	e.appendJSON(`{"id":1,"s":"a"}`, `{"id":2,"s":"a"}`)
	e.appendJSON(`{"id":3,"s":"a"}`)
	e.commit(func(tx *table.Transaction) { require.NoError(t, tx.UpdateSpec(true).RemoveField("s").Commit()) })
	current := e.load().Spec()
	require.True(t, current.IsUnpartitioned())
	res := e.splicedLikeGeneral()
	require.Len(t, res.Outputs, 1)
	assert.Empty(t, res.Outputs[0].Partition())
	assert.EqualValues(t, current.ID(), res.Outputs[0].SpecID())
}

func TestFilesThatRequireMoreThanOthersGoTogether(t *testing.T) {
	sc := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "l", Type: &iceberg.ListType{ElementID: 3, Element: iceberg.PrimitiveTypes.String}})
	e := newEnv(t, sc, *iceberg.UnpartitionedSpec, nil)
	for i, nullable := range []bool{false, true, false} {
		id, element := stored(1, "id", arrow.PrimitiveTypes.Int64), stored(3, "element", arrow.BinaryTypes.String)
		id.Nullable, element.Nullable = nullable, nullable
		rows := []string{fmt.Sprintf(`{"id":%d,"l":["a","b"]}`, i), fmt.Sprintf(`{"id":%d,"l":[]}`, 10+i), fmt.Sprintf(`{"id":%d,"l":null}`, 20+i)}
		if nullable {
			rows = append(rows, `{"id":null,"l":[null,"c"]}`)
		}
		e.addFile(foreignFile{fields: []arrow.Field{id, stored(2, "l", arrow.ListOfField(element))}, rows: rows})
	}
	res := e.splicedLikeGeneral()
	assert.EqualValues(t, 10, res.RowsOut)
	assert.Len(t, res.created, 1, "what was begun is gone")
}

func TestColumnsAreNamedAsTheGeneralEngineNamesThem(t *testing.T) {
	p := iceberg.PrimitiveTypes
	sc := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "a.b", Type: p.Int64},
		iceberg.NestedField{ID: 2, Name: "9 lives", Type: p.String},
		iceberg.NestedField{ID: 3, Name: "größe/x", Type: &iceberg.StructType{FieldList: []iceberg.NestedField{
			{ID: 4, Name: "in.ner", Type: p.Float64},
			{ID: 5, Name: "l-i", Type: &iceberg.ListType{ElementID: 6, Element: p.Bool}},
			{ID: 7, Name: "m", Type: &iceberg.MapType{KeyID: 8, KeyType: p.String, ValueID: 9, ValueType: p.Date}},
		}}},
	)
	e := newEnv(t, sc, *iceberg.UnpartitionedSpec, nil)
	for i := range 3 {
		e.appendJSON(fmt.Sprintf(`{"a.b":%d,"9 lives":"x","größe/x":{"in.ner":1.5,"l-i":[true],"m":[{"key":"k","value":"2024-01-01"}]}}`, i))
	}
	tbl, plan := e.load(), e.plan(PlanOptions{MinInputFiles: 2})
	storage, err := tbl.FS(t.Context())
	require.NoError(t, err)
	var schemas []string
	for _, engine := range []string{EngineGeneral, EngineSplice} {
		res := rewriteWith(t, tbl, plan, Options{Engine: engine, Verify: true})[0]
		require.Equal(t, engine, res.Engine.Name)
		footer, err := footerOf(storage, res.Outputs[0].FilePath())
		require.NoError(t, err)
		var text string
		for i := range footer.Schema.NumColumns() {
			c := footer.Schema.Column(i)
			text += fmt.Sprintf("%s %d %s %s %d %d\n", c.Path(), c.SchemaNode().FieldID(), c.PhysicalType(), c.LogicalType(), c.MaxDefinitionLevel(), c.MaxRepetitionLevel())
		}
		schemas = append(schemas, text)
	}
	assert.Equal(t, schemas[0], schemas[1])
	e.splicedLikeGeneral()
}
