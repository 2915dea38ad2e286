package rewritetest

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// EventRows is how many rows of an event file take about 1 MiB.
const EventRows = 21_500

// EventSchema is like an event table: keys, times, few and many different
// values, and a list.
func EventSchema() *iceberg.Schema {
	p := iceberg.PrimitiveTypes

	return iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: p.Int64}, iceberg.NestedField{ID: 2, Name: "ts", Type: p.TimestampTz},
		iceberg.NestedField{ID: 3, Name: "region", Type: p.String}, iceberg.NestedField{ID: 4, Name: "status", Type: p.String},
		iceberg.NestedField{ID: 5, Name: "key", Type: p.String}, iceberg.NestedField{ID: 6, Name: "price", Type: p.Float64},
		iceberg.NestedField{ID: 7, Name: "score", Type: p.Float64}, iceberg.NestedField{ID: 8, Name: "lat", Type: p.Float64},
		iceberg.NestedField{ID: 9, Name: "amount", Type: iceberg.DecimalTypeOf(18, 4)}, iceberg.NestedField{ID: 10, Name: "qty", Type: p.Int32},
		iceberg.NestedField{ID: 11, Name: "flag", Type: p.Bool},
		iceberg.NestedField{ID: 12, Name: "tags", Type: &iceberg.ListType{ElementID: 13, Element: p.String}})
}

// EventFile is a zstd Parquet file of rows of an EventSchema, with ids from
// file times rows on. It has version 1 pages and a dictionary for every column,
// or version 2 pages and a dictionary where one is smaller.
func EventFile(sc *iceberg.Schema, rows int, file uint64, dictionary bool) ([]byte, error) {
	as, err := table.SchemaToArrowSchemaWithOptions(sc, table.ArrowSchemaOptions{IncludeFieldIDs: true})
	if err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	rec, err := eventBatch(as, rows, file)
	if err != nil {
		return nil, err
	}
	defer rec.Release()
	props, err := eventProperties(as, dictionary)
	if err != nil {
		return nil, err
	}
	return fileOf(rec, props, pqarrow.DefaultWriterProps())
}

// fileOf is a Parquet file of one batch.
func fileOf(rec arrow.RecordBatch, props []parquet.WriterProperty, arrowProps pqarrow.ArrowWriterProperties) ([]byte, error) {
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(rec.Schema(), &out, parquet.NewWriterProperties(props...), arrowProps)
	if err != nil {
		return nil, fmt.Errorf("begin file: %w", err)
	}
	if err := w.Write(rec); err != nil {
		return nil, fmt.Errorf("write rows: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("end file: %w", err)
	}

	return out.Bytes(), nil
}

func eventBatch(as *arrow.Schema, rows int, file uint64) (arrow.RecordBatch, error) {
	rnd := rand.New(rand.NewPCG(file, 1))
	b := array.NewRecordBuilder(memory.DefaultAllocator, as)
	defer b.Release()
	text := func(c int, v string) { b.Field(c).(interface{ Append(string) }).Append(v) }
	for i := range rows {
		id := int64(file)*int64(rows) + int64(i)
		b.Field(0).(*array.Int64Builder).Append(id)
		b.Field(1).(*array.TimestampBuilder).Append(arrow.Timestamp(1_700_000_000_000_000 + id*1000 + rnd.Int64N(900)))
		text(2, fmt.Sprintf("region-%d", rnd.IntN(12)))
		text(3, []string{"new", "paid", "sent", "done", "back"}[rnd.IntN(5)])
		text(4, fmt.Sprintf("%016x-%04x-%016x", rnd.Uint64(), rnd.IntN(1<<16), rnd.Uint64()))
		b.Field(5).(*array.Float64Builder).Append(math.Round(rnd.Float64()*1e5) / 100)
		if rnd.IntN(10) == 0 {
			b.Field(6).AppendNull()
		} else {
			b.Field(6).(*array.Float64Builder).Append(rnd.Float64())
		}
		b.Field(7).(*array.Float64Builder).Append(math.Round(rnd.Float64()*9e6) / 1e5)
		if err := b.Field(8).AppendValueFromString(fmt.Sprintf("%d.%04d", rnd.IntN(100000), rnd.IntN(10000))); err != nil {
			return nil, fmt.Errorf("write amount: %w", err)
		}
		if rnd.IntN(5) == 0 {
			b.Field(9).AppendNull()
		} else {
			b.Field(9).(*array.Int32Builder).Append(rnd.Int32N(1000))
		}
		b.Field(10).(*array.BooleanBuilder).Append(rnd.IntN(3) == 0)
		list := b.Field(11).(*array.ListBuilder)
		list.Append(true)
		for range rnd.IntN(4) {
			list.ValueBuilder().(interface{ Append(string) }).Append(fmt.Sprintf("tag-%d", rnd.IntN(200)))
		}
	}

	return b.NewRecordBatch(), nil
}

func eventProperties(as *arrow.Schema, dictionary bool) ([]parquet.WriterProperty, error) {
	props := []parquet.WriterProperty{parquet.WithCompression(compress.Codecs.Zstd)}
	if dictionary {
		return append(props, parquet.WithDataPageVersion(parquet.DataPageV1)), nil
	}
	props = append(props, parquet.WithDataPageVersion(parquet.DataPageV2))
	ps, err := pqarrow.ToParquet(as, parquet.NewWriterProperties(props...), pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, fmt.Errorf("convert schema: %w", err)
	}
	for i := range ps.NumColumns() {
		props = append(props, parquet.WithDictionaryCostFallbackFor(ps.Column(i).Path(), true))
	}

	return props, nil
}
