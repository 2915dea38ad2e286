package rewrite

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/variant"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// point is a point in the well-known binary form.
func point(x, y float64) []byte {
	b := append([]byte{1}, 1, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))

	return binary.LittleEndian.AppendUint64(b, math.Float64bits(y))
}

// variantOf is a value of the variant type.
func variantOf(t *testing.T, v any) variant.Value {
	t.Helper()
	var b variant.Builder
	require.NoError(t, b.Append(v))
	out, err := b.Build()
	require.NoError(t, err)

	return out
}

// columnV3 is a column of n rows from row number from on; every fifth is null.
func columnV3(t *testing.T, field arrow.Field, from, n int) arrow.Array {
	t.Helper()
	kind := field.Type
	wrapped, isWrapped := kind.(arrow.ExtensionType)
	_, isVariant := kind.(*extensions.VariantType)
	if isWrapped && !isVariant {
		kind = wrapped.StorageType()
	}
	if nested := nestedV3(t, field, from, n); nested != nil {
		return nested
	}
	b := array.NewBuilder(memory.DefaultAllocator, kind)
	defer b.Release()
	for i := from; i < from+n; i++ {
		if i%5 == 4 {
			b.AppendNull()

			continue
		}
		switch b := b.(type) {
		case *array.Int64Builder:
			b.Append(int64(i))
		case *array.TimestampBuilder:
			b.Append(arrow.Timestamp(int64(i)*1_000_000_007 - 3_000_000_001))
		case *extensions.VariantBuilder:
			b.Append(variantOf(t, []any{
				int64(i), fmt.Sprint("text ", i), map[string]any{"a": int64(i), "b": "x"}, []any{int64(1), nil, "y"}}[i%4]))
		case *array.BinaryBuilder:
			b.Append(point(float64(i), -float64(i)/2))
		default:
			b.AppendNull()
		}
	}
	if isWrapped && !isVariant {
		return array.NewExtensionArrayWithStorage(wrapped, b.NewArray())
	}

	return b.NewArray()
}

// nestedV3 is a column of structs, or of lists or maps of one entry.
func nestedV3(t *testing.T, field arrow.Field, from, n int) arrow.Array {
	t.Helper()
	offsets := make([]byte, 0, 4*n+4)
	for i := range n + 1 {
		offsets = binary.LittleEndian.AppendUint32(offsets, uint32(i))
	}
	switch kind := field.Type.(type) {
	case *arrow.StructType:
		var children []arrow.Array
		for _, f := range kind.Fields() {
			children = append(children, columnV3(t, f, from, n))
		}
		out, err := array.NewStructArrayWithFields(children, kind.Fields())
		require.NoError(t, err)

		return out
	case *arrow.ListType:
		items := columnV3(t, kind.ElemField(), from, n)

		return array.NewListData(array.NewData(kind, n, []*memory.Buffer{nil, memory.NewBufferBytes(offsets)}, []arrow.ArrayData{items.Data()}, 0, 0))
	case *arrow.MapType:
		keys := array.NewStringBuilder(memory.DefaultAllocator)
		for range n {
			keys.Append("key")
		}
		entries, err := array.NewStructArrayWithFields([]arrow.Array{keys.NewArray(), columnV3(t, kind.ItemField(), from, n)},
			[]arrow.Field{kind.KeyField(), kind.ItemField()})
		require.NoError(t, err)

		return array.NewMapData(array.NewData(kind, n, []*memory.Buffer{nil, memory.NewBufferBytes(offsets)}, []arrow.ArrayData{entries.Data()}, 0, 0))
	}

	return nil
}

func (e *env) appendV3(from, n int) *table.Table {
	e.t.Helper()
	sc, err := table.SchemaToArrowSchemaWithOptions(e.load().Schema(), table.ArrowSchemaOptions{})
	require.NoError(e.t, err)
	var columns []arrow.Array
	for _, field := range sc.Fields() {
		columns = append(columns, columnV3(e.t, field, from, n))
	}

	return e.appendBatch(array.NewRecordBatch(sc, columns, int64(n)))
}

func typesOfVersion3(t *testing.T) map[string]iceberg.Type {
	t.Helper()
	geography, err := iceberg.GeographyTypeOf("OGC:CRS84", "spherical")
	require.NoError(t, err)

	return map[string]iceberg.Type{
		"nanosecond timestamp":           iceberg.PrimitiveTypes.TimestampNs,
		"nanosecond timestamp with zone": iceberg.PrimitiveTypes.TimestampTzNs,
		"variant":                        iceberg.VariantType{},
		"geometry":                       iceberg.GeometryType{},
		"geography":                      geography,
		"unknown":                        iceberg.PrimitiveTypes.Unknown,
	}
}

