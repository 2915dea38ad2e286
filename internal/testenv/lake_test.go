package testenv

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	_ "github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// openCatalog opens the lake's catalog, by way of another URI when one is given.
func openCatalog(t *testing.T, lake *Lake, via string) catalog.Catalog {
	t.Helper()
	properties := iceberg.Properties(lake.Properties())
	if via != "" {
		properties["uri"] = via
	}
	cat, err := catalog.Load(t.Context(), "lake", properties)
	require.NoError(t, err)
	return cat
}

// createTable makes the lake's namespace and in it a table "t" with the columns id and s.
func createTable(t *testing.T, cat catalog.Catalog, lake *Lake) *table.Table {
	t.Helper()
	require.NoError(t, cat.CreateNamespace(t.Context(), table.Identifier{lake.Namespace}, nil))
	schema := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "s", Type: iceberg.PrimitiveTypes.String})
	tbl, err := cat.CreateTable(t.Context(), table.Identifier{lake.Namespace, "t"}, schema)
	require.NoError(t, err)
	return tbl
}

func TestSharedLakeKeepsTablesUnderOwnNamespace(t *testing.T) {
	lake := SharedLake(t)
	require.NotEqual(t, lake.Namespace, SharedLake(t).Namespace)
	cat := openCatalog(t, lake, "")
	tbl := createTable(t, cat, lake)
	require.Contains(t, tbl.Location(), "s3://analytics/"+lake.Namespace+"/")
	exists, err := cat.CheckTableExists(t.Context(), table.Identifier{lake.Namespace, "t"})
	require.NoError(t, err)
	require.True(t, exists)
}

func TestTwoLakesRunSideBySideAndEndWithTheTest(t *testing.T) {
	var pids []int
	var addresses []string
	t.Run("both answer and know only their own tables", func(t *testing.T) {
		first, second := NewLake(t), NewLake(t)
		for _, lake := range []*Lake{first, second} {
			createTable(t, openCatalog(t, lake, ""), lake)
			pids = append(pids, lake.Pid())
			addresses = append(addresses, lake.S3Endpoint[len("http://"):], lake.CatalogURI[len("http://"):])
		}
		exists, err := openCatalog(t, second, "").CheckTableExists(t.Context(), table.Identifier{first.Namespace, "t"})
		require.NoError(t, err)
		require.False(t, exists)
	})
	requireGone(t, pids, addresses)
}

func TestLakeKeepsItsTablesOverAKill(t *testing.T) {
	lake := NewLake(t)
	createTable(t, openCatalog(t, lake, ""), lake)
	lake.Kill9(t)
	require.Zero(t, lake.Pid())
	lake.Start(t)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		cat, err := catalog.Load(context.Background(), "lake", iceberg.Properties(lake.Properties()))
		if !assert.NoError(c, err) {
			return
		}
		exists, err := cat.CheckTableExists(context.Background(), table.Identifier{lake.Namespace, "t"})
		assert.NoError(c, err)
		assert.True(c, exists)
	}, 20*time.Second, 200*time.Millisecond)
}

// requireGone asserts that no process is left and that nothing listens on the addresses.
func requireGone(t *testing.T, pids []int, addresses []string) {
	t.Helper()
	for _, pid := range pids {
		require.Positive(t, pid)
		require.False(t, alive(pid), "process %d", pid)
	}
	for _, address := range addresses {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		require.Error(t, err, "something listens on %s", address)
	}
}
