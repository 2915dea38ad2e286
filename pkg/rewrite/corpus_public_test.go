package rewrite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/splice/format"
)

// publicFiles are the Parquet files that come inside Go modules, by their name
// within the module.
func publicFiles(t *testing.T) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, module := range []string{"github.com/parquet-go/parquet-go", "github.com/apache/arrow-go/v18", "github.com/apache/iceberg-go"} {
		dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		require.NoError(t, err)
		root := strings.TrimSpace(string(dir))
		require.NoError(t, filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".parquet") {
				out[filepath.Base(module)+strings.TrimPrefix(path, root)] = path
			}

			return err
		}))
	}
	require.Greater(t, len(out), 50)

	return out
}

// numbering gives columns the ids that a new table would give them.
type numbering struct {
	elements []format.SchemaElement
	children [][]int
	last     int32
}

func (n *numbering) tree(at int) (end int) {
	end = at + 1
	for range n.elements[at].NumChildren {
		n.children[at] = append(n.children[at], end)
		end = n.tree(end)
	}

	return end
}

func (n *numbering) id(at int) {
	n.last++
	id := n.last
	n.elements[at].FieldID = &id
}

func (n *numbering) inside(at int) {
	inner := n.children[at]
	kind := n.elements[at].Logical.Kind
	if c := n.elements[at].Converted; c != nil && (*c == format.ConvertedMap || *c == format.ConvertedMapKeyValue) {
		kind = format.LogicalMap
	} else if c != nil && *c == format.ConvertedList {
		kind = format.LogicalList
	}
	if (kind == format.LogicalList || kind == format.LogicalMap) && len(inner) == 1 && len(n.children[inner[0]]) > 0 {
		inner = n.children[inner[0]]
	}
	for _, i := range inner {
		n.id(i)
		if kind != format.LogicalMap {
			n.inside(i)
		}
	}
	for _, i := range inner {
		if kind == format.LogicalMap {
			n.inside(i)
		}
	}
}

// withIDs gives every column an id, as if the file had been written for a table,
// and returns the table's schema. The pages stay what they are.
func withIDs(raw []byte) ([]byte, *iceberg.Schema, error) {
	end := len(raw) - 8
	start := end - int(binary.LittleEndian.Uint32(raw[end:]))
	footer, err := format.ReadFooter(raw[start:end])
	if err != nil {
		return nil, nil, err
	}
	for i := range footer.Schema {
		e := &footer.Schema[i]
		e.FieldID = nil
		if e.Converted != nil && *e.Converted == format.ConvertedDecimal {
			e.Logical = format.LogicalType{Kind: format.LogicalDecimal, Precision: e.Precision, Scale: e.Scale}
		}
	}
	n := numbering{elements: footer.Schema, children: make([][]int, len(footer.Schema))}
	n.tree(0)
	n.inside(0)
	written := footer.Append(append([]byte(nil), raw[:start]...))
	written = binary.LittleEndian.AppendUint32(written, uint32(len(written)-start))
	written = append(written, "PAR1"...)
	pf, err := file.NewParquetReader(bytes.NewReader(written))
	if err != nil {
		return nil, nil, err
	}
	sc, err := pqarrow.FromParquet(pf.MetaData().Schema, nil, pf.MetaData().KeyValueMetadata())
	if err != nil {
		return nil, nil, err
	}
	read, err := table.ArrowSchemaToIceberg(sc, false, nil)

	return written, read, err
}

// plainTypes reports whether a table of version 2 can have the schema.
func plainTypes(t *testing.T, sc *iceberg.Schema) bool {
	t.Helper()
	fields, err := iceberg.IndexByID(sc)
	require.NoError(t, err)
	for _, f := range fields {
		switch f.Type.(type) {
		case iceberg.TimestampNsType, iceberg.TimestampTzNsType, iceberg.VariantType, iceberg.UnknownType:
			return false
		}
	}

	return true
}

// verdict is what becomes of a table of two copies of a file.
func verdict(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	written, sc, err := withIDs(raw)
	if err != nil {
		t.Log(err)

		return "no table"
	}
	if rowsOf(t, written) == 0 {
		return "no rows"
	}
	if !plainTypes(t, sc) {
		return "no table"
	}

	return verdictOf(t, newEnv(t, sc, *iceberg.UnpartitionedSpec, nil), sc, written, written).what
}

func rowsOf(t *testing.T, raw []byte) int64 {
	t.Helper()
	pf, err := file.NewParquetReader(bytes.NewReader(raw))
	require.NoError(t, err)

	return pf.NumRows()
}

