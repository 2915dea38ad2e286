//go:build bench

package rewrite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// benchSet is a table of many small files.
type benchSet struct {
	name       string
	rows       int  // of a file
	dictionary bool // version 1 pages, a dictionary for every column
}

// benchSets are the tables. REWRITE_BENCH_MB says how much of each is made.
func benchSets() []benchSet {
	return []benchSet{
		{name: "1 MiB files", rows: 21_500}, {name: "64 KiB files", rows: 1_150}, {name: "dictionaries", rows: 21_500, dictionary: true},
	}
}

// benchTable is the set's table and the size of its files. It is kept, and taken
// from there next time, when REWRITE_BENCH_TABLES names a folder.
func benchTable(t *testing.T, set benchSet, mb int) (*env, int) {
	t.Helper()
	dir := t.TempDir()
	if kept := os.Getenv("REWRITE_BENCH_TABLES"); kept != "" {
		dir = filepath.Join(kept, fmt.Sprintf("%s %d", set.name, mb))
		dir = strings.ReplaceAll(dir, " ", "-")
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)

			return openIn(t, dir), benchBytes(t, dir)
		}
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	e := newEnvIn(t, dir, benchSchema(), *iceberg.UnpartitionedSpec, nil)
	sc := e.load().Schema()
	require.NoError(t, os.MkdirAll(benchData(dir), 0o755))
	var files []iceberg.DataFile
	for seed, total := 0, 0; total < mb*1e6; seed++ {
		raw := benchFile(t, sc, set.rows, uint64(seed), set.dictionary)
		total += len(raw)
		path := filepath.Join(benchData(dir), fmt.Sprintf("small-%06d.parquet", seed))
		require.NoError(t, os.WriteFile(path, raw, 0o644))
		b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, "file://"+path, iceberg.ParquetFile,
			nil, nil, nil, int64(set.rows), int64(len(raw)))
		require.NoError(t, err)
		files = append(files, b.Build())
	}
	e.commit(func(tx *table.Transaction) {
		require.NoError(t, tx.AddDataFiles(t.Context(), files, nil, table.WithoutAutoNameMapping()))
	})

	return e, benchBytes(t, dir)
}

func benchData(dir string) string { return filepath.Join(dir, "t", "data") }

func benchBytes(t *testing.T, dir string) (total int) {
	t.Helper()
	entries, err := os.ReadDir(benchData(dir))
	require.NoError(t, err)
	for _, entry := range entries {
		info, err := entry.Info()
		require.NoError(t, err)
		total += int(info.Size())
	}

	return total
}

// benchSchema is like an event table: keys, times, few and many different
// values, and a list.
func benchSchema() *iceberg.Schema {
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

func benchFile(t *testing.T, sc *iceberg.Schema, rows int, seed uint64, dictionary bool) []byte {
	t.Helper()
	as, err := table.SchemaToArrowSchemaWithOptions(sc, table.ArrowSchemaOptions{IncludeFieldIDs: true})
	require.NoError(t, err)
	rnd := rand.New(rand.NewPCG(seed, 1))
	b := array.NewRecordBuilder(memory.DefaultAllocator, as)
	defer b.Release()
	text := func(c int, v string) { b.Field(c).(interface{ Append(string) }).Append(v) }
	for i := range rows {
		id := int64(seed)*int64(rows) + int64(i)
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
		require.NoError(t, b.Field(8).AppendValueFromString(fmt.Sprintf("%d.%04d", rnd.IntN(100000), rnd.IntN(10000))))
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
	rec := b.NewRecordBatch()
	defer rec.Release()
	props := []parquet.WriterProperty{parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDataPageVersion(parquet.DataPageV2)}
	if dictionary {
		props[1] = parquet.WithDataPageVersion(parquet.DataPageV1)
	} else {
		ps, err := pqarrow.ToParquet(as, parquet.NewWriterProperties(props...), pqarrow.DefaultWriterProps())
		require.NoError(t, err)
		for i := range ps.NumColumns() {
			props = append(props, parquet.WithDictionaryCostFallbackFor(ps.Column(i).Path(), true))
		}
	}
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(as, &out, parquet.NewWriterProperties(props...), pqarrow.DefaultWriterProps())
	require.NoError(t, err)
	require.NoError(t, w.Write(rec))
	require.NoError(t, w.Close())

	return out.Bytes()
}
