package rewrite

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/variant"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/puffin"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// goldenFiles is a folder of files by other writers that iceberg-go brings along
// for its own tests.
func goldenFiles(t *testing.T, folder string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/apache/iceberg-go").Output()
	require.NoError(t, err)
	dir := filepath.Join(strings.TrimSpace(string(out)), folder)
	require.DirExists(t, dir)

	return dir
}

// addAsItIs adds a Parquet file to an unpartitioned table where it lies.
func (e *env) addAsItIs(path string) {
	e.t.Helper()
	info, err := os.Stat(path)
	require.NoError(e.t, err)
	pf, err := file.OpenParquetFile(path, false)
	require.NoError(e.t, err)
	rows := pf.NumRows()
	require.NoError(e.t, pf.Close())
	b, err := iceberg.NewDataFileBuilder(e.load().Spec(), iceberg.EntryContentData, "file://"+path, iceberg.ParquetFile, nil, nil, nil, rows, info.Size())
	require.NoError(e.t, err)
	e.commit(func(tx *table.Transaction) {
		require.NoError(e.t, tx.AddDataFiles(e.t.Context(), []iceberg.DataFile{b.FirstRowID(0).Build()}, nil, table.WithoutAutoNameMapping()))
	})
}

// variants are the values of a variant column by row number, as stored; null
// rows are left out.
func (e *env) variants() map[int]string {
	e.t.Helper()
	_, batches, err := e.load().Scan().ToArrowRecords(e.t.Context())
	require.NoError(e.t, err)
	out, row := make(map[int]string), 0
	for rec, err := range batches {
		require.NoError(e.t, err)
		column := rec.Column(1).(*extensions.VariantArray)
		for i := range int(rec.NumRows()) {
			if !column.Storage().IsNull(i) {
				v, err := column.Value(i)
				require.NoError(e.t, err)
				out[row] = fmt.Sprintf("%x", appendVariant(nil, v))
			}
			row++
		}
		rec.Release()
	}

	return out
}

// shreddedCases are the names of the variant files; those in bad are to be
// refused by every reader.
func shreddedCases(t *testing.T) (dir string, good, bad []string) {
	t.Helper()
	dir = goldenFiles(t, "table/testdata/shredded_variant")
	files, err := filepath.Glob(filepath.Join(dir, "case-*.parquet"))
	require.NoError(t, err)
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".parquet")
		switch name {
		case "case-040", "case-042", "case-084-INVALID", "case-087", "case-128":
			bad = append(bad, name)
		default:
			good = append(good, name)
		}
	}
	require.Greater(t, len(good), 8)
	require.Len(t, bad, 5)

	return dir, good, bad
}

var idAndVariant = iceberg.NewSchema(0,
	iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int32, Required: true},
	iceberg.NestedField{ID: 2, Name: "var", Type: iceberg.VariantType{}})

func TestShreddedVariantsOfJava(t *testing.T) {
	dir, good, bad := shreddedCases(t)
	for _, name := range good {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, idAndVariant, *iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": "3"})
			e.addAsItIs(filepath.Join(dir, name+".parquet"))
			before := e.variants()
			e.sameRows(PlanOptions{RewriteAll: true}, Options{Engine: EngineGeneral})
			after := e.variants()
			assert.Equal(t, before, after)
			if strings.HasSuffix(name, "-INVALID") { // readers may disagree about it
				return
			}
			golden, err := filepath.Glob(filepath.Join(dir, name+"_row-*.variant.bin"))
			require.NoError(t, err)
			for _, path := range golden {
				var row int
				_, err := fmt.Sscanf(strings.TrimPrefix(filepath.Base(path), name), "_row-%d.variant.bin", &row)
				require.NoError(t, err)
				raw, err := os.ReadFile(path)
				require.NoError(t, err)
				meta, err := variant.NewMetadata(raw)
				require.NoError(t, err)
				want, err := variant.New(raw[:meta.SizeBytes()], raw[meta.SizeBytes():])
				require.NoError(t, err)
				assert.Equal(t, fmt.Sprintf("%x", appendVariant(nil, want)), after[row], "row %d", row)
			}
		})
	}
	for _, name := range bad {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, idAndVariant, *iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": "3"})
			e.addAsItIs(filepath.Join(dir, name+".parquet"))
			results, err := New(Options{Engine: EngineGeneral}).Rewrite(t.Context(), e.load(), e.plan(PlanOptions{RewriteAll: true}).Groups)
			require.NoError(t, err)
			require.Error(t, results[0].Err)
			assert.Empty(t, e.onDisk())
		})
	}
}

