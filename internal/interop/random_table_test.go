//go:build interop

package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	icebergcatalog "github.com/apache/iceberg-go/catalog"
	icebergtable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/catalog"
	"compactor/internal/tabletest"
)

// randomTable is a table made by chance: its schema, its partitions, and what
// happened to it. The same seed makes the same table.
type randomTable struct {
	t       *testing.T
	r       *rand.Rand
	tbl     *icebergtable.Table
	version int
	ids     []int64 // of the rows that should be there
	next    int64
	byValue bool // some rows were deleted by equality
	story   []string
}

// pick takes one of several at random.
func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func (x *randomTable) note(format string, args ...any) {
	x.story = append(x.story, fmt.Sprintf(format, args...))
}

// create makes the table with a column id and up to seven others.
func (x *randomTable) create(cat *catalog.Catalog, ident icebergtable.Identifier) {
	x.t.Helper()
	x.version = 2 + x.r.IntN(2)
	next := 1
	fields := []iceberg.NestedField{{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64}}
	for i := range 1 + x.r.IntN(7) {
		next++
		f := iceberg.NestedField{ID: next, Name: fmt.Sprintf("c%d", i)}
		next++
		f.Type = numbered(pick(x.r, kinds(x.version)), &next)
		fields = append(fields, f)
	}
	sc := iceberg.NewSchema(0, fields...)
	spec := x.spec(sc)
	props := x.properties()
	x.note("v%d %s partitioned by %s with %v", x.version, sc, spec.String(), props)
	ctx := cat.Context(context.Background())
	x.tbl = tabletest.Create(ctx, x.t, cat.Client(), ident, sc, icebergcatalog.WithPartitionSpec(&spec), icebergcatalog.WithProperties(props))
	tbl, err := cat.LoadTable(context.Background(), ident)
	require.NoError(x.t, err)
	x.tbl = tbl
}

func (x *randomTable) spec(sc *iceberg.Schema) iceberg.PartitionSpec {
	var fields []iceberg.PartitionField
	decimals := 0 // iceberg-go cannot write manifests with two of them
	for _, f := range sc.Fields()[1:] {
		if choice := transforms(f.Type); len(choice) > 0 && len(fields) < 2 && x.r.IntN(3) == 0 {
			if _, decimal := f.Type.(iceberg.DecimalType); decimal {
				if decimals++; decimals > 1 {
					continue
				}
			}
			fields = append(fields, iceberg.PartitionField{
				SourceIDs: []int{f.ID}, FieldID: 1000 + len(fields), Name: "part_" + f.Name, Transform: pick(x.r, choice),
			})
		}
	}

	return iceberg.NewPartitionSpec(fields...)
}

func (x *randomTable) properties() iceberg.Properties {
	return iceberg.Properties{
		"format-version":                               fmt.Sprint(x.version),
		"write.parquet.compression-codec":              pick(x.r, []string{"zstd", "snappy", "gzip", "uncompressed"}),
		"write.parquet.row-group-limit":                pick(x.r, []string{"7", "1000"}),
		"write.metadata.metrics.default":               pick(x.r, []string{"none", "counts", "truncate(4)", "truncate(16)", "full"}),
		"write.parquet.bloom-filter-enabled.column.id": pick(x.r, []string{"true", "false"}),
		"write.delete.mode":                            "merge-on-read",
		"write.parquet.page-row-limit":                 pick(x.r, []string{"5", "20000"}),
		"write.object-storage.enabled":                 pick(x.r, []string{"true", "false"}),
		"write.parquet.bloom-filter-max-bytes":         "4096",
		"write.metadata.delete-after-commit.enabled":   "false",
	}
}

// live is change after change: appends, and between them whatever may happen to
// a table.
func (x *randomTable) live() {
	x.t.Helper()
	x.append()
	for range 3 + x.r.IntN(4) {
		switch x.r.IntN(6) {
		case 0:
			x.evolveSchema()
		case 1:
			x.evolveSpec()
		case 2:
			x.delete()
		}
		x.append()
	}
	if x.r.IntN(2) == 0 {
		x.delete()
	}
	x.story = append(x.story, "then maintained")
}

func (x *randomTable) append() {
	x.t.Helper()
	var rows []string
	for range 1 + x.r.IntN(12) {
		cells := []string{fmt.Sprintf(`"id":%d`, x.next)}
		for _, f := range x.tbl.Schema().Fields()[1:] {
			cells = append(cells, fmt.Sprintf("%q:%s", f.Name, value(x.r, f.Type)))
		}
		rows = append(rows, "{"+strings.Join(cells, ",")+"}")
		x.ids = append(x.ids, x.next)
		x.next++
	}
	x.tbl = tabletest.Append(x.t, x.tbl, "["+strings.Join(rows, ",")+"]")
}

