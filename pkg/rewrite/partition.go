package rewrite

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// partitionKey is a partition tuple as a map key. Values are typed, so a null,
// the text "null" and the text "<nil>" are three keys; integers of different
// widths are one, because a column may have been widened between manifests.
func partitionKey(spec iceberg.PartitionSpec, values map[int]any) string {
	var b strings.Builder
	for _, field := range spec.Fields() {
		text := "n"
		if v := values[field.FieldID]; v != nil {
			text = typedText(v)
		}
		fmt.Fprintf(&b, "%d:%d:%s", field.FieldID, len(text), text)
	}

	return b.String()
}

func typedText(v any) string {
	// A decimal has one type when it was read and another when it was written.
	if num, ok := decimalOf(v); ok {
		return "d" + num.BigInt().String()
	}
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Bool:
		return fmt.Sprintf("b%t", rv.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("i%d", rv.Int())
	case reflect.Float32, reflect.Float64:
		return fmt.Sprintf("f%x", math.Float64bits(rv.Float()))
	case reflect.String:
		return "s" + rv.String()
	case reflect.Slice:
		if raw, ok := v.([]byte); ok {
			return fmt.Sprintf("x%x", raw)
		}
	}

	return fmt.Sprintf("o%T|%v", v, v)
}

// partitionPath is the tuple as people write it, such as p=a/d=2024-01-01;
// empty for an unpartitioned spec.
func partitionPath(spec iceberg.PartitionSpec, schema *iceberg.Schema, df iceberg.DataFile) string {
	if spec.IsUnpartitioned() {
		return ""
	}

	return spec.PartitionToPath(table.GetPartitionRecord(df, spec.PartitionType(schema)), schema)
}
