package rowsort

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func schemaOf(types ...iceberg.Type) *iceberg.Schema {
	fields := make([]iceberg.NestedField, len(types))
	for i, t := range types {
		fields[i] = iceberg.NestedField{ID: i + 1, Name: fmt.Sprintf("c%d", i), Type: t}
	}

	return iceberg.NewSchema(0, fields...)
}

func fromJSON(t *testing.T, sc *iceberg.Schema, rows ...string) arrow.RecordBatch {
	t.Helper()
	as, err := table.SchemaToArrowSchemaWithOptions(sc, table.ArrowSchemaOptions{})
	require.NoError(t, err)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, as, strings.NewReader("["+strings.Join(rows, ",")+"]"))
	require.NoError(t, err)

	return rec
}

func mustParse(t *testing.T, text string, sc *iceberg.Schema) Order {
	t.Helper()
	o, err := Parse(text, sc, NullsByDirection)
	require.NoError(t, err)

	return o
}

// sortAll sorts batches, which it takes, and returns the rows of a column.
func sortAll(t *testing.T, o Options, column int, batches ...arrow.RecordBatch) (values []string, spilled Spilled) {
	t.Helper()
	s := New(o)
	defer func() { require.NoError(t, s.Close()) }()
	for _, b := range batches {
		require.NoError(t, s.Add(t.Context(), b))
	}
	for rec, err := range s.Rows(t.Context()) {
		require.NoError(t, err)
		for row := range int(rec.NumRows()) {
			values = append(values, rec.Column(column).ValueStr(row))
		}
		rec.Release()
	}

	return values, s.Spilled()
}

