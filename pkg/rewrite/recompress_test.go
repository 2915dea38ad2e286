package rewrite

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A table of snappy files whose properties are changed before the rewrite.
func TestMovedPagesAreCompressedAnewWhenThatIsAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		props      iceberg.Properties
		recompress bool
		codec      string
		all        bool // no page is moved as it is
	}{
		"not asked for":              {props: iceberg.Properties{compressionCodecKey: "zstd"}, codec: "SNAPPY"},
		"another codec":              {props: iceberg.Properties{compressionCodecKey: "zstd"}, recompress: true, codec: "ZSTD", all: true},
		"the same codec":             {recompress: true, codec: "SNAPPY"},
		"the same codec and a level": {props: iceberg.Properties{compressionLevelKey: "3"}, recompress: true, codec: "SNAPPY", all: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, idAndText, *iceberg.UnpartitionedSpec, iceberg.Properties{compressionCodecKey: "snappy"})
			for i := range 6 {
				e.appendJSON(longTexts(i)...)
			}
			if c.props != nil {
				e.commit(func(tx *table.Transaction) { require.NoError(t, tx.SetProperties(c.props)) })
			}
			tbl, plan := e.load(), e.plan(PlanOptions{})
			general := rewriteWith(t, tbl, plan, Options{Engine: EngineGeneral})[0]
			spliced := rewriteWith(t, tbl, plan, Options{Recompress: c.recompress, Verify: true})[0]
			require.Equal(t, EngineSplice, spliced.Engine.Name, spliced.Engine.Reason)
			assert.Equal(t, inOrder(t, tbl, general.Outputs), inOrder(t, tbl, spliced.Outputs))
			sameMetrics(t, general.Outputs, spliced.Outputs)
			for _, df := range spliced.Outputs {
				assert.Equal(t, []string{c.codec}, e.codecs(df), "every column")
			}
			pages := spliced.Engine.Pages
			assert.Equal(t, c.all, pages.BytesVerbatim == 0, "%+v", pages)
			assert.Equal(t, c.all, pages.Transcoded > 0, "%+v", pages)
		})
	}
}

// longTexts are rows whose texts fill a page that is not small.
func longTexts(seed int) (rows []string) {
	rnd := rand.New(rand.NewPCG(uint64(seed), 1))
	for i := range 500 {
		rows = append(rows, fmt.Sprintf(`{"id":%d,"s":"%016x%016x%016x%016x"}`, 500*seed+i, rnd.Uint64(), rnd.Uint64(), rnd.Uint64(), rnd.Uint64()))
	}

	return rows
}

// codecs are the names of a file's compression codecs, each once.
func (e *env) codecs(df iceberg.DataFile) (names []string) {
	e.t.Helper()
	r, err := file.OpenParquetFile(df.FilePath()[len("file://"):], false)
	require.NoError(e.t, err)
	defer func() { require.NoError(e.t, r.Close()) }()
	seen := make(map[string]bool)
	for g := range r.NumRowGroups() {
		for c := range r.MetaData().RowGroup(g).NumColumns() {
			chunk, err := r.MetaData().RowGroup(g).ColumnChunk(c)
			require.NoError(e.t, err)
			if name := chunk.Compression().String(); !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}

	return names
}
