package maintenance

import (
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// withTotals is a table whose snapshot says what is in it.
func withTotals(t *testing.T, props iceberg.Properties) table.Metadata {
	t.Helper()
	schema := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64})
	md, err := table.NewMetadata(schema, iceberg.UnpartitionedSpec, table.UnsortedSortOrder, "s3://lake/t", nil)
	require.NoError(t, err)
	if props == nil {
		return md
	}
	b, err := table.MetadataBuilderFromBase(md, "")
	require.NoError(t, err)
	schemaID := 0
	require.NoError(t, b.AddSnapshot(&table.Snapshot{
		SnapshotID: 1, SequenceNumber: 1, TimestampMs: md.LastUpdatedMillis() + 1, ManifestList: "s3://lake/t/l.avro",
		Summary: &table.Summary{Operation: table.OpAppend, Properties: props}, SchemaID: &schemaID,
	}))
	require.NoError(t, b.SetSnapshotRef(table.MainBranch, 1, table.BranchRef))
	md, err = b.Build()
	require.NoError(t, err)

	return md
}

func TestNeedFromASnapshotsOwnTotals(t *testing.T) {
	t.Parallel()
	const target = 100
	for name, c := range map[string]struct {
		props iceberg.Properties
		want  Need
	}{
		"no snapshot": {nil, Need{}},
		"no totals":   {iceberg.Properties{}, Need{}},
		"nonsense":    {iceberg.Properties{"total-data-files": "many", "total-files-size": "-5"}, Need{}},
		"one file":    {iceberg.Properties{"total-data-files": "1", "total-files-size": "40"}, Need{Files: 1}},
		"full files":  {iceberg.Properties{"total-data-files": "10", "total-files-size": "1000"}, Need{Files: 10}},
		"few bytes in ten files": {
			iceberg.Properties{"total-data-files": "10", "total-files-size": "100"}, Need{SmallBytes: 90, Files: 10},
		},
		"twice as many as there should be": {
			iceberg.Properties{"total-data-files": "20", "total-files-size": "1000"}, Need{SmallBytes: 500, Files: 20},
		},
		"full files with deletes": {
			iceberg.Properties{"total-data-files": "10", "total-files-size": "1000", "total-delete-files": "5"},
			Need{SmallBytes: 500, Files: 10, DeleteFiles: 5},
		},
	} {
		require.Equal(t, c.want, NeedOf(withTotals(t, c.props), target), name)
	}
}
