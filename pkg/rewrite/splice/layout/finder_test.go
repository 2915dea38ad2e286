package layout

import (
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/splice/format"
)

func TestFilesOfOneWriterShareALayout(t *testing.T) {
	stored := func(e ...format.SchemaElement) *format.FileMetaData {
		f, err := format.ReadFooter(flat(e...).Append(nil))
		require.NoError(t, err)

		return f
	}
	p := iceberg.PrimitiveTypes
	finder := &Finder{Schema: iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "a", Type: p.Int64}, iceberg.NestedField{ID: 2, Name: "b", Type: p.Int64})}
	a, b := element("a", 1, format.Optional, format.Int64), element("b", 2, format.Optional, format.Int64)
	first, err := finder.Of(stored(a, b))
	require.NoError(t, err)
	again, err := finder.Of(stored(a, b))
	require.NoError(t, err)
	assert.Same(t, first, again)

	turned, err := finder.Of(stored(b, a))
	require.NoError(t, err)
	assert.Equal(t, 1, turned.Columns()[0].Source, "it looks again where anything differs")
	made, err := finder.Of(flat(a, b))
	require.NoError(t, err)
	assert.Equal(t, 0, made.Columns()[0].Source, "a footer that was not read has no stored schema")

	short := stored(b, a)
	_, err = finder.Of(short)
	require.NoError(t, err)
	short.RowGroups = []format.RowGroup{{Columns: make([]format.ColumnChunk, 1)}}
	_, err = finder.Of(short)
	require.ErrorIs(t, err, ErrCorrupt, "row groups are counted in every file")
}

func TestColumnsAreNamedInEveryFileWithoutIDs(t *testing.T) {
	names := iceberg.NameMapping{{FieldID: new(int), Names: []string{"a"}}}
	*names[0].FieldID = 7
	finder := &Finder{Schema: iceberg.NewSchema(0, iceberg.NestedField{ID: 7, Name: "a", Type: iceberg.PrimitiveTypes.Int64}), Names: names}
	e := element("a", 0, format.Optional, format.Int64)
	e.FieldID = nil
	for range 2 {
		f, err := format.ReadFooter(flat(e).Append(nil))
		require.NoError(t, err)
		l, err := finder.Of(f)
		require.NoError(t, err)
		assert.Equal(t, 0, l.Columns()[0].Source)
	}
}
