package rewrite

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// ErrRefused means that a file could be read in no way that is certain to keep
// its rows. Its group is left as it is; a retry will say the same.
var ErrRefused = errors.New("refused")

// fileSchema is what a Parquet file says about its columns, in Iceberg's terms.
type fileSchema struct {
	fields map[int]iceberg.NestedField
	leaves []int                  // the ids of the columns, in their order
	forms  map[int]arrow.DataType // the columns as they are stored
}

// readFileSchema finds out which fields of the table a file has, in the way the
// engine does: by field ids where every column has one, by the table's name
// mapping otherwise.
//
// A file that gives two columns one id is refused here, because iceberg-go ends
// the whole process over it.
func readFileSchema(tbl *table.Table, footer *metadata.FileMetaData) (fileSchema, error) {
	root := footer.Schema.Root()
	if err := uniqueIDs(root, make(map[int]string)); err != nil {
		return fileSchema{}, err
	}
	mapping := tbl.Metadata().NameMapping()
	if mapping == nil && !tagged(root) {
		return fileSchema{}, fmt.Errorf("%w: its columns carry no field ids and the table has no name mapping, so they cannot be told apart", ErrRefused)
	}
	sc, err := pqarrow.FromParquet(footer.Schema, nil, footer.KeyValueMetadata())
	if err != nil {
		return fileSchema{}, fmt.Errorf("%w: convert file schema to arrow: %w", ErrRefused, err)
	}
	read, err := table.ArrowSchemaToIcebergWithOptions(sc, table.ArrowToIcebergOptions{
		NameMapping: mapping, TableSchema: tbl.Schema(), TableProperties: tbl.Properties(),
	})
	if err != nil {
		return fileSchema{}, fmt.Errorf("%w: its columns cannot be told: %w", ErrRefused, err)
	}
	fields, err := iceberg.IndexByID(read)
	if err != nil {
		return fileSchema{}, fmt.Errorf("%w: its columns cannot be told: %w", ErrRefused, err)
	}

	return fileSchema{fields: fields, leaves: leafIDs(read.Fields(), nil), forms: formsOf(sc.Fields(), read.Fields())}, nil
}

// formsOf maps ids to the types that columns are stored as. Columns that have
// other parts in the file than in the table, such as variants, have none.
func formsOf(stored []arrow.Field, read []iceberg.NestedField) map[int]arrow.DataType {
	out := make(map[int]arrow.DataType)
	if len(stored) != len(read) {
		return out
	}
	for i := range stored {
		ids, types := leafIDs(read[i:i+1], nil), arrowLeaves(stored[i:i+1], nil)
		if len(ids) != len(types) {
			continue
		}
		for n, id := range ids {
			out[id] = types[n]
		}
	}

	return out
}

// leafIDs appends the ids of the columns below fields.
func leafIDs(fields []iceberg.NestedField, to []int) []int {
	for _, field := range fields {
		if nested, is := field.Type.(iceberg.NestedType); is {
			to = leafIDs(nested.Fields(), to)
		} else {
			to = append(to, field.ID)
		}
	}

	return to
}

func tagged(root *schema.GroupNode) bool {
	for i := range root.NumFields() {
		if root.Field(i).FieldID() < 0 {
			return false
		}
	}

	return true
}

// uniqueIDs refuses a file in which two columns have one field id.
func uniqueIDs(node schema.Node, seen map[int]string) error {
	if id := int(node.FieldID()); id >= 0 {
		if other, twice := seen[id]; twice {
			return fmt.Errorf("%w: its columns %s and %s have the same field id %d", ErrRefused, other, node.Path(), id)
		}
		seen[id] = node.Path()
	}
	group, ok := node.(*schema.GroupNode)
	if !ok {
		return nil
	}
	for i := range group.NumFields() {
		if err := uniqueIDs(group.Field(i), seen); err != nil {
			return err
		}
	}

	return nil
}

func (s fileSchema) has(id int) bool {
	_, found := s.fields[id]

	return found
}

// readable refuses a file with a column whose type cannot be turned into the
// table's without loss, other than those that are converted.
func (s fileSchema) readable(tbl *table.Table, converted []instants) error {
	fields, err := iceberg.IndexByID(tbl.Schema())
	if err != nil {
		return fmt.Errorf("index schema of table: %w", err)
	}
	for _, id := range slices.Sorted(maps.Keys(fields)) {
		stored, there := s.fields[id]
		if !there || slices.ContainsFunc(converted, func(c instants) bool { return s.leaves[c.column] == id }) {
			continue
		}
		if want := fields[id].Type; !promotes(stored.Type, want, tbl.Metadata().Version()) {
			return fmt.Errorf("%w: column %s is stored as %s, which cannot be read as the table's %s", ErrRefused, fields[id].Name, stored.Type, want)
		}
	}

	return nil
}

// comparable refuses a file that lacks a column which equality deletes compare,
// because it was added later: iceberg-go does not take its rows for nulls or for
// the default there. It also refuses a file that stores such a column in another
// form than the deletes do, because it was widened since: the rows would stay.
func (s fileSchema) comparable(deletes []iceberg.DataFile, keys keyForms, converted []instants) error {
	forms := maps.Clone(s.forms)
	for _, c := range converted {
		forms[s.leaves[c.column]] = c.form()
	}
	for _, d := range deletes {
		if d.ContentType() != iceberg.EntryContentEqDeletes {
			continue
		}
		for _, id := range d.EqualityFieldIDs() {
			if !s.has(id) {
				return fmt.Errorf("%w: equality deletes %s compare the column with id %d, which it does not have", ErrRefused, d.FilePath(), id)
			}
			if theirs := keys[d.FilePath()][id]; !sameForm(forms[id], theirs) {
				return fmt.Errorf("%w: equality deletes %s compare the column with id %d, which they store as %v and the file as %v",
					ErrRefused, d.FilePath(), id, theirs, forms[id])
			}
		}
	}

	return nil
}

// promotes reports whether the engine reads values of one type as another.
func promotes(stored, want iceberg.Type, version int) bool {
	switch want.(type) {
	case iceberg.VariantType, iceberg.GeometryType, iceberg.GeographyType, iceberg.UnknownType:
		// Shapes are known by the Arrow schema in the footer alone, which other
		// writers leave out: iceberg-go has no conversion from their plain bytes.
		return stored.Equals(want)
	case iceberg.UUIDType: // iceberg-go has no conversion from sixteen plain bytes
		return stored.Equals(want)
	case iceberg.NestedType:
		return stored.Type() == want.Type()
	}
	_, isDate := stored.(iceberg.DateType)
	switch want.(type) {
	case iceberg.TimestampType, iceberg.TimestampNsType:
		if isDate && version >= 3 {
			return true
		}
	}
	if stored.Equals(want) {
		return true
	}
	_, err := iceberg.PromoteType(stored, want)

	return err == nil
}

// variantsInside names a column with variants inside a list or map, which
// iceberg-go writes and cannot read.
func variantsInside(sc *iceberg.Schema) string {
	for _, field := range sc.Fields() {
		if holdsVariant(field.Type, false) {
			return field.Name
		}
	}

	return ""
}

func holdsVariant(typ iceberg.Type, repeated bool) bool {
	if _, is := typ.(iceberg.VariantType); is {
		return repeated
	}
	nested, ok := typ.(iceberg.NestedType)
	if !ok {
		return false
	}
	_, isStruct := typ.(*iceberg.StructType)
	for _, field := range nested.Fields() {
		if holdsVariant(field.Type, repeated || !isStruct) {
			return true
		}
	}

	return false
}
