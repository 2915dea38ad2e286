package rewrite

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPartitionValuesThatCannotBeFilledInAreRefused(t *testing.T) {
	t.Run("required column", func(t *testing.T) {
		fields := append([]iceberg.NestedField(nil), idTextPartition.Fields()...)
		fields[2].Required = true
		e := newEnv(t, iceberg.NewSchema(0, fields...), byP(), nil)
		for i := range 6 {
			e.addForeign(map[string]int{"id": 1, "s": 2}, map[int]any{1000: "P0"}, fmt.Sprintf(`{"id":%d}`, i))
		}
		e.refusedFiles("a required column cannot be filled in")
	})
	t.Run("equality deletes on the file", func(t *testing.T) {
		e := newEnv(t, idTextPartition, byP(), nil)
		for i := range 6 {
			e.addForeign(map[string]int{"id": 1, "s": 2}, map[int]any{1000: "P0"}, fmt.Sprintf(`{"id":%d}`, i))
		}
		e.deleteRows([]int{1, 3}, `{"id":1,"p":"P0"}`)
		e.refusedFiles("equality deletes apply to the file")
	})
	t.Run("column of a type without a conversion", func(t *testing.T) {
		sc := iceberg.NewSchema(0, idTextPartition.Fields()[0], idTextPartition.Fields()[1],
			iceberg.NestedField{ID: 3, Name: "p", Type: iceberg.PrimitiveTypes.Timestamp})
		e := newEnv(t, sc, byP(), nil)
		for i := range 6 {
			e.addForeign(map[string]int{"id": 1, "s": 2}, map[int]any{1000: iceberg.Timestamp(7)}, fmt.Sprintf(`{"id":%d}`, i))
		}
		e.refusedFiles("cannot become a timestamp")
	})
}

func TestConstantsOfEveryTypeTheyHave(t *testing.T) {
	for _, c := range []struct {
		typ   arrow.DataType
		value any
		text  string
	}{
		{arrow.FixedWidthTypes.Boolean, true, "true"},
		{arrow.PrimitiveTypes.Int32, int32(-7), "-7"},
		{arrow.PrimitiveTypes.Int64, int32(-7), "-7"},
		{arrow.PrimitiveTypes.Int64, int64(1) << 40, "1099511627776"},
		{arrow.FixedWidthTypes.Date32, iceberg.Date(-1), "1969-12-31"},
		{arrow.PrimitiveTypes.Float32, float32(1.5), "1.5"},
		{arrow.PrimitiveTypes.Float64, float32(1.5), "1.5"},
		{arrow.PrimitiveTypes.Float64, 0.1, "0.1"},
		{arrow.BinaryTypes.String, "P0", "P0"},
		{&arrow.Decimal128Type{Precision: 9, Scale: 2}, iceberg.Decimal{Val: decimal128.FromI64(-125), Scale: 2}, "-1.25"},
	} {
		arr, err := constant{value: c.value}.array(c.typ, 2)
		require.NoError(t, err, "%s of %T", c.typ, c.value)
		assert.Equal(t, []string{c.text, c.text}, []string{arr.ValueStr(0), arr.ValueStr(1)})
		arr.Release()
	}
	for typ, value := range map[arrow.DataType]any{
		arrow.PrimitiveTypes.Int32: int64(1) << 40, arrow.PrimitiveTypes.Float32: 0.1, arrow.BinaryTypes.Binary: "x",
		arrow.FixedWidthTypes.Boolean: "true", arrow.BinaryTypes.String: 7,
	} {
		assert.False(t, appendValue(array.NewBuilder(memory.DefaultAllocator, typ), value), "%s of %T", typ, value)
	}
}
