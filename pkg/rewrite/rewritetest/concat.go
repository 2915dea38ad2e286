package rewritetest

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// concat joins slices it takes over. It fails only on types that differ, which
// two slices of one column cannot.
func concat(parts ...arrow.Array) arrow.Array {
	defer func() {
		for _, p := range parts {
			p.Release()
		}
	}()
	out, err := array.Concatenate(parts, memory.DefaultAllocator)
	if err != nil {
		parts[0].Retain()

		return parts[0]
	}

	return out
}
