package remake

import (
	"fmt"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"compactor/pkg/rewrite/splice/format"
	"compactor/pkg/rewrite/splice/page"
)

// mostDigits is the largest precision of a decimal in Iceberg. Which precision
// the written chunk names does not matter, only that its order is one of numbers.
const mostDigits = 38

// schemaOf is the plainest schema whose only leaf has the levels of the column.
func schemaOf(leaf page.Leaf) (*schema.GroupNode, error) {
	node, err := leafNode(leaf)
	if err != nil {
		return nil, err
	}
	for range leaf.MaxDef - leaf.MaxRep {
		if node, err = schema.NewGroupNode("o", parquet.Repetitions.Optional, schema.FieldList{node}, -1); err != nil {
			return nil, fmt.Errorf("describe column: %w", err)
		}
	}
	for range leaf.MaxRep {
		if node, err = schema.NewGroupNode("r", parquet.Repetitions.Repeated, schema.FieldList{node}, -1); err != nil {
			return nil, fmt.Errorf("describe column: %w", err)
		}
	}
	root, err := schema.NewGroupNode("table", parquet.Repetitions.Required, schema.FieldList{node}, -1)
	if err != nil {
		return nil, fmt.Errorf("describe column: %w", err)
	}

	return root, nil
}

func leafNode(leaf page.Leaf) (schema.Node, error) {
	physical := map[format.Type]parquet.Type{
		format.Boolean: parquet.Types.Boolean, format.Int32: parquet.Types.Int32, format.Int64: parquet.Types.Int64,
		format.Float: parquet.Types.Float, format.Double: parquet.Types.Double,
		format.ByteArray: parquet.Types.ByteArray, format.FixedLenByteArray: parquet.Types.FixedLenByteArray,
	}
	typ, known := physical[leaf.Type]
	if !known {
		return nil, fmt.Errorf("%w: physical type %d", ErrCorrupt, leaf.Type)
	}
	length := -1
	if leaf.Type == format.FixedLenByteArray {
		length = leaf.TypeLength
	}
	if !leaf.SignedBytes {
		node, err := schema.NewPrimitiveNode("v", parquet.Repetitions.Required, typ, -1, int32(length))
		if err != nil {
			return nil, fmt.Errorf("describe column: %w", err)
		}

		return node, nil
	}
	digits := int32(mostDigits)
	for ; digits > 1 && leaf.Type == format.FixedLenByteArray && bytesFor(digits) > length; digits-- {
	}
	node, err := schema.NewPrimitiveNodeLogical("v", parquet.Repetitions.Required, schema.NewDecimalLogicalType(digits, 0), typ, length, -1)
	if err != nil {
		return nil, fmt.Errorf("describe column: %w", err)
	}

	return node, nil
}
