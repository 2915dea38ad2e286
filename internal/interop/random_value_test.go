//go:build interop

package interop

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/apache/iceberg-go"
)

// kinds are the column types that random tables of a format version are made of.
func kinds(version int) []iceberg.Type {
	p := iceberg.PrimitiveTypes
	var newer []iceberg.Type
	if version > 2 {
		newer = []iceberg.Type{p.TimestampNs} // DuckDB does not know timestamptz_ns
	}

	return append(newer,
		p.Bool, p.Int32, p.Int64, p.Float32, p.Float64, p.Date, p.Timestamp, p.TimestampTz, p.String, p.String, p.Binary, p.UUID,
		iceberg.DecimalTypeOf(9, 2), iceberg.DecimalTypeOf(18, 4), iceberg.DecimalTypeOf(38, 10),
		&iceberg.StructType{FieldList: []iceberg.NestedField{{Name: "a", Type: p.Int64}, {Name: "ü b", Type: p.String}}},
		&iceberg.ListType{Element: p.String}, &iceberg.MapType{KeyType: p.String, ValueType: p.Float64},
		&iceberg.ListType{Element: &iceberg.StructType{FieldList: []iceberg.NestedField{{Name: "x", Type: p.Date}}}},
	)
}

// numbered gives the fields inside a type ids of their own, from next on.
func numbered(typ iceberg.Type, next *int) iceberg.Type {
	take := func() int { *next++; return *next - 1 }
	switch t := typ.(type) {
	case *iceberg.StructType:
		out := &iceberg.StructType{}
		for _, f := range t.FieldList {
			f.ID = take()
			f.Type = numbered(f.Type, next)
			out.FieldList = append(out.FieldList, f)
		}

		return out
	case *iceberg.ListType:
		id := take()

		return &iceberg.ListType{ElementID: id, Element: numbered(t.Element, next)}
	case *iceberg.MapType:
		key, value := take(), take()

		return &iceberg.MapType{KeyID: key, KeyType: t.KeyType, ValueID: value, ValueType: numbered(t.ValueType, next)}
	default:
		return typ
	}
}

// value is a random value of a type as JSON, often from a small set, so that
// partitions have several rows.
func value(r *rand.Rand, typ iceberg.Type) string {
	if r.IntN(7) == 0 {
		return "null"
	}
	n := r.IntN(5) - 2
	if r.IntN(3) == 0 {
		n = r.IntN(2_000_000) - 1_000_000
	}
	switch t := typ.(type) {
	case iceberg.BooleanType:
		return fmt.Sprint(n%2 == 0)
	case iceberg.Int32Type:
		return fmt.Sprint(n)
	case iceberg.Int64Type:
		return fmt.Sprint(int64(n) * 5_000_000_000)
	case iceberg.Float32Type, iceberg.Float64Type:
		return fmt.Sprintf("%d.25", n)
	case iceberg.DateType:
		return fmt.Sprintf(`"%04d-%02d-%02d"`, 1970+n%60, 1+(n*n)%12, 1+(n*n)%28)
	case iceberg.TimestampType:
		return moment(n, "")
	case iceberg.TimestampTzType:
		return moment(n, "Z")
	case iceberg.TimestampNsType:
		return moment(n, fmt.Sprintf("%03d", n*n%1000))
	case iceberg.StringType:
		return fmt.Sprintf(`"%s%d"`, []string{"", "a/b=", "käse 🧀 ", strings.Repeat("long", 6), "%20"}[r.IntN(5)], n)
	case iceberg.BinaryType:
		return fmt.Sprintf("%q", base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "\xff\x00%d", n)))
	case iceberg.UUIDType:
		return fmt.Sprintf(`"00000000-0000-4000-8000-%012x"`, n&0xffffff)
	case iceberg.DecimalType:
		return fmt.Sprintf(`"%d.%0*d"`, n, t.Scale(), 25)
	default:
		return nestedValue(r, typ)
	}
}

// moment is a time in microseconds, followed by more digits and the zone.
func moment(n int, rest string) string {
	return fmt.Sprintf(`"%04d-%02d-%02d %02d:30:59.%06d%s"`, 1970+n%60, 1+(n*n)%12, 1+(n*n)%28, (n*n)%24, (n*n)%1_000_000, rest)
}

func nestedValue(r *rand.Rand, typ iceberg.Type) string {
	switch t := typ.(type) {
	case *iceberg.StructType:
		var fields []string
		for _, f := range t.FieldList {
			fields = append(fields, fmt.Sprintf("%q:%s", f.Name, value(r, f.Type)))
		}

		return "{" + strings.Join(fields, ",") + "}"
	case *iceberg.ListType:
		var items []string
		for range r.IntN(3) {
			items = append(items, value(r, t.Element))
		}

		return "[" + strings.Join(items, ",") + "]"
	case *iceberg.MapType:
		var items []string
		for i := range r.IntN(3) {
			items = append(items, fmt.Sprintf(`{"key":"k%d","value":%s}`, i, value(r, t.ValueType)))
		}

		return "[" + strings.Join(items, ",") + "]"
	default:
		return "null"
	}
}

// transforms are those that a column of the type can be partitioned by.
func transforms(typ iceberg.Type) []iceberg.Transform {
	bucket, identity := iceberg.BucketTransform{NumBuckets: 3}, iceberg.IdentityTransform{}
	times := []iceberg.Transform{iceberg.YearTransform{}, iceberg.MonthTransform{}, iceberg.DayTransform{}}
	switch typ.(type) {
	case iceberg.Int32Type, iceberg.Int64Type:
		return []iceberg.Transform{identity, bucket, iceberg.TruncateTransform{Width: 10}}
	case iceberg.DecimalType: // DuckDB ends with an internal error over truncated ones below zero
		return []iceberg.Transform{identity, bucket}
	case iceberg.StringType:
		return []iceberg.Transform{identity, bucket, iceberg.TruncateTransform{Width: 3}}
	case iceberg.DateType:
		return append(times, identity, bucket)
	case iceberg.TimestampType, iceberg.TimestampTzType, iceberg.TimestampNsType:
		return append(times, iceberg.HourTransform{}, bucket)
	case iceberg.BooleanType:
		return []iceberg.Transform{identity}
	case iceberg.BinaryType: // DuckDB looks for UUIDs in the wrong bucket
		return []iceberg.Transform{bucket}
	default:
		return nil
	}
}
