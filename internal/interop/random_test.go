//go:build interop

package interop

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	icebergtable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// seedVariable repeats one table: its value is the seed that a failed run named.
const seedVariable = "INTEROP_SEED"

func TestRandomTables(t *testing.T) {
	seeds := make([]uint64, 0, randomTables)
	if text := os.Getenv(seedVariable); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		seeds = append(seeds, seed)
	} else {
		for i := range randomTables {
			seeds = append(seeds, uint64(time.Now().Unix())*1000+uint64(i))
		}
	}
	t.Logf("seeds %d to %d; %s=SEED repeats one", seeds[0], seeds[len(seeds)-1], seedVariable)
	w := newWorld(t)
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { w.random(t, seed) })
	}
}

// random makes a table, reads it, maintains it and reads it again.
func (w *world) random(t *testing.T, seed uint64) {
	t.Helper()
	inner := &world{t: t, lake: w.lake, bucket: w.bucket}
	x := &randomTable{t: t, r: rand.New(rand.NewPCG(seed, 0))}
	defer func() {
		if t.Failed() {
			t.Logf("seed %d: %s", seed, strings.Join(x.story, "\n  "))
		}
	}()
	name := fmt.Sprintf("t%d", seed)
	x.create(inner.catalog(), icebergtable.Identifier{w.lake.Namespace, name})
	x.live()
	var conditions []string
	require.NoError(t, python.ask(t, fmt.Sprintf("result = probes(%q)", w.table(name)), &conditions))
	conditions = slices.DeleteFunc(conditions, x.misleads)
	before := inner.look(name, []reader{byDuckDB}, conditions...)
	require.Len(t, before[0].rows, len(x.ids), "rows that DuckDB reads before anything is done")
	flags := [][]string{{"--rewrite-all"}, {"--min-input-files", "2"}, {"--rewrite-all", "--target-file-size", "2KiB"}}
	if !x.byValue { // PyIceberg reads no table with equality deletes, which would stay
		flags = append(flags, []string{"--min-input-files", "1000", "--rewrite-deletes"})
	}
	code, steps, log := inner.compactor(name, "run", append(pick(x.r, flags), "--verify")...)
	require.Zero(t, code, "%+v\n%s", steps, log)
	for i, s := range inner.look(name, []reader{byDuckDB}, conditions...) {
		assert.Equal(t, before[i].rows, s.rows, "where %q", s.where)
	}
	ids, err := reader{"PyIceberg", python, "pyiceberg_ids(%q, %q)"}.rows(t, w.table(name), "")
	require.NoError(t, err)
	want := make([]string, 0, len(x.ids))
	for _, id := range x.ids {
		want = append(want, fmt.Sprint(id))
	}
	slices.Sort(want)
	assert.Equal(t, want, ids, "ids that PyIceberg reads")
}

// misleads reports whether a condition is on a column by whose months or days the
// table is or was partitioned: DuckDB looks for times before 1970 in the wrong one.
func (x *randomTable) misleads(condition string) bool {
	for _, spec := range x.tbl.Metadata().PartitionSpecs() {
		for _, part := range spec.Fields() {
			name, ok := x.tbl.Schema().FindColumnName(part.SourceIDs[0])
			transform := part.Transform.String()
			if ok && (transform == "month" || transform == "day") && strings.HasPrefix(condition, strconv.Quote(name)) {
				return true
			}
		}
	}

	return false
}
