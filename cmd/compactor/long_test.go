//go:build long

package main

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
)

// The big form of the sliced file: 301 MB with several row groups beside four
// tiny files, every setting at its default.
func TestCase_C1_slicesBigForm(t *testing.T) {
	w := newWorld(t)
	sc := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "s", Type: iceberg.PrimitiveTypes.Binary},
	)
	tabletest.Create(w.direct.Context(context.Background()), t, w.direct.Client(), w.ident, sc)
	fill := func(n int) func(*array.RecordBuilder) {
		return func(b *array.RecordBuilder) {
			raw := make([]byte, 56)
			for i := range n {
				_, err := rand.Read(raw)
				require.NoError(t, err)
				b.Field(0).(*array.Int64Builder).Append(int64(i))
				b.Field(1).(*array.BinaryBuilder).Append(raw)
			}
		}
	}
	tbl := addFiles(t, w.load(), 1, fill(5_200_000))
	addFiles(t, tbl, 4, fill(10))
	require.Equal(t, int64(5_200_040), rowCount(t, w.load()))
	r := w.compact("--verify")
	require.Equal(t, 0, r.code, r.stdout+r.stderr)
	require.Equal(t, int64(5_200_040), rowCount(t, w.load()))
}

// 1 GiB of input in the memory that the contract names.
func TestMemoryOfOneGiB(t *testing.T) { compactsWithin(t, 64, 512, "general") }