func TestTypesOfVersion3(t *testing.T) {
	id := iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64}
	for name, typ := range typesOfVersion3(t) {
		for _, engine := range []string{EngineGeneral, EngineSplice} {
			t.Run(name+" "+engine, func(t *testing.T) {
				e := newEnv(t, iceberg.NewSchema(0, id, iceberg.NestedField{ID: 2, Name: "x", Type: typ}), *iceberg.UnpartitionedSpec,
					iceberg.Properties{"format-version": "3"})
				for i := range 6 {
					e.appendV3(7*i, 7)
				}
				data, _ := e.files()
				e.deleteVector(position{data[0].FilePath(), 1}, position{data[3].FilePath(), 4})
				e.deleteEqual(1, `{"id":12}`)
				require.Len(t, e.rows(), 39)
				out := e.sameRows(PlanOptions{}, Options{Engine: engine})
				require.Len(t, out.results, 1)
				boundsOfVersion3(t, e.load(), out.results[0].Outputs[0], typ)
				assert.Empty(t, e.plan(PlanOptions{}).Groups)
			})
		}
	}
}

// boundsOfVersion3 compares the metrics of a column of points with the points,
// and those of other types with their values; variants and points on a globe
// have no bounds.
func boundsOfVersion3(t *testing.T, tbl *table.Table, df iceberg.DataFile, typ iceberg.Type) {
	t.Helper()
	low, high := df.LowerBoundValues()[2], df.UpperBoundValues()[2]
	switch typ.(type) {
	case iceberg.GeometryType:
		assert.Equal(t, point(0, -20.5)[5:], low)
		assert.Equal(t, point(41, math.Copysign(0, -1))[5:], high)
		assert.EqualValues(t, 39, df.ValueCounts()[2])
		assert.EqualValues(t, 8, df.NullValueCounts()[2])
	case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		assert.NotEmpty(t, low)
		exactMetrics(t, tbl, []iceberg.DataFile{df})
	default:
		assert.Empty(t, low)
		assert.Empty(t, high)
		exactMetrics(t, tbl, []iceberg.DataFile{df})
	}
}

// nestedRefusals say what becomes of types that cannot be read where they are.
var nestedRefusals = map[string]string{
	"variant in a list": "variants inside a list or map", "variant in a map": "variants inside a list or map",
	"geometry in a list": "is stored as binary", "geography in a list": "is stored as binary",
}

func TestNestedTypesOfVersion3(t *testing.T) {
	for name, typ := range typesOfVersion3(t) {
		for where, nested := range map[string]iceberg.Type{
			"struct": &iceberg.StructType{FieldList: []iceberg.NestedField{{ID: 3, Name: "in", Type: typ}, {ID: 4, Name: "n", Type: iceberg.PrimitiveTypes.Int64}}},
			"list":   &iceberg.ListType{ElementID: 3, Element: typ},
			"map":    &iceberg.MapType{KeyID: 3, KeyType: iceberg.PrimitiveTypes.String, ValueID: 4, ValueType: typ},
		} {
			t.Run(name+" in a "+where, func(t *testing.T) {
				e := newEnv(t, iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64}, iceberg.NestedField{ID: 2, Name: "x", Type: nested}),
					*iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": "3"})
				for i := range 2 {
					e.appendV3(7*i, 7)
				}
				o := PlanOptions{MinInputFiles: 2}
				if reason := nestedRefusals[name+" in a "+where]; reason != "" {
					plan := e.plan(o)
					require.NoError(t, plan.Inspect(t.Context(), e.load()))
					assert.Empty(t, plan.Groups)
					require.Len(t, plan.Refused, 1)
					assert.Contains(t, plan.Refused[0].Reason, reason)

					return
				}
				out := e.sameRows(o, Options{})
				require.Len(t, out.results, 1)
				exactMetrics(t, e.load(), out.results[0].Outputs)
			})
		}
	}
}

func TestHashOfAVariantIsThatOfItsMeaning(t *testing.T) {
	keys := []byte{0x01, 2, 0, 1, 2, 'a', 'b'}
	inOrder := []byte{0x02, 2, 0, 1, 0, 2, 4, 0x0c, 1, 0x0c, 2} // {"a":1,"b":2}
	reverse := []byte{0x02, 2, 0, 1, 2, 0, 4, 0x0c, 2, 0x0c, 1}
	swapped := []byte{0x02, 2, 0, 1, 0, 2, 4, 0x0c, 2, 0x0c, 1} // {"a":2,"b":1}
	hash := func(value []byte) string {
		v, err := variant.New(keys, value)
		require.NoError(t, err)

		return string(appendVariant(nil, v))
	}
	assert.Equal(t, hash(inOrder), hash(reverse))
	assert.NotEqual(t, hash(inOrder), hash(swapped))
	assert.Equal(t, hash([]byte{0x0c, 0xff}), hash([]byte{0x10, 0xff, 0xff}), "minus one is minus one in one byte and in two")
	assert.NotEqual(t, hash([]byte{0x0c, 1}), hash([]byte{0x38, 0, 0, 0x80, 0x3f}), "an integer is no float")
	assert.Equal(t, hash([]byte{0x05, 'x'}), hash([]byte{0x40, 1, 0, 0, 0, 'x'}), "a short text is a text")

	b := array.NewBuilder(memory.DefaultAllocator, extensions.NewDefaultVariantType()).(*extensions.VariantBuilder)
	defer b.Release()
	b.AppendNull()
	b.Append(variant.NullValue)
	arr := b.NewArray()
	defer arr.Release()
	encode := encoderOf(arr)
	assert.NotEqual(t, encode(nil, 0), encode(nil, 1), "a variant that holds null is a value")
}