// judged is what became of a table of files, and the files.
type judged struct {
	what                     string
	inputs, general, spliced []iceberg.DataFile
}

// verdictOf adds files to a new table and rewrites them. Both engines have to say
// the same, and to write the same where they do not refuse.
func verdictOf(t *testing.T, e *env, sc *iceberg.Schema, files ...[]byte) (out judged) {
	t.Helper()
	require.True(t, sc.Equals(e.load().Schema()), "%s\n%s", sc, e.load().Schema())
	for _, raw := range files {
		e.addRaw(raw, rowsOf(t, raw))
	}
	tbl, plan := e.load(), e.plan(PlanOptions{MinInputFiles: 2})
	if len(plan.Groups) == 0 {
		return judged{what: "refused table"}
	}
	general, err := New(Options{Engine: EngineGeneral}).Rewrite(t.Context(), tbl, plan.Groups)
	require.NoError(t, err)
	spliced, err := New(Options{Engine: EngineSplice}).Rewrite(t.Context(), tbl, plan.Groups)
	require.NoError(t, err)
	if errors.Is(general[0].Err, ErrRefused) || spliced[0].Err != nil {
		require.Error(t, general[0].Err, "what one engine refuses the other does too")
		require.Error(t, spliced[0].Err, "what one engine refuses the other does too")

		return judged{what: "refused"}
	}
	var inputs []iceberg.DataFile
	for _, f := range plan.Groups[0].Files {
		inputs = append(inputs, f.Data)
	}
	if general[0].Err == nil {
		assert.Equal(t, inOrder(t, tbl, inputs), inOrder(t, tbl, general[0].Outputs))
	}
	out = judged{inputs: inputs, general: general[0].Outputs, spliced: spliced[0].Outputs}
	if spliced[0].Engine.Name == EngineGeneral {
		t.Log(spliced[0].Engine.Detail)

		out.what = "general: " + spliced[0].Engine.Reason

		return out
	}
	assert.Equal(t, inOrder(t, tbl, inputs), inOrder(t, tbl, spliced[0].Outputs))
	require.NoError(t, general[0].Err)
	sameMetrics(t, general[0].Outputs, spliced[0].Outputs)
	t.Logf("pages: %+v", spliced[0].Engine.Pages)
	out.what = "spliced"
	if spliced[0].Engine.Pages.Decoded > 0 {
		out.what = "spliced, columns decoded"
	}

	return out
}

// notSplicedFiles is what becomes of the files that are not spliced. Any other file
// that is left to the general engine is a surprise.
func notSplicedFiles() map[string]string {
	const form, damage = "general: column stored in another form than its type's", "general: unusual or damaged file"

	return map[string]string{
		// A table of version 2 has no nanoseconds, unknown types or lists without
		// annotation.
		"alltypes_dictionary.parquet": "no table", "alltypes_plain.parquet": "no table", "alltypes_plain.snappy.parquet": "no table",
		"alltypes_tiny_pages.parquet": "no table", "alltypes_tiny_pages_plain.parquet": "no table",
		"cluster_test_table_2.snappy.parquet": "no table", "issue368.parquet": "no table", "null_columns.parquet": "no table",
		"null_list.parquet": "no table", "repeated_no_annotation.parquet": "no table", "empty.parquet": "no rows",
		// Both engines refuse these.
		"negative_page_size.parquet": "refused", "num_values_exceeds_data.parquet": "refused",
		"negative_row_group_num_rows.parquet": "refused",
		// Values would have to be converted.
		"cluster_test_table_1.snappy.parquet": form, "dms_test_table_LOAD00000001.parquet": form, "issue229.parquet": form,
		"nested_structs.rust.parquet": form, "file.parquet": form, "small.parquet": form, "trace.snappy.parquet": form,
		"rle_boolean_encoding.parquet": damage, // repetition levels in a flat column
		// One column has to be brought into another form.
		"byte_array_decimal.parquet":   "spliced, columns decoded",
		"binary_min_val_exact.parquet": "general: bound too long for a footer",
	}
}

func TestPublicFilesAreSplicedOrLeftToTheGeneralEngine(t *testing.T) {
	for name, path := range publicFiles(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := verdict(t, path)
			t.Logf("%s: %s", name, got)
			want, listed := notSplicedFiles()[filepath.Base(path)]
			switch {
			case strings.Contains(path, "/geo/") || strings.Contains(path, "/shredded_variant/"):
				assert.NotEqual(t, "spliced", got, "types that the engine does not know")
			case listed:
				assert.Equal(t, want, got)
			default:
				assert.Equal(t, "spliced", got)
			}
		})
	}
}
