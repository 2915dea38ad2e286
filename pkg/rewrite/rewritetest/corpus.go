package rewritetest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// Cell is one way to write Parquet files.
type Cell struct {
	Version  string // v1 or v2 data pages
	Encoding string // plain, dictionary, delta, deltabytes, split
	Codec    string // zstd, snappy, gzip, none
	Nulls    string // none, some, runs, all
}

// String names the cell.
func (c Cell) String() string {
	return fmt.Sprintf("%s-%s-%s-%s", c.Version, c.Encoding, c.Codec, c.Nulls)
}

// Cells are all combinations.
func Cells() []Cell { return cells(func(int) bool { return true }) }

// Covering are a quarter of the combinations, in which every two values of
// different properties meet.
func Covering() []Cell { return cells(func(sum int) bool { return sum%4 == 0 }) }

func cells(keep func(sum int) bool) []Cell {
	var out []Cell
	for iv, v := range []string{"v1", "v2"} {
		for ie, e := range []string{"plain", "dictionary", "delta", "deltabytes", "split"} {
			for ic, c := range []string{"zstd", "snappy", "gzip", "none"} {
				for in, n := range []string{"none", "some", "runs", "all"} {
					if keep(iv + ie + ic + in) {
						out = append(out, Cell{Version: v, Encoding: e, Codec: c, Nulls: n})
					}
				}
			}
		}
	}

	return out
}

// CorpusSchema has every primitive type flat, in a list, in a map and in a
// struct that holds a list.
func CorpusSchema() *iceberg.Schema {
	p := iceberg.PrimitiveTypes
	types := []iceberg.Type{
		p.Bool, p.Int32, p.Int64, p.Float32, p.Float64, p.Date, p.Time, p.Timestamp, p.TimestampTz, p.String, p.Binary,
		p.UUID, iceberg.FixedTypeOf(5), iceberg.DecimalTypeOf(9, 2), iceberg.DecimalTypeOf(18, 4), iceberg.DecimalTypeOf(38, 10),
	}
	id := 0
	next := func() int { id++; return id }
	var fields []iceberg.NestedField
	for i, t := range types {
		fields = append(fields,
			iceberg.NestedField{ID: next(), Name: fmt.Sprintf("flat_%d", i), Type: t},
			iceberg.NestedField{ID: next(), Name: fmt.Sprintf("list_%d", i), Type: &iceberg.ListType{ElementID: next(), Element: t}},
			iceberg.NestedField{ID: next(), Name: fmt.Sprintf("map_%d", i), Type: &iceberg.MapType{
				KeyID: next(), KeyType: p.String, ValueID: next(), ValueType: t}},
			iceberg.NestedField{ID: next(), Name: fmt.Sprintf("struct_%d", i), Type: &iceberg.StructType{FieldList: []iceberg.NestedField{
				{ID: next(), Name: "a", Type: t},
				{ID: next(), Name: "b", Type: &iceberg.ListType{ElementID: next(), Element: t}},
			}}})
	}

	return iceberg.NewSchema(0, fields...)
}

// CorpusBatch has rows of random values in the columns of a schema. Values repeat,
// as in a table; now and then a file has values of its own.
func CorpusBatch(sc *iceberg.Schema, nulls string, rows int, seed uint64) (arrow.RecordBatch, error) {
	as, err := table.SchemaToArrowSchemaWithOptions(sc, table.ArrowSchemaOptions{IncludeFieldIDs: true})
	if err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, as)
	defer b.Release()
	g := generator{rnd: rand.New(rand.NewPCG(seed, seed)), nulls: nulls, seed: seed}
	for c := range as.Fields() {
		for row := range rows {
			g.row = row
			g.append(b.Field(c))
		}
	}

	return b.NewRecordBatch(), nil
}

type generator struct {
	rnd   *rand.Rand
	nulls string
	seed  uint64
	row   int
}

func (g *generator) null() bool {
	switch g.nulls {
	case "all":
		return true
	case "some":
		return g.rnd.IntN(5) == 0
	case "runs":
		return g.row/37%2 == 1
	default:
		return false
	}
}

