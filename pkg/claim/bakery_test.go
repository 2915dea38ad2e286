package claim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/claim"
	"compactor/pkg/claim/bakery"
	"compactor/pkg/claim/claimtest"
)

const bakeryKeySQL = "hashtextextended('bakery owner ' || $1::text, 0)"

// bakeryMesh is a mesh whose nodes are databases of one server, which is quick to start and runs the same protocol.
func bakeryMesh(tb testing.TB, nodes, major int) []*testenv.Database {
	tb.Helper()
	server := testenv.NewPostgres(tb, testenv.PostgresOptions{Major: major})
	var plan bakery.Plan
	var dbs []*testenv.Database
	for i := range nodes {
		db := server.Database(tb)
		dbs = append(dbs, db)
		plan.Nodes = append(plan.Nodes, bakery.Node{Name: fmt.Sprintf("n%d", i+1), DSN: db.DSN})
	}
	_, err := bakery.Install(tb.Context(), plan)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		for _, n := range plan.Nodes {
			require.NoError(tb, bakery.Uninstall(context.Background(), n, true))
		}
	})
	return dbs
}

func TestBakeryConformsOnOneNode(t *testing.T) {
	db := bakeryMesh(t, 1, 15)[0]
	claimtest.Run(t, bakeryHarness(db))
}

func TestBakeryConformsOnThreeNodes(t *testing.T) {
	for _, major := range []int{15, 18} {
		t.Run(fmt.Sprintf("PostgreSQL %d", major), func(t *testing.T) {
			claimtest.Run(t, bakeryHarness(bakeryMesh(t, 3, major)[0]))
		})
	}
}

func bakeryHarness(db *testenv.Database) claimtest.Harness {
	return claimtest.Harness{
		Config: func(_ testing.TB, holder string) claim.Config {
			return claim.Config{Mode: claim.ModeBakery, DSN: db.DSN, Holder: holder, Window: 10 * time.Second}
		},
		Sever:  func(tb testing.TB, c *claim.Claim) { terminate(tb, db, bakeryKeySQL, c.Reference()) },
		Queued: func(tb testing.TB, key claim.Key) int { return atLock(tb, db, bakeryKeySQL, key.String()) },
		Term:   5 * time.Second,
	}
}