func TestGeometriesOfOtherWritersAreRefused(t *testing.T) {
	dir := goldenFiles(t, "table/testdata/geo")
	for name, typ := range map[string]iceberg.Type{
		"geospatial": iceberg.GeometryType{}, "geospatial-with-nan": iceberg.GeometryType{}, "crs-default": iceberg.GeometryType{},
		"crs-geography": typesOfVersion3(t)["geography"],
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "group", Type: iceberg.PrimitiveTypes.String},
				iceberg.NestedField{ID: 2, Name: "wkt", Type: iceberg.PrimitiveTypes.String}, iceberg.NestedField{ID: 3, Name: "geometry", Type: typ}),
				*iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": "3", "schema.name-mapping.default": `[{"field-id":1,"names":["group"]},
					{"field-id":2,"names":["wkt"]},{"field-id":3,"names":["geometry","geography"]}]`})
			e.addAsItIs(filepath.Join(dir, name+".parquet"))
			plan := e.plan(PlanOptions{RewriteAll: true})
			results, err := New(Options{}).Rewrite(t.Context(), e.load(), plan.Groups)
			require.NoError(t, err)
			require.ErrorIs(t, results[0].Err, ErrRefused)
			require.ErrorContains(t, results[0].Err, "column geometry is stored as binary")
			require.NoError(t, plan.Inspect(t.Context(), e.load()))
			assert.Empty(t, plan.Groups, "a plan that is only shown says the same")
			assert.Empty(t, e.onDisk())
		})
	}
}

// vectorsOf puts the blobs of a Puffin file, as they were written, into a new one
// whose blobs are of the given data files.
func (e *env) vectorsOf(golden string, data ...string) []iceberg.DataFile {
	e.t.Helper()
	in, err := os.Open(golden)
	require.NoError(e.t, err)
	defer func() { require.NoError(e.t, in.Close()) }()
	r, err := puffin.NewReader(in)
	require.NoError(e.t, err)
	blobs, err := r.ReadAllBlobs()
	require.NoError(e.t, err)
	require.Len(e.t, blobs, len(data))
	path := filepath.Join(e.dir, "t/data", filepath.Base(golden))
	out, err := os.Create(path)
	require.NoError(e.t, err)
	defer func() { require.NoError(e.t, out.Close()) }()
	w, err := puffin.NewWriter(out)
	require.NoError(e.t, err)
	var places []puffin.BlobMetadata
	for i, blob := range blobs {
		place, err := w.AddBlob(puffin.BlobMetadataInput{Type: puffin.BlobTypeDeletionVector, SnapshotID: -1, SequenceNumber: -1,
			Fields: blob.Metadata.Fields, Properties: map[string]string{
				"referenced-data-file": data[i], "cardinality": blob.Metadata.Properties["cardinality"]}}, blob.Data)
		require.NoError(e.t, err)
		places = append(places, place)
	}
	require.NoError(e.t, w.Finish())
	info, err := out.Stat()
	require.NoError(e.t, err)
	var vectors []iceberg.DataFile
	for i, place := range places {
		deleted, err := strconv.ParseInt(blobs[i].Metadata.Properties["cardinality"], 10, 64)
		require.NoError(e.t, err)
		b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentPosDeletes, "file://"+path, iceberg.PuffinFile,
			nil, nil, nil, deleted, info.Size())
		require.NoError(e.t, err)
		vectors = append(vectors, b.ReferencedDataFile(data[i]).ContentOffset(place.Offset).ContentSizeInBytes(place.Length).Build())
	}

	return vectors
}

func TestDeletionVectorsOfJava(t *testing.T) {
	dir := goldenFiles(t, "table/dv/testdata/deletes")
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, iceberg.Properties{"format-version": "3"})
	var paths []string
	for i := range 3 {
		e.appendSeries(1000*i, 300)
		for _, f := range e.plan(PlanOptions{}).set.data {
			if !slices.Contains(paths, f.path()) {
				paths = append(paths, f.path())
			}
		}
	}
	vectors := append(e.vectorsOf(filepath.Join(dir, "single-blob-dv.puffin"), paths[0]),
		e.vectorsOf(filepath.Join(dir, "multi-blob-dv.puffin"), paths[1], paths[2])...)
	e.commit(func(tx *table.Transaction) {
		require.NoError(t, tx.NewRowDelta(nil).AddDeletes(vectors...).Commit(t.Context()))
	})
	out := e.sameRows(PlanOptions{RewriteAll: true}, Options{})
	assert.EqualValues(t, 10, out.proof.RowsDeleted)
	assert.True(t, out.results[0].IndependentlyProven)
	rows := strings.Join(e.rows(), "\n")
	for _, id := range []int{1, 3, 5, 7, 9, 1000, 1100, 1200, 2050, 2150} {
		assert.NotContains(t, rows, fmt.Sprintf("id=%d/", id))
	}
	require.Len(t, e.rows(), 890)
	_, deletes := e.files()
	assert.Empty(t, deletes)
}
