package rewrite

import (
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inventedDelete is a position-delete file of the unpartitioned spec.
func inventedDelete(t *testing.T, path string, seq int64, change func(b *iceberg.DataFileBuilder)) *entry {
	t.Helper()
	b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentPosDeletes, path, iceberg.ParquetFile, nil, nil, nil, 1, 1)
	require.NoError(t, err)
	change(b)

	return &entry{file: b.Build(), seq: seq}
}

func TestWhichPositionDeletesApply(t *testing.T) {
	tbl := bare(t, *iceberg.UnpartitionedSpec, nil)
	data := inventedEntry(t, tbl, "file-1", 1, 5)
	none := func(*iceberg.DataFileBuilder) {}
	names := func(path string) func(b *iceberg.DataFileBuilder) {
		return func(b *iceberg.DataFileBuilder) { b.ReferencedDataFile(path) }
	}
	bounded := func(e *entry, low, high string) *entry {
		e.lowPath, e.highPath, e.bounded = low, high, true

		return e
	}
	for name, c := range map[string]struct {
		e       *entry
		applies bool
	}{
		"of the same commit":                  {inventedDelete(t, "d", 5, none), true},
		"older than the file":                 {inventedDelete(t, "d", 4, none), false},
		"that names it":                       {inventedDelete(t, "d", 6, names("file-1")), true},
		"that names it but is older":          {inventedDelete(t, "d", 4, names("file-1")), false},
		"that names another":                  {inventedDelete(t, "d", 6, names("g")), false},
		"bound to it":                         {bounded(inventedDelete(t, "d", 6, none), "file-1", "file-1"), true},
		"bound around it":                     {bounded(inventedDelete(t, "d", 6, none), "a", "z"), true},
		"bound elsewhere":                     {bounded(inventedDelete(t, "d", 6, none), "g", "z"), false},
		"whose bounds were cut and are equal": {bounded(inventedDelete(t, "d", 6, none), "file", "file"), true},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := newFileSet(tbl.Metadata(), [][]*entry{{data, c.e}})
			require.NoError(t, err)
			a, err := set.deletes.forFile(data)
			require.NoError(t, err)
			assert.Equal(t, c.applies, len(a.positional) == 1)
		})
	}
}

func TestDeletionVectorReplacesPositionDeletesAndMayNotComeTwice(t *testing.T) {
	tbl := bare(t, *iceberg.UnpartitionedSpec, nil)
	data := inventedEntry(t, tbl, "f", 1, 5)
	vector := func(seq int64) *entry {
		b, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentPosDeletes, "v.puffin", iceberg.PuffinFile, nil, nil, nil, 1, 1)
		require.NoError(t, err)
		b.ReferencedDataFile("f").ContentOffset(4).ContentSizeInBytes(10)

		return &entry{file: b.Build(), seq: seq}
	}
	old := inventedDelete(t, "d", 6, func(*iceberg.DataFileBuilder) {})
	set, err := newFileSet(tbl.Metadata(), [][]*entry{{old, vector(7), data}})
	require.NoError(t, err)
	a, err := set.deletes.forFile(data)
	require.NoError(t, err)
	assert.NotNil(t, a.vector)
	assert.Empty(t, a.positional)

	set, err = newFileSet(tbl.Metadata(), [][]*entry{{vector(6), vector(7), data}})
	require.NoError(t, err)
	_, err = set.deletes.forFile(data)
	require.ErrorContains(t, err, "two deletion vectors")
}

func TestFanOutNeedsMemoryForAllItsRows(t *testing.T) {
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1000, Name: "s", Transform: iceberg.IdentityTransform{}})
	tbl := bare(t, spec, nil)
	now := tbl.Spec()
	g := Group{SpecID: now.ID() + 1, Bytes: 905 * mib}
	assert.Greater(t, estimate(tbl, g).minimum(), int64(1810*mib))
	g.SpecID = now.ID()
	assert.Less(t, estimate(tbl, g).minimum(), int64(100*mib))
}
