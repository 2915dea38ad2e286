package rewrite

import (
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/rewritetest"
	"compactor/pkg/rewrite/splice/format"
)

// changedFooter is the file with another footer. The pages stay what they are.
func changedFooter(t *testing.T, raw []byte, change func(*format.FileMetaData)) []byte {
	t.Helper()
	end := len(raw) - 8
	start := end - int(binary.LittleEndian.Uint32(raw[end:]))
	footer, err := format.ReadFooter(raw[start:end])
	require.NoError(t, err)
	change(footer)
	out := footer.Append(append([]byte(nil), raw[:start]...))

	return append(binary.LittleEndian.AppendUint32(out, uint32(len(out)-start)), "PAR1"...)
}

// withoutIDs is the file as one writes it who knows of no table. Columns get the
// given names instead of their own.
func withoutIDs(t *testing.T, raw []byte, names map[string]string) []byte {
	t.Helper()

	return changedFooter(t, raw, func(footer *format.FileMetaData) {
		footer.KeyValues = nil // the Arrow schema, which has the ids too
		for i := range footer.Schema {
			e := &footer.Schema[i]
			if e.FieldID = nil; names[e.Name] != "" {
				e.Name = names[e.Name]
			}
		}
		for _, g := range footer.RowGroups {
			for _, c := range g.Columns {
				for i, part := range c.Meta.Path {
					if names[part] != "" {
						c.Meta.Path[i] = names[part]
					}
				}
			}
		}
	})
}

// names sets the table's name mapping.
func (e *env) names(mapping iceberg.NameMapping) {
	e.t.Helper()
	text, err := json.Marshal(mapping)
	require.NoError(e.t, err)
	e.commit(func(tx *table.Transaction) {
		require.NoError(e.t, tx.SetProperties(iceberg.Properties{table.DefaultNameMappingKey: string(text)}))
	})
}

func TestFilesWithoutIDsAreSplicedByTheirNames(t *testing.T) {
	for i, cell := range corpusCells() {
		if i%5 != 1 { // names have little to do with pages
			continue
		}
		t.Run(cell.String(), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, rewritetest.CorpusSchema(), *iceberg.UnpartitionedSpec, nil)
			sc := e.load().Schema()
			e.names(sc.NameMapping())
			for n := range 3 {
				rec, err := rewritetest.CorpusBatch(sc, cell.Nulls, 30+40*n, uint64(10*i+n))
				require.NoError(t, err)
				raw, err := rewritetest.WriteCell(cell, rec)
				require.NoError(t, err)
				if n != 1 { // files with and without ids go together
					raw = withoutIDs(t, raw, map[string]string{"list": "bag", "element": "item", "key_value": "map"})
				}
				e.addRaw(raw, rec.NumRows())
			}
			res := e.splicedLikeGeneral()
			assert.EqualValues(t, 210, res.RowsOut)
			assert.Zero(t, res.Engine.Pages.Decoded, "all of it is spliced")
		})
	}
}

// nested is a schema with a struct, whose fields have the given names.
func nested(id, st, a string, more ...iceberg.NestedField) *iceberg.Schema {
	p := iceberg.PrimitiveTypes

	return iceberg.NewSchema(0, append([]iceberg.NestedField{
		{ID: 1, Name: id, Type: p.Int64},
		{ID: 2, Name: st, Type: &iceberg.StructType{FieldList: []iceberg.NestedField{
			{ID: 3, Name: a, Type: p.String}, {ID: 4, Name: "l", Type: &iceberg.ListType{ElementID: 5, Element: p.Int32}},
		}}},
	}, more...)...)
}

// mapped is a field of a name mapping.
func mapped(id int, names []string, fields ...iceberg.MappedField) iceberg.MappedField {
	return iceberg.MappedField{FieldID: &id, Names: names, Fields: fields}
}

