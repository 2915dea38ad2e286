package rewrite

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTablesWhoseOutputsCannotBeWrittenAreRefusedInThePlan(t *testing.T) {
	for key, values := range map[string][]string{
		"write.parquet.compression-codec":    {"lz4", "lzo", "", "zip"},
		"write.parquet.compression-level":    {"fast"},
		"write.target-file-size-bytes":       {"-1", "0", "512m"},
		"write.parquet.row-group-limit":      {"-5", "many"},
		"write.parquet.row-group-size-bytes": {"0"},
		"write.parquet.page-size-bytes":      {"-1"},
		"write.parquet.page-row-limit":       {"x"},
		"write.parquet.dict-size-bytes":      {"-2"},
	} {
		for _, value := range values {
			t.Run(key+"="+value, func(t *testing.T) {
				e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
				for i := range 6 {
					e.appendSeries(10*i, 10)
				}
				require.NotEmpty(t, e.plan(PlanOptions{}).Groups)
				e.commit(func(tx *table.Transaction) { require.NoError(t, tx.SetProperties(iceberg.Properties{key: value})) })
				plan := e.plan(PlanOptions{})
				assert.Empty(t, plan.Groups)
				require.Len(t, plan.Refused, 1)
				assert.Contains(t, plan.Refused[0].Reason, key)
				assert.Equal(t, 6, plan.Refused[0].Files)
			})
		}
	}
	for name, refused := range map[string]bool{"p k/=%": true, "p-1": true, "1p": true, "käse": true, "a.b": true, "p_1": false, "P2": false} {
		spec := iceberg.NewPartitionSpec(iceberg.PartitionField{
			SourceIDs: []int{2}, FieldID: 1000, Name: name, Transform: iceberg.IdentityTransform{},
		})
		refusal, got := refuseTable(bare(t, spec, nil))
		assert.Equal(t, refused, got, name)
		if refused {
			assert.Contains(t, refusal.Reason, "cannot be written to a manifest")
		}
	}
}

func TestCodecInCapitalsIsTheSameCodec(t *testing.T) {
	e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, nil)
	for i := range 6 {
		e.appendSeries(10*i, 10)
	}
	e.commit(func(tx *table.Transaction) {
		require.NoError(t, tx.SetProperties(iceberg.Properties{compressionCodecKey: "GZIP"}))
	})
	e.sameRows(PlanOptions{}, Options{})
}

func TestTwoDecimalsInAPartitionAreRefused(t *testing.T) {
	sc := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "a", Type: iceberg.DecimalTypeOf(9, 2)},
		iceberg.NestedField{ID: 2, Name: "b", Type: iceberg.DecimalTypeOf(18, 4)})
	field := func(id int, name string, transform iceberg.Transform) iceberg.PartitionField {
		return iceberg.PartitionField{SourceIDs: []int{id}, FieldID: 1000 + id, Name: name, Transform: transform}
	}
	two := iceberg.NewPartitionSpec(field(1, "x", iceberg.IdentityTransform{}), field(2, "y", iceberg.TruncateTransform{Width: 10}))
	e := newEnv(t, sc, two, nil)
	assert.Contains(t, unwritable(e.load()), "x and y are both decimals")
	_, err := e.load().AppendTable(t.Context(), array.NewTableFromRecords(batchJSON(t, e.load(), `{"a":"1.00"}`).Schema(),
		[]arrow.RecordBatch{batchJSON(t, e.load(), `{"a":"1.00"}`)}), 1, nil)
	require.Error(t, err, "when iceberg-go can write such manifests, the refusal may go")
	one := iceberg.NewPartitionSpec(field(1, "x", iceberg.IdentityTransform{}), field(2, "y", iceberg.BucketTransform{NumBuckets: 4}))
	assert.Empty(t, severalDecimals(sc, one))

	// Files of such a spec stay also when the table has another one by now: a
	// manifest of theirs would have to be written without them.
	b, err := iceberg.NewDataFileBuilder(two, iceberg.EntryContentData, "old", iceberg.ParquetFile, map[int]any{1001: nil, 1002: nil}, nil, nil, 1, 1)
	require.NoError(t, err)
	assert.Contains(t, refuseFile(e.load(), candidate{entry: &entry{file: b.Build()}}), "x and y are both decimals")
}

func TestUnknownTransformsAreRefused(t *testing.T) {
	transform, err := iceberg.ParseTransform("zorder")
	require.NoError(t, err)
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1000, Name: "p", Transform: transform})
	refusal, refused := refuseTable(bare(t, spec, nil))
	require.True(t, refused)
	assert.Contains(t, refusal.Reason, "uses a transform this version does not know")
}
