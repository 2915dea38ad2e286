package catalog_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/catalog"
	"compactor/internal/testenv"
)

// appendRows appends one file with the ids from first on.
func appendRows(t *testing.T, tbl *table.Table, first, n int) *table.Table {
	t.Helper()
	schema, err := table.SchemaToArrowSchema(tbl.Schema(), nil, false, false)
	require.NoError(t, err)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i := range n {
		b.Field(0).(*array.Int64Builder).Append(int64(first + i))
		b.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("row %d", first+i))
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	rows := array.NewTableFromRecords(schema, []arrow.RecordBatch{rec})
	defer rows.Release()
	tbl, err = tbl.AppendTable(t.Context(), rows, int64(n), nil)
	require.NoError(t, err)
	return tbl
}

func readRows(t *testing.T, tbl *table.Table) []string {
	t.Helper()
	rows, err := tbl.Scan().ToArrowTable(t.Context())
	require.NoError(t, err)
	defer rows.Release()
	var got []string
	ids, names := rows.Column(0).Data().Chunks(), rows.Column(1).Data().Chunks()
	for i, c := range ids {
		for j := range c.Len() {
			got = append(got, fmt.Sprintf("%d=%s", c.(*array.Int64).Value(j), names[i].ValueStr(j)))
		}
	}
	slices.Sort(got)
	return got
}

func TestRowsWrittenThroughTheStoreReadBackOnEveryKind(t *testing.T) {
	lake := testenv.SharedLake(t)
	proxy := testenv.NewProxy(t, lake.S3Endpoint)
	remote := lakeOptions(lake, lake.CatalogURI)
	remote.Storage.S3.Endpoint = proxy.URL
	for name, o := range map[string]catalog.Options{"rest": remote, "sqlite": sqlOptions(t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			c := open(t, o)
			tbl := load(t, c, createTable(t, c, lake.Namespace, "rows"))
			var want []string
			for file := range 5 {
				tbl = appendRows(t, tbl, file*10, 10)
				for i := range 10 {
					want = append(want, fmt.Sprintf("%d=row %d", file*10+i, file*10+i))
				}
			}
			slices.Sort(want)
			tbl = load(t, c, tbl.Identifier())
			require.Len(t, tbl.Metadata().Snapshots(), 5)
			proxy.ResetRequests()
			require.Equal(t, want, readRows(t, tbl))
			if name != "rest" {
				return
			}
			gets := map[string]int{}
			for _, r := range proxy.Requests() {
				require.Equal(t, http.MethodGet, r.Method)
				if strings.HasSuffix(r.Path, ".parquet") {
					gets[r.Path]++
				}
			}
			require.Len(t, gets, 5)
			for path, n := range gets {
				require.Equal(t, 1, n, "requests for the small file %s", path)
			}
		})
	}
}
