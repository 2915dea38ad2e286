package rewrite

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"compactor/pkg/rewrite/rewritetest"
)

// Unless the table says how large row groups are, they end when they are large
// enough for every reader.
func TestRowGroupsEndWhenTheyAreLargeEnough(t *testing.T) {
	const files, rows = 15, rewritetest.EventRows
	e := newEnv(t, rewritetest.EventSchema(), *iceberg.UnpartitionedSpec, nil)
	for i := range files {
		raw, err := rewritetest.EventFile(e.load().Schema(), rows, uint64(i), false)
		require.NoError(t, err)
		e.addRaw(raw, rows)
	}
	general, spliced := e.rowGroups(EngineGeneral), e.rowGroups(EngineSplice)
	assert.Equal(t, []int64{enoughRows, enoughRows, files*rows - 2*enoughRows}, general)
	whole := int64(enoughRows+rows-1) / rows * rows // of files
	assert.Equal(t, []int64{whole, whole, files*rows - 2*whole}, spliced)

	for key, value := range map[string]string{table.ParquetRowGroupLimitKey: "1048576", table.ParquetRowGroupSizeBytesKey: "134217728"} {
		e.commit(func(tx *table.Transaction) { require.NoError(t, tx.SetProperties(iceberg.Properties{key: value})) })
		assert.Equal(t, []int64{files * rows}, e.rowGroups(EngineSplice), key)
		e.commit(func(tx *table.Transaction) { require.NoError(t, tx.RemoveProperties([]string{key})) })
	}
}

// Narrow rows go on until the bytes are enough.
func TestRowGroupsOfNarrowRowsHaveMoreOfThem(t *testing.T) {
	for _, c := range []struct{ rows, bytes, want int64 }{
		{1_000_000, 100_000_000, enoughRows},
		{1_000_000, 8_000_000, enoughBytes / 8},
		{0, 0, enoughRows},
	} {
		assert.Equal(t, c.want, enoughFor(c.rows, c.bytes), "%d rows in %d bytes", c.rows, c.bytes)
	}
}

// rowGroups has an engine rewrite the table into one file and returns the rows
// of each of its row groups.
func (e *env) rowGroups(engine string) (rows []int64) {
	e.t.Helper()
	tbl := e.load()
	outputs := rewriteWith(e.t, tbl, e.plan(PlanOptions{}), Options{Engine: engine})[0].Outputs
	require.Len(e.t, outputs, 1)
	pf, err := file.OpenParquetFile(strings.TrimPrefix(outputs[0].FilePath(), "file://"), false)
	require.NoError(e.t, err)
	defer func() { require.NoError(e.t, pf.Close()) }()
	for i := range pf.NumRowGroups() {
		rows = append(rows, pf.RowGroup(i).NumRows())
	}

	return rows
}