// Values of every type come in the order that the specification gives them.
func TestOrderOfEveryType(t *testing.T) {
	quoted := func(values ...string) []string {
		for i, v := range values {
			values[i] = `"` + v + `"`
		}

		return values
	}
	fixedType := iceberg.FixedTypeOf(2)
	for name, c := range map[string]struct {
		of     iceberg.Type
		values []string // ascending, as JSON
	}{
		"boolean":        {iceberg.PrimitiveTypes.Bool, []string{"false", "true"}},
		"int":            {iceberg.PrimitiveTypes.Int32, []string{"-2147483648", "-1", "0", "1", "2147483647"}},
		"long":           {iceberg.PrimitiveTypes.Int64, []string{"-9223372036854775808", "-256", "-1", "0", "255", "256", "9223372036854775807"}},
		"decimal":        {iceberg.DecimalTypeOf(38, 2), quoted("-92233720368547758080.00", "-0.01", "0.00", "0.01", "1.00", "92233720368547758080.00")},
		"date":           {iceberg.PrimitiveTypes.Date, quoted("1969-12-31", "1970-01-01", "2020-02-29")},
		"time":           {iceberg.PrimitiveTypes.Time, quoted("00:00:00", "00:00:00.000001", "23:59:59")},
		"timestamp":      {iceberg.PrimitiveTypes.Timestamp, quoted("1969-12-31 23:59:59.999999", "1970-01-01", "2024-01-01 00:00:00.000001")},
		"timestamptz ns": {iceberg.PrimitiveTypes.TimestampTzNs, quoted("1969-12-31T23:59:59.999999999Z", "1970-01-01T00:00:00Z")},
		"string":         {iceberg.PrimitiveTypes.String, quoted("", "\\u0000", "\\u0000a", "a", "a\\u0000", "a\\u0000b", "aa", "b", "é", "\U0001f600", "")[:10]},
		"binary":         {iceberg.PrimitiveTypes.Binary, quoted("", "AA==", "AAE=", "AP8=", "AQ==", "fw==", "gA==", "/w==")},
		"fixed":          {fixedType, quoted("AAA=", "AAE=", "AP8=", "gAA=", "//8=")},
		"uuid":           {iceberg.PrimitiveTypes.UUID, quoted("00000000-0000-0000-0000-000000000001", "7fffffff-ffff-ffff-ffff-ffffffffffff", "80000000-0000-0000-0000-000000000000")},
	} {
		t.Run(name, func(t *testing.T) {
			sc := schemaOf(c.of, iceberg.PrimitiveTypes.Int32)
			rows := []string{`{"c0":null,"c1":-1}`}
			for i, v := range c.values {
				rows = append(rows, fmt.Sprintf(`{"c0":%s,"c1":%d}`, v, i))
			}
			rand.New(rand.NewPCG(1, 2)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
			var up []string
			for i := range c.values {
				up = append(up, fmt.Sprint(i))
			}
			down := slices.Clone(up)
			slices.Reverse(down)
			for text, want := range map[string][]string{
				"c0":                  append([]string{"-1"}, up...),
				"c0 asc nulls last":   append(slices.Clone(up), "-1"),
				"c0 desc":             append(slices.Clone(down), "-1"),
				"c0 DESC NULLS FIRST": append([]string{"-1"}, down...),
			} {
				got, _ := sortAll(t, Options{Order: mustParse(t, text, sc)}, 1, fromJSON(t, sc, rows...))
				assert.Equal(t, want, got, text)
			}
		})
	}
}

// Floats follow IEEE 754 total order, also where a wider type could lose the
// sign of a NaN.
func TestOrderOfFloats(t *testing.T) {
	negative := math.Float64frombits(math.Float64bits(math.NaN()) | 1<<63)
	want := []float64{negative, math.Inf(-1), -math.MaxFloat64, -1, math.Copysign(0, -1), 0, 1, math.MaxFloat64, math.Inf(1), math.NaN()}
	narrow := []uint32{0xffc00000, 0xff800000, 0xbf800000, 0x80000000, 0, 0x3f800000, 0x7f800000, 0x7fc00000}
	sc := schemaOf(iceberg.PrimitiveTypes.Float64)
	as, err := table.SchemaToArrowSchemaWithOptions(sc, table.ArrowSchemaOptions{})
	require.NoError(t, err)
	b := array.NewRecordBuilder(memory.DefaultAllocator, as)
	for _, i := range rand.New(rand.NewPCG(3, 4)).Perm(len(want)) {
		b.Field(0).(*array.Float64Builder).Append(want[i])
	}
	s := New(Options{Order: mustParse(t, "c0", sc)})
	require.NoError(t, s.Add(t.Context(), b.NewRecordBatch()))
	for rec, err := range s.Rows(t.Context()) {
		require.NoError(t, err)
		for i, v := range want {
			assert.Equal(t, math.Float64bits(v), math.Float64bits(rec.Column(0).(*array.Float64).Value(i)), "row %d", i)
		}
	}
	for i := 1; i < len(narrow); i++ {
		low, high := appendFloat(nil, math.Float32frombits(narrow[i-1])), appendFloat(nil, math.Float32frombits(narrow[i]))
		assert.Negative(t, slices.Compare(low, high), "%x before %x", narrow[i-1], narrow[i])
	}
}

// Transforms give what the specification's examples say, and nulls stay nulls.
func TestOrderByTransforms(t *testing.T) {
	sc := schemaOf(iceberg.PrimitiveTypes.Int64, iceberg.PrimitiveTypes.String, iceberg.PrimitiveTypes.Timestamp, iceberg.DecimalTypeOf(9, 2), iceberg.PrimitiveTypes.Int32)
	rows := []string{
		`{"c0":34,"c1":"iceberg","c2":"2017-11-16 22:31:08","c3":"14.20","c4":0}`,
		`{"c0":-7,"c1":"ice","c2":"1969-12-31 23:00:00","c3":"-0.01","c4":1}`,
		`{"c0":35,"c1":"icy","c2":"2017-11-16 01:00:00","c3":"14.25","c4":2}`,
		`{"c0":null,"c1":null,"c2":null,"c3":null,"c4":3}`,
	}
	for text, want := range map[string][]string{
		// 34 hashes to 2017239379, which is 3 modulo 16.
		"bucket(16, c0), c4 desc":              {"3", "2", "1", "0"},
		"truncate(10, c0) nulls last, c4 desc": {"1", "2", "0", "3"},
		"truncate(3, c1), c4 desc":             {"3", "1", "0", "2"},
		"years(c2), c4":                        {"3", "1", "0", "2"},
		"month(c2) desc, c4 desc":              {"2", "0", "1", "3"},
		"day(c2), c4 desc":                     {"3", "1", "2", "0"},
		"hours(c2)":                            {"3", "1", "2", "0"},
		"truncate(10, c3), c4 desc":            {"3", "1", "2", "0"},
		"identity(c4) desc":                    {"3", "2", "1", "0"},
	} {
		t.Run(text, func(t *testing.T) {
			o := mustParse(t, text, sc)
			got, _ := sortAll(t, Options{Order: o}, 4, fromJSON(t, sc, rows...))
			if strings.HasPrefix(text, "bucket") {
				want = bucketOrder(t, rows)
			}
			assert.Equal(t, want, got)
			again := mustParse(t, o.String(), sc)
			assert.True(t, again.Equal(o), "%s is read back", o)
		})
	}
}

// bucketOrder computes the order of the first column's buckets by itself.
func bucketOrder(t *testing.T, rows []string) []string {
	t.Helper()
	hash := func(v int64) int32 {
		out := iceberg.BucketTransform{NumBuckets: 16}.Apply(iceberg.Optional[iceberg.Literal]{Val: iceberg.Int64Literal(v), Valid: true})

		return int32(out.Val.(iceberg.Int32Literal))
	}
	require.EqualValues(t, 2017239379%16, hash(34))
	type one struct{ bucket, row int32 }
	all := []one{{hash(34), 0}, {hash(-7), 1}, {hash(35), 2}, {-1, 3}}
	require.Len(t, rows, len(all))
	slices.SortFunc(all, func(a, b one) int { return cmp.Or(cmp.Compare(a.bucket, b.bucket), cmp.Compare(b.row, a.row)) })
	var out []string
	for _, o := range all {
		out = append(out, fmt.Sprint(o.row))
	}

	return out
}

// manyTypes has nested columns, an extension type and a key inside a struct.
var manyTypes = iceberg.NewSchema(0,
	iceberg.NestedField{ID: 1, Name: "n", Type: iceberg.PrimitiveTypes.Int64},
	iceberg.NestedField{ID: 2, Name: "k", Type: &iceberg.StructType{FieldList: []iceberg.NestedField{
		{ID: 3, Name: "s", Type: iceberg.PrimitiveTypes.String}, {ID: 4, Name: "u", Type: iceberg.PrimitiveTypes.UUID},
	}}},
	iceberg.NestedField{ID: 5, Name: "l", Type: &iceberg.ListType{ElementID: 6, Element: iceberg.PrimitiveTypes.UUID}},
	iceberg.NestedField{ID: 7, Name: "m", Type: &iceberg.MapType{KeyID: 8, KeyType: iceberg.PrimitiveTypes.String, ValueID: 9, ValueType: iceberg.DecimalTypeOf(9, 2)}},
	iceberg.NestedField{ID: 10, Name: "b", Type: iceberg.PrimitiveTypes.Bool},
	iceberg.NestedField{ID: 11, Name: "f", Type: iceberg.FixedTypeOf(3)},
)

func randomRow(r *rand.Rand, n int) string {
	orNull := func(text string) string {
		if r.IntN(6) == 0 {
			return "null"
		}

		return text
	}
	id := func() string { return fmt.Sprintf(`"%08x-0000-0000-0000-%012x"`, r.Uint32(), r.Uint32()) }
	k := fmt.Sprintf(`{"s":%s,"u":%s}`, orNull(fmt.Sprintf(`"%d"`, r.IntN(40))), orNull(id()))
	l := fmt.Sprintf(`[%s,%s]`, orNull(id()), id())
	m := fmt.Sprintf(`[{"key":"%d","value":%s}]`, r.IntN(9), orNull(fmt.Sprintf(`"%d.25"`, r.IntN(99))))

	return fmt.Sprintf(`{"n":%d,"k":%s,"l":%s,"m":%s,"b":%s,"f":%s}`, n, orNull(k), orNull(l), orNull(m), orNull("true"), orNull(`"AQID"`))
}

// The same rows come out, whole, in order and stable, in memory and through any
// number of files and merges.
func TestRowsSurviveEveryMemory(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var rows []string
	for n := range 3000 {
		rows = append(rows, randomRow(r, n))
	}
	order := mustParse(t, "k.s desc nulls first, b", manyTypes)
	reference := func() (out []string) { // by value, in one batch, by another way
		rec := fromJSON(t, manyTypes, rows...)
		s := rec.Column(1).(*array.Struct).Field(0).(*array.String)
		perm := make([]int, len(rows))
		for i := range perm {
			perm[i] = i
		}
		key := func(i int) (string, bool) { return s.Value(i), rec.Column(1).IsValid(i) && s.IsValid(i) }
		slices.SortStableFunc(perm, func(x, y int) int {
			a, hasA := key(x)
			b, hasB := key(y)
			byText := 0
			switch {
			case hasA && hasB:
				byText = cmp.Compare(b, a)
			case hasA != hasB && hasA:
				byText = 1
			case hasA != hasB:
				byText = -1
			}
			null := func(i int) int { return map[bool]int{true: 0, false: 1}[rec.Column(4).IsNull(i)] }

			return cmp.Or(byText, cmp.Compare(null(x), null(y)))
		})
		for _, i := range perm {
			out = append(out, rowText(rec, i))
		}

		return out
	}()
	for _, memory := range []int64{0, 1 << 20, 64 << 10, 20 << 10} {
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			s := New(Options{Order: order, Memory: memory, BatchBytes: 10 << 10, Create: TempFiles(t.TempDir())})
			defer func() { require.NoError(t, s.Close()) }()
			for at := 0; at < len(rows); {
				n := min(len(rows)-at, 1+r.IntN(300))
				rec := fromJSON(t, manyTypes, rows[at:at+n]...)
				cut := rec.NewSlice(0, int64(n/2))
				rest := rec.NewSlice(int64(n/2), int64(n))
				rec.Release()
				require.NoError(t, s.Add(t.Context(), cut))
				require.NoError(t, s.Add(t.Context(), rest))
				at += n
			}
			checker := Checker{Order: order}
			var got []string
			for rec, err := range s.Rows(t.Context()) {
				require.NoError(t, err)
				bad, err := checker.Check(rec)
				require.NoError(t, err)
				require.EqualValues(t, -1, bad)
				for row := range int(rec.NumRows()) {
					got = append(got, rowText(rec, row))
				}
				rec.Release()
			}
			require.Equal(t, reference, got)
			if memory == 0 {
				assert.Zero(t, s.Spilled().Runs)
			} else if memory <= 64<<10 {
				assert.Greater(t, s.Spilled().Runs, 8)
			}
		})
	}
}

func rowText(rec arrow.RecordBatch, row int) string {
	var parts []string
	for _, c := range rec.Columns() {
		parts = append(parts, c.ValueStr(row))
	}

	return strings.Join(parts, "|")
}

func TestCheckerFindsTheRow(t *testing.T) {
	sc := schemaOf(iceberg.PrimitiveTypes.Int64)
	c := Checker{Order: mustParse(t, "c0", sc)}
	for _, batch := range []struct {
		rows []string
		bad  int64
	}{
		{[]string{`{"c0":null}`, `{"c0":1}`, `{"c0":1}`}, -1},
		{[]string{`{"c0":1}`, `{"c0":3}`}, -1},
		{[]string{`{"c0":2}`}, 5},
		{[]string{`{"c0":3}`, `{"c0":4}`, `{"c0":null}`}, 7},
	} {
		bad, err := c.Check(fromJSON(t, sc, batch.rows...))
		require.NoError(t, err)
		assert.Equal(t, batch.bad, bad)
	}
}
