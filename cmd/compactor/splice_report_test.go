package main

import (
	"encoding/json"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/stretchr/testify/require"

	"compactor/internal/tabletest"
	"compactor/pkg/maintenance"
)

// The table's limit of rows in a row group binds moved pages too. A row group of
// an input that has more of them is not cut: its group is decoded, and the report
// says by which rule.
func TestRowGroupLimitBindsEitherEngine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit  string
		engine string
		reason string
		groups []int64
	}{
		"whole row groups fit": {limit: "25", engine: "splice", groups: []int64{20, 20, 20}},
		"a row group does not": {
			limit: "8", engine: "general", reason: "row group with more rows than the table allows",
			groups: []int64{8, 8, 8, 8, 8, 8, 8, 4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tbl := tabletest.FragmentAtOnce(t, w.create(), 6, 10)
			before := tabletest.Rows(t, tbl)
			require.Len(t, before, 60)
			tx := tbl.NewTransaction()
			require.NoError(t, tx.SetProperties(map[string]string{"write.parquet.row-group-limit": c.limit}))
			_, err := tx.Commit(t.Context())
			require.NoError(t, err)

			r := w.compact("--verify")
			require.Equal(t, 0, r.code, r.stdout+r.stderr)
			r.step(t) // holds the report to its schema
			after := w.load()
			require.Equal(t, before, tabletest.Rows(t, after))
			require.Equal(t, c.groups, w.rowGroups(tabletest.Files(t, after)))

			use := r.engines(t)
			require.Len(t, use, 1, r.stdout)
			require.Equal(t, c.engine, use[0].Engine)
			require.Equal(t, c.reason, use[0].Reason)
			require.Equal(t, 6, use[0].Files)
			if c.engine == "splice" {
				pages := use[0].PagesMoved + use[0].PagesPromoted + use[0].PagesReindexed + use[0].PagesJoined + use[0].PagesTranscoded
				require.EqualValues(t, 12, pages, "a page for each column of each file")
				require.Positive(t, use[0].BytesMoved+use[0].BytesMade)
			}
		})
	}
}

func (r result) engines(t *testing.T) []maintenance.EngineUse {
	t.Helper()
	var doc struct {
		Tables []struct {
			Steps []struct {
				Engines []maintenance.EngineUse `json:"engines"`
			} `json:"steps"`
		} `json:"tables"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &doc))
	require.Len(t, doc.Tables, 1)
	require.Len(t, doc.Tables[0].Steps, 1)

	return doc.Tables[0].Steps[0].Engines
}

// rowGroups are the rows of each row group of the one file.
func (w *world) rowGroups(files []string) (rows []int64) {
	w.t.Helper()
	require.Len(w.t, files, 1)
	fs, err := w.load().FS(w.t.Context())
	require.NoError(w.t, err)
	f, err := fs.Open(files[0])
	require.NoError(w.t, err)
	pf, err := file.NewParquetReader(f)
	require.NoError(w.t, err)
	for i := range pf.NumRowGroups() {
		rows = append(rows, pf.MetaData().RowGroup(i).NumRows())
	}
	require.NoError(w.t, pf.Close())

	return rows
}
