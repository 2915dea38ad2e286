package maintenance

import (
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
)

func TestWhereNewFilesLand(t *testing.T) {
	at := func(location string, props iceberg.Properties) error {
		meta, err := table.NewMetadata(tabletest.Schema(), iceberg.UnpartitionedSpec, table.UnsortedSortOrder, location, props)
		require.NoError(t, err)

		return inPlace(table.New(table.Identifier{"n", "t"}, meta, location+"/metadata/v1.metadata.json", nil, nil))
	}
	for _, location := range []string{
		"s3://b/n/t", "s3://b/n/t/", "S3://b/n/t", "s3a://b/env=a/t+1", "s3://b/n/a%20b", "s3://b/n.db/it's(1)", "file:///w/n/t", "/w/n/t",
		"abfss://c@a.dfs.core.windows.net/t",
	} {
		require.NoError(t, at(location, nil), location)
		require.NoError(t, at(location, iceberg.Properties{table.ObjectStoreEnabledKey: "true"}), location)
	}
	for _, location := range []string{"s3://b//n/t", "s3://b/n/a b", "s3://b/n/t#1", "s3://b/n/t?1", "s3://b/n/ä", "file:///w/a b"} {
		err := at(location, nil)
		require.ErrorIs(t, err, ErrRefused, location)
		require.NoError(t, at(location, iceberg.Properties{table.WriteDataPathKey: "s3://b/data/t/", table.WriteMetadataPathKey: "s3://b/meta/t"}),
			"%s: what the message advises is enough", location)
	}
	require.ErrorIs(t, at("s3://b/n/%zz", nil), ErrRefused, "the library cannot read it")
	require.ErrorContains(t, at("s3://b/n/t", iceberg.Properties{table.WriteDataPathKey: "s3://b/d d"}), table.WriteDataPathKey)
	require.ErrorContains(t, at("s3://b/n/t", iceberg.Properties{table.WriteMetadataPathKey: "s3://b/d d"}), table.WriteMetadataPathKey)
}

func TestNothingIsWrittenIntoAnotherFolder(t *testing.T) {
	w := newWorld(t, worldOptions{})
	w.scattered(6)
	w.change(table.NewSetPropertiesUpdate(iceberg.Properties{table.WriteDataPathKey: w.load().Location() + "/d d"}))
	before, rows := w.everything(), tabletest.Rows(t, w.load())
	for _, dry := range []bool{true, false} {
		rep, err := w.compact(CompactOptions{DryRun: dry})
		require.ErrorIs(t, err, ErrRefused)
		require.Equal(t, StatusRefused, rep.Status)
		require.Contains(t, rep.Reason, "d%20d")
		rep, err = w.manifests(ManifestsOptions{DryRun: dry})
		require.ErrorIs(t, err, ErrRefused)
		require.Equal(t, StatusRefused, rep.Status)
	}
	require.Equal(t, before, w.everything())
	require.Equal(t, rows, tabletest.Rows(t, w.load()))
}
