package rewrite

import (
	"bytes"
	"cmp"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// truth is what a column of a file really holds.
type truth struct {
	values, nulls, nans int64
	low, high           any // nil without a value that is ordered
}

// exactMetrics reads each output and compares what its manifest entry says about
// every column outside of lists and maps with what is there: counts exactly,
// bounds exactly but for texts, which may be cut.
func exactMetrics(t *testing.T, tbl *table.Table, outputs []iceberg.DataFile) {
	t.Helper()
	checked := 0
	for _, df := range outputs {
		columns := make(map[int]*truth)
		files := []File{{Data: df, SequenceNumber: tbl.CurrentSnapshot().SequenceNumber}}
		require.NoError(t, eachBatch(t.Context(), tbl, files, readOptions{batchRows: 1000, batchBytes: 1 << 20}, func(rec arrow.RecordBatch) {
			for i, field := range tbl.Schema().Fields() {
				gather(columns, field, rec.Column(i), nil)
			}
		}))
		for id, c := range columns {
			name, _ := tbl.Schema().FindColumnName(id)
			values, counted := df.ValueCounts()[id]
			if !counted { // metrics are off for it, or it is a type without any
				continue
			}
			assert.Equal(t, c.values, values, "values of %s", name)
			assert.Equal(t, c.nulls, df.NullValueCounts()[id], "nulls of %s", name)
			if nans, ok := df.NaNValueCounts()[id]; ok {
				assert.Equal(t, c.nans, nans, "NaNs of %s", name)
			}
			field, _ := tbl.Schema().FindFieldByID(id)
			exactBounds(t, df, field, c)
			checked++
		}
	}
	require.Positive(t, checked)
}

func exactBounds(t *testing.T, df iceberg.DataFile, field iceberg.NestedField, c *truth) {
	t.Helper()
	low, hasLow := df.LowerBoundValues()[field.ID]
	high, hasHigh := df.UpperBoundValues()[field.ID]
	if c.low == nil {
		assert.False(t, hasLow || hasHigh, "%s has bounds and no value", field.Name)

		return
	}
	if hasLow {
		lit, err := iceberg.LiteralFromBytes(field.Type, low)
		require.NoError(t, err)
		got := ordered(lit.Any())
		if text, ok := got.([]byte); ok {
			assert.True(t, bytes.HasPrefix(c.low.([]byte), text), "lower bound %x of %s, least %x", text, field.Name, c.low)
		} else {
			assert.Zero(t, order(got, c.low), "lower bound %v of %s, least %v", got, field.Name, c.low)
		}
	}
	if hasHigh {
		lit, err := iceberg.LiteralFromBytes(field.Type, high)
		require.NoError(t, err)
		got := ordered(lit.Any())
		if _, text := got.([]byte); text {
			assert.GreaterOrEqual(t, order(got, c.high), 0, "upper bound %x of %s, largest %x", got, field.Name, c.high)
		} else {
			assert.Zero(t, order(got, c.high), "upper bound %v of %s, largest %v", got, field.Name, c.high)
		}
	}
}

// gather walks a column down its structs.
func gather(columns map[int]*truth, field iceberg.NestedField, arr arrow.Array, parents []arrow.Array) {
	parents = append(slices.Clone(parents), arr)
	if st, ok := field.Type.(*iceberg.StructType); ok {
		for i, f := range st.FieldList {
			gather(columns, f, arr.(*array.Struct).Field(i), parents)
		}

		return
	}
	if _, primitive := field.Type.(iceberg.PrimitiveType); !primitive {
		return
	}
	c := columns[field.ID]
	if c == nil {
		c = &truth{}
		columns[field.ID] = c
	}
	for row := range arr.Len() {
		c.values++
		if nullAt(parents, row) {
			c.nulls++

			continue
		}
		v := ordered(valueAt(arr, row))
		if f, ok := v.(float64); ok && math.IsNaN(f) {
			c.nans++

			continue
		}
		if v == nil {
			continue
		}
		if c.low == nil || order(v, c.low) < 0 {
			c.low = v
		}
		if c.high == nil || order(v, c.high) > 0 {
			c.high = v
		}
	}
}

// valueAt is a value in the Go type that iceberg-go's literals have.
func valueAt(arr arrow.Array, row int) any {
	switch a := arr.(type) {
	case array.ExtensionArray:
		return valueAt(a.Storage(), row)
	case *array.Decimal128:
		return a.Value(row).BigInt()
	case array.StringLike:
		return []byte(a.Value(row))
	case interface{ Value(int) []byte }:
		return slices.Clone(a.Value(row))
	case *array.Boolean:
		return a.Value(row)
	case *array.Int32:
		return a.Value(row)
	case *array.Int64:
		return a.Value(row)
	case *array.Date32:
		return int32(a.Value(row))
	case *array.Time64:
		return int64(a.Value(row))
	case *array.Timestamp:
		return int64(a.Value(row))
	case *array.Float32:
		return a.Value(row)
	case *array.Float64:
		return a.Value(row)
	default:
		return nil
	}
}

// ordered reduces values to int64, float64, bytes and big integers.
func ordered(v any) any {
	switch x := v.(type) {
	case bool:
		return int64(count(x))
	case int32:
		return int64(x)
	case int64:
		return x
	case iceberg.Date:
		return int64(x)
	case iceberg.Time:
		return int64(x)
	case iceberg.Timestamp:
		return int64(x)
	case iceberg.TimestampNano:
		return int64(x)
	case float32:
		return float64(x)
	case float64:
		return x
	case string:
		return []byte(x)
	case []byte:
		return x
	case interface{ MarshalBinary() ([]byte, error) }: // a UUID
		raw, _ := x.MarshalBinary()

		return raw
	case iceberg.Decimal:
		return x.Val.BigInt()
	case *big.Int:
		return x
	default:
		return nil
	}
}

func order(a, b any) int {
	switch x := a.(type) {
	case int64:
		return cmp.Compare(x, b.(int64))
	case float64:
		y := b.(float64)
		if x == y { // both zeros are one
			return 0
		}

		return cmp.Compare(x, y)
	case []byte:
		return bytes.Compare(x, b.([]byte))
	default:
		return a.(*big.Int).Cmp(b.(*big.Int))
	}
}
