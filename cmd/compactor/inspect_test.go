package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	icebergcatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/catalog"
	"compactor/internal/store"
	"compactor/internal/tabletest"
	"compactor/pkg/inspect"
)

// counted is a count of a table's files that was kept while they were made.
type counted struct {
	total      inspect.Data
	partitions map[string]*inspect.Partition
}

// manyFiles commits files that exist in the metadata only, a part per commit.
func manyFiles(t *testing.T, cat *catalog.Catalog, ident table.Identifier, partitions, files int) counted {
	t.Helper()
	const commits, seed, small = 4, 20261130, 96 << 20
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1000, Name: "p", Transform: iceberg.IdentityTransform{}})
	tabletest.Create(cat.Context(context.Background()), t, cat.Client(), ident, tabletest.PartitionedSchema(),
		icebergcatalog.WithPartitionSpec(&spec), props("write.target-file-size-bytes", "134217728"))
	tbl, err := cat.LoadTable(context.Background(), ident)
	require.NoError(t, err)
	sum := counted{partitions: map[string]*inspect.Partition{}}
	for c := range commits {
		var added []iceberg.DataFile
		for i := range files / commits {
			p := fmt.Sprintf("p%04d", random.IntN(partitions))
			size, rows := 1+random.Int64N(300<<20), 1+random.Int64N(1000)
			b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, fmt.Sprintf("%s/data/p=%s/%d-%d.parquet", tbl.Location(), p, c, i),
				iceberg.ParquetFile, map[int]any{1000: p}, nil, nil, rows, size)
			require.NoError(t, err)
			added = append(added, b.Build())
			one := sum.partitions["p="+p]
			if one == nil {
				one = &inspect.Partition{Name: "p=" + p}
				sum.partitions["p="+p] = one
			}
			for _, d := range []*int64{&sum.total.Files, &one.Files} {
				*d++
			}
			sum.total.Bytes, one.Bytes, sum.total.Rows = sum.total.Bytes+size, one.Bytes+size, sum.total.Rows+rows
			if size < small {
				sum.total.SmallFiles, one.SmallFiles = sum.total.SmallFiles+1, one.SmallFiles+1
				sum.total.SmallBytes, one.SmallBytes = sum.total.SmallBytes+size, one.SmallBytes+size
			}
			if size > (128<<20)*180/100 {
				sum.total.LargeFiles++
			}
		}
		tx := tbl.NewTransaction()
		require.NoError(t, tx.AddDataFiles(context.Background(), added, nil, table.WithoutAutoNameMapping()))
		tbl, err = tx.Commit(context.Background())
		require.NoError(t, err)
	}

	return sum
}

// A table of 100,000 data files in 5,000 partitions is described in bounded
// memory, and every figure is that of an independent count.
func TestInspectAHundredThousandFiles(t *testing.T) {
	t.Parallel()
	store.Register()
	config, cat := embedded(t)
	w := &world{t: t, env: map[string]string{}}
	want := manyFiles(t, cat, table.Identifier{"big", "events"}, 5000, 100_000)
	page := filepath.Join(t.TempDir(), "health.html")
	p := w.startFile(built(t), "inspect", "--config", config, "-o", "json", "--memory", "256MiB", "--html", page, "big.events")
	most := p.largestResident(5 * time.Minute)
	require.Equal(t, 0, p.code, p.stderr)
	t.Logf("peak %d MiB, user time %s", most>>20, p.cmd.ProcessState.UserTime())
	require.Less(t, most, int64(256<<20)*13/10)

	var doc inspection
	require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &doc))
	require.Len(t, doc.Tables, 1)
	h := doc.Tables[0]
	require.Equal(t, want.total, h.Data)
	require.Equal(t, len(want.partitions), h.Partitions.Count)
	worst := slices.SortedFunc(maps.Values(want.partitions), func(a, b *inspect.Partition) int {
		return cmp.Or(cmp.Compare(b.SmallFiles, a.SmallFiles), cmp.Compare(b.Files, a.Files), cmp.Compare(a.Name, b.Name))
	})
	for i, one := range h.Partitions.Worst {
		require.Equal(t, *worst[i], one)
	}
	require.Len(t, h.Partitions.Worst, 10)
	var files, bytes int64
	for _, b := range h.Sizes {
		files, bytes = files+b.Files, bytes+b.Bytes
	}
	require.Equal(t, []int64{want.total.Files, want.total.Bytes}, []int64{files, bytes}, "the histogram has every file")
	saved := int64(0)
	for _, one := range want.partitions {
		if after := (one.SmallBytes + 128<<20 - 1) / (128 << 20); one.SmallFiles >= 5 {
			saved += one.SmallFiles - after
		}
	}
	require.Positive(t, saved)
	require.Equal(t, h.Compaction.FilesBefore-saved, h.Compaction.FilesAfter)
	require.Equal(t, 4, h.Snapshots.Count)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), fmt.Sprintf(`<data data-field="data.bytes" value="%d">`, want.total.Bytes))
	require.Less(t, len(text), 64<<10, "a page of a large table is no larger")
}