func (g *generator) append(b array.Builder) {
	if g.null() {
		b.AppendNull()

		return
	}
	switch b := b.(type) {
	case *array.MapBuilder:
		b.Append(true)
		for i := range g.rnd.IntN(3) {
			b.KeyBuilder().(*array.StringBuilder).Append(fmt.Sprintf("k%d", i))
			g.append(b.ItemBuilder())
		}
	case *array.ListBuilder:
		b.Append(true)
		for range g.rnd.IntN(4) {
			g.append(b.ValueBuilder())
		}
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			g.append(b.FieldBuilder(i))
		}
	default:
		g.value(b)
	}
}

// number is one of few values, or one that only this file has.
func (g *generator) number() int64 {
	if g.rnd.IntN(4) == 0 {
		return int64(g.seed)*1000 + g.rnd.Int64N(50)
	}

	return g.rnd.Int64N(12) - 5
}

func (g *generator) float() float64 {
	switch g.rnd.IntN(12) {
	case 0:
		return math.NaN()
	case 1:
		return math.Copysign(0, -1)
	case 2:
		return math.Inf(-1)
	default:
		return float64(g.number()) / 4
	}
}

func (g *generator) value(b array.Builder) {
	n := g.number()
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(n%2 == 0)
	case *array.Int32Builder:
		b.Append(int32(n))
	case *array.Int64Builder:
		b.Append(n)
	case *array.Float32Builder:
		b.Append(float32(g.float()))
	case *array.Float64Builder:
		b.Append(g.float())
	case *array.Date32Builder:
		b.Append(arrow.Date32(n))
	case *array.Time64Builder:
		b.Append(arrow.Time64(n & math.MaxInt16))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(n))
	case *array.StringBuilder:
		b.Append(fmt.Sprintf("texté %d", n))
	case *array.LargeStringBuilder:
		b.Append(fmt.Sprintf("texté %d", n))
	case *array.BinaryBuilder:
		b.Append(fmt.Appendf(nil, "\xff%d", n))
	case *array.FixedSizeBinaryBuilder:
		b.Append(fmt.Appendf(nil, "%016x", uint64(n))[16-b.Type().(*arrow.FixedSizeBinaryType).ByteWidth:])
	case *array.ExtensionBuilder:
		g.value(b.StorageBuilder())
	case *array.Decimal128Builder:
		b.Append(decimal128.FromI64(n))
	default:
		if err := b.AppendValueFromString(fmt.Sprintf("00000000-0000-4000-8000-%012x", uint64(n)&0xffffff)); err != nil {
			b.AppendNull()
		}
	}
}

// WriteCell writes a batch the way a cell says.
func WriteCell(c Cell, rec arrow.RecordBatch) ([]byte, error) {
	props := []parquet.WriterProperty{
		parquet.WithCompression(map[string]compress.Compression{
			"zstd": compress.Codecs.Zstd, "snappy": compress.Codecs.Snappy, "gzip": compress.Codecs.Gzip, "none": compress.Codecs.Uncompressed,
		}[c.Codec]),
		parquet.WithDataPageVersion(map[string]parquet.DataPageVersion{"v1": parquet.DataPageV1, "v2": parquet.DataPageV2}[c.Version]),
		parquet.WithDictionaryDefault(c.Encoding == "dictionary"),
		parquet.WithDataPageSize(512), parquet.WithBatchSize(50),
	}
	arrowProps := pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema())
	sc, err := pqarrow.ToParquet(rec.Schema(), parquet.NewWriterProperties(props...), arrowProps)
	if err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	for i := range sc.NumColumns() {
		col := sc.Column(i)
		if e, ok := encodingFor(c.Encoding, col.PhysicalType()); ok {
			props = append(props, parquet.WithEncodingFor(col.Path(), e))
		}
	}
	return fileOf(rec, props, arrowProps)
}

func encodingFor(name string, t parquet.Type) (parquet.Encoding, bool) {
	number := t == parquet.Types.Int32 || t == parquet.Types.Int64
	switch {
	case name == "delta" && number:
		return parquet.Encodings.DeltaBinaryPacked, true
	case name == "delta" && t == parquet.Types.ByteArray:
		return parquet.Encodings.DeltaLengthByteArray, true
	case name == "deltabytes" && t == parquet.Types.ByteArray:
		return parquet.Encodings.DeltaByteArray, true
	case name == "split" && (number || t == parquet.Types.Float || t == parquet.Types.Double || t == parquet.Types.FixedLenByteArray):
		return parquet.Encodings.ByteStreamSplit, true
	case name == "delta" && t == parquet.Types.Boolean:
		return parquet.Encodings.RLE, true
	default:
		return parquet.Encodings.Plain, false
	}
}