// addNamed adds a file of a schema without its ids.
func (e *env) addNamed(sc *iceberg.Schema, rows int) {
	e.t.Helper()
	rec, err := rewritetest.CorpusBatch(sc, "some", rows, uint64(rows))
	require.NoError(e.t, err)
	raw, err := rewritetest.WriteCell(rewritetest.Cell{Version: "v2", Encoding: "plain", Codec: "zstd"}, rec)
	require.NoError(e.t, err)
	e.addRaw(withoutIDs(e.t, raw, nil), rec.NumRows())
}

func bothNames(more ...iceberg.MappedField) iceberg.NameMapping {
	return append(iceberg.NameMapping{
		mapped(1, []string{"id", "number"}),
		mapped(2, []string{"st", "group"}, mapped(3, []string{"a", "text"}), mapped(4, []string{"l"}, mapped(5, []string{"element"}))),
	}, more...)
}

func TestRenamedColumnsOfFilesWithoutIDsAreOne(t *testing.T) {
	more := iceberg.NestedField{ID: 6, Name: "added", Type: iceberg.PrimitiveTypes.String}
	gone := iceberg.NestedField{ID: 7, Name: "gone", Type: iceberg.PrimitiveTypes.Int32}
	current := nested("number", "group", "text", more)
	e := newEnv(t, current, *iceberg.UnpartitionedSpec, nil)
	require.True(t, current.Equals(e.load().Schema()), e.load().Schema())
	e.names(bothNames(mapped(6, []string{"added"}), mapped(7, []string{"gone"})))
	e.addNamed(nested("id", "st", "a"), 30)
	e.addNamed(nested("number", "group", "text"), 40)
	e.addNamed(nested("id", "group", "a", more), 50)
	e.addNamed(nested("number", "st", "text", gone, more), 60)
	before := e.rows()
	assert.Len(t, before, 180)
	res := e.splicedLikeGeneral()
	assert.EqualValues(t, 180, res.RowsOut)
	values, nulls := res.Outputs[0].ValueCounts(), res.Outputs[0].NullValueCounts()
	for _, id := range []int{1, 3, 6} {
		assert.EqualValues(t, 180, values[id], id)
		assert.Less(t, nulls[id], int64(160), id)
	}
	assert.GreaterOrEqual(t, nulls[6], int64(70), "two files do not have it")
	e.compact(PlanOptions{MinInputFiles: 2}, Options{Engine: EngineSplice, Verify: true})
	assert.Equal(t, before, e.rows())
	e.commit(func(tx *table.Transaction) {
		require.NoError(t, tx.SetProperties(iceberg.Properties{table.DefaultNameMappingKey: "[]"}))
	})
	assert.Equal(t, before, e.rows(), "the output has ids of its own")
}

func TestFilesWhoseColumnsCannotBeToldByNameAreLeftAlone(t *testing.T) {
	more := iceberg.NestedField{ID: 6, Name: "added", Type: iceberg.PrimitiveTypes.String}
	for name, mapping := range map[string]iceberg.NameMapping{
		"column that is not mapped":      bothNames(),
		"two columns of one name and id": bothNames(mapped(1, []string{"added"})),
		"column without an id":           bothNames(iceberg.MappedField{Names: []string{"added"}}),
		"no element": {
			mapped(1, []string{"id"}), mapped(2, []string{"st"}, mapped(3, []string{"a"}), mapped(4, []string{"l"})), mapped(6, []string{"added"}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, nested("id", "st", "a", more), *iceberg.UnpartitionedSpec, nil)
			e.names(mapping)
			for n := range 3 {
				e.addNamed(nested("id", "st", "a", more), 10+n)
			}
			disk := e.onDisk()
			plan := e.plan(PlanOptions{MinInputFiles: 2})
			require.Len(t, plan.Groups, 1, plan.Reason)
			results, err := New(Options{Engine: EngineSplice}).Rewrite(t.Context(), e.load(), plan.Groups)
			require.NoError(t, err)
			require.Error(t, results[0].Err)
			require.NotErrorIs(t, results[0].Err, ErrIntegrity)
			assert.Equal(t, EngineGeneral, results[0].Engine.Name)
			t.Log(results[0].Err)
			assert.Equal(t, disk, e.onDisk())
		})
	}
}