// The figures of a real table with deletes, before and after its maintenance,
// without PostgreSQL and without a write.
func TestInspectARealTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.writeConfig("advisory", "defaults: {expire: {enabled: true, older_than: 0s}}\n")
	w.env["COMPACTOR_CLAIM_POSTGRES"] = "postgres://nobody@127.0.0.1:1/none"
	tbl := tabletest.Fragment(t, w.create(), 6, 10)
	tbl = tabletest.DeleteWhere(t, tbl, iceberg.LessThan(iceberg.Reference("id"), int64(3)))
	before := w.objects()
	r := w.do("inspect")
	require.Equal(t, 0, r.code, r.stderr)
	var doc inspection
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &doc))
	h := doc.Tables[0]
	require.Equal(t, w.name(), h.Table)
	require.Equal(t, []int64{6, 60, 6}, []int64{h.Data.Files, h.Data.Rows, h.Data.SmallFiles})
	require.Equal(t, int64(3), h.Deletes.Rows)
	require.InDelta(t, 0.05, h.Deletes.Share, 1e-9)
	require.Equal(t, len(tabletest.DeleteFiles(t, tbl)), int(h.Deletes.PositionFiles+h.Deletes.Vectors))
	require.Equal(t, len(tbl.Metadata().Snapshots()), h.Snapshots.Count)
	committed := time.UnixMilli(tbl.CurrentSnapshot().TimestampMs).UTC()
	require.Equal(t, []inspect.Ref{{Name: "main", Type: "branch", SnapshotID: tbl.CurrentSnapshot().SnapshotID, At: &committed}}, h.Snapshots.Refs)
	require.Equal(t, int64(1), h.Compaction.FilesAfter)
	require.Positive(t, h.Metadata.Bytes)
	due := map[string]bool{}
	for _, v := range h.Steps {
		due[v.Step] = v.Due
	}
	require.Equal(t, map[string]bool{"compact": true, "manifests": true, "expire": true, "orphans": false}, due)
	require.Equal(t, before, w.objects(), "nothing is written")

	w.env["COMPACTOR_CLAIM_POSTGRES"] = w.db.DSN
	require.Equal(t, 0, w.do("run").code)
	text := w.compactor("inspect", "--config", w.config, w.name())
	require.Equal(t, 0, text.code, text.stderr)
	require.Regexp(t, `data +1 files, .*, 57 rows\n`, text.stdout)
	require.Regexp(t, `< 1\.0 MiB +█{40} 1 files, `, text.stdout)
	require.Regexp(t, `compact +nothing to do: `, text.stdout)
	w.env["NO_COLOR"] = "1"
	require.Regexp(t, `< 1\.0 MiB +#{40} 1 files, `, w.compactor("inspect", "--config", w.config, w.name()).stdout)

	ranking := w.compactor("inspect", "--config", w.config, w.name(), w.ident[0]+".missing")
	require.Equal(t, 1, ranking.code)
	require.Contains(t, ranking.stdout, w.ident[0]+".missing: ")
}