// commit runs one transaction.
func (x *randomTable) commit(do func(tx *icebergtable.Transaction) error) {
	x.t.Helper()
	tx := x.tbl.NewTransaction()
	require.NoError(x.t, do(tx))
	tbl, err := tx.Commit(context.Background())
	require.NoError(x.t, err)
	x.tbl = tbl
}

// evolveSchema adds, renames, widens or drops a column that partitions nothing.
func (x *randomTable) evolveSchema() {
	x.t.Helper()
	fields := x.tbl.Schema().Fields()[1:]
	f := fields[x.r.IntN(len(fields))]
	name := fmt.Sprintf("n%d", x.next)
	x.commit(func(tx *icebergtable.Transaction) error {
		u := tx.UpdateSchema(true, false)
		wider := widened(f.Type)
		switch choice := x.r.IntN(4); {
		case choice == 0 && wider != nil && !x.partitions(f.ID):
			x.note("widen %s", f.Name)
			u.UpdateColumn([]string{f.Name}, icebergtable.ColumnUpdate{FieldType: iceberg.Optional[iceberg.Type]{Val: wider, Valid: true}})
		case choice == 1 && len(fields) > 1 && !x.partitions(f.ID):
			x.note("drop %s", f.Name)
			u.DeleteColumn([]string{f.Name})
		case choice == 2:
			x.note("rename %s to %s", f.Name, name)
			u.RenameColumn([]string{f.Name}, name)
		default:
			var byDefault iceberg.Literal
			if x.version > 2 && x.r.IntN(2) == 0 {
				byDefault = iceberg.NewLiteral("by default")
			}
			x.note("add %s, by default %v", name, byDefault)
			u.AddColumn([]string{name}, iceberg.PrimitiveTypes.String, "", false, byDefault)
		}

		return u.Commit()
	})
}

func widened(typ iceberg.Type) iceberg.Type {
	switch t := typ.(type) {
	case iceberg.Int32Type:
		return iceberg.PrimitiveTypes.Int64
	case iceberg.Float32Type:
		return iceberg.PrimitiveTypes.Float64
	case iceberg.DecimalType:
		return iceberg.DecimalTypeOf(38, t.Scale())
	default:
		return nil
	}
}

// partitions tells whether any spec of the table partitions by the column.
func (x *randomTable) partitions(id int) bool {
	return slices.ContainsFunc(x.tbl.Metadata().PartitionSpecs(), func(s iceberg.PartitionSpec) bool {
		for _, f := range s.Fields() {
			if slices.Contains(f.SourceIDs, id) {
				return true
			}
		}

		return false
	})
}

// evolveSpec removes a partition field or partitions by the bucket of the id.
func (x *randomTable) evolveSpec() {
	x.t.Helper()
	spec := x.tbl.Spec()
	x.commit(func(tx *icebergtable.Transaction) error {
		u := tx.UpdateSpec(true)
		if spec.NumFields() > 0 && x.r.IntN(2) == 0 {
			x.note("remove partition field %s", spec.Field(0).Name)

			return u.RemoveField(spec.Field(0).Name).Commit()
		}
		name := fmt.Sprintf("bucket_%d", x.next)
		x.note("add partition field %s", name)

		return u.AddField("id", iceberg.BucketTransform{NumBuckets: 2 + int(x.next)}, name).Commit()
	})
}

// delete removes some rows, by position where the lake takes the files of such
// deletes, or by the value of id.
func (x *randomTable) delete() {
	x.t.Helper()
	var gone []int64
	for range 1 + x.r.IntN(4) {
		gone = append(gone, pick(x.r, x.ids))
	}
	spec := x.tbl.Spec()
	oneSpec := len(x.tbl.Metadata().PartitionSpecs()) == 1
	switch {
	case oneSpec && spec.IsUnpartitioned() && (x.version > 2 || x.r.IntN(2) == 0):
		x.note("delete ids %v by equality", gone)
		x.byValue = true
		x.deleteEqual(gone)
	case x.version == 2 && oneSpec: // iceberg-go's deletes in files of an older spec mean different things to different readers
		x.note("delete ids %v by position", gone)
		x.tbl = tabletest.DeleteWhere(x.t, x.tbl, iceberg.IsIn(iceberg.Reference("id"), gone...))
	default:
		return
	}
	x.ids = slices.DeleteFunc(x.ids, func(id int64) bool { return slices.Contains(gone, id) })
}

func (x *randomTable) deleteEqual(ids []int64) {
	x.t.Helper()
	field, _ := x.tbl.Schema().FindFieldByID(1)
	sc, err := icebergtable.SchemaToArrowSchemaWithOptions(iceberg.NewSchema(0, field), icebergtable.ArrowSchemaOptions{})
	require.NoError(x.t, err)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	b.Field(0).(*array.Int64Builder).AppendValues(ids, nil)
	rec := b.NewRecordBatch()
	x.commit(func(tx *icebergtable.Transaction) error {
		return tx.CommitEqualityDeletes(context.Background(), []int{1}, func(yield func(arrow.RecordBatch, error) bool) { yield(rec, nil) }, nil)
	})
}
