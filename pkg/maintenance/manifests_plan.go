package maintenance

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"compactor/pkg/rewrite"
)

// A manifest below smallManifest of the target is worth merging. A merge that
// saves fewer than minManifestsSaved manifests is not worth a snapshot: a
// compaction leaves two, and would otherwise be followed by one each time.
const (
	smallManifest     = 0.75
	minManifestsSaved = 2
)

// manifestPlan is what a rewrite of manifests takes.
type manifestPlan struct {
	groups []manifestGroup
	keep   []iceberg.ManifestFile // in the order of the snapshot's list
	total  int
	reason string // why there is nothing to do
}

// manifestGroup is merged into manifests of its own.
type manifestGroup struct {
	spec      int
	content   iceberg.ManifestContent
	manifests []iceberg.ManifestFile // those with the lowest partitions first
	bytes     int64
	expected  int // manifests it becomes, about
}

// planManifests reads the manifest list of the current snapshot and nothing
// else. Small manifests of one spec and one content make a group, when merging
// them saves enough. What a rewrite writes has the target size, but for one
// manifest per group, so that it is no group again.
func planManifests(ctx context.Context, tbl *table.Table, target int64) (manifestPlan, error) {
	snap := tbl.CurrentSnapshot()
	if snap == nil {
		return manifestPlan{reason: "the table has no snapshot"}, nil
	}
	fio, err := tbl.FS(ctx)
	if err != nil {
		return manifestPlan{}, fmt.Errorf("open file io of %s: %w", name(tbl), err)
	}
	manifests, err := snap.Manifests(fio)
	if err != nil {
		return manifestPlan{}, fmt.Errorf("read manifest list of snapshot %d: %w", snap.SnapshotID, err)
	}
	type kind struct {
		spec    int
		content iceberg.ManifestContent
	}
	small := map[kind][]iceberg.ManifestFile{}
	left := 0
	for _, m := range manifests {
		if float64(m.Length()) >= smallManifest*float64(target) {
			continue
		}
		if !mergeable(tbl, m) {
			left++
		} else {
			k := kind{int(m.PartitionSpecID()), m.ManifestContent()}
			small[k] = append(small[k], m)
		}
	}
	plan := manifestPlan{total: len(manifests), reason: fmt.Sprintf("the %d manifests are few or large enough", len(manifests))}
	if left > 0 {
		plan.reason += fmt.Sprintf("; %d cannot be written again as they are", left)
	}
	taken := map[string]bool{}
	for k, list := range small {
		g := manifestGroup{spec: k.spec, content: k.content, manifests: list}
		if g.measure(target); len(list)-g.expected < minManifestsSaved {
			continue
		}
		slices.SortStableFunc(g.manifests, byLowestPartition)
		for _, m := range list {
			taken[m.FilePath()] = true
		}
		plan.groups = append(plan.groups, g)
	}
	slices.SortFunc(plan.groups, func(a, b manifestGroup) int {
		return cmp.Or(cmp.Compare(a.content, b.content), cmp.Compare(a.spec, b.spec))
	})
	for _, m := range manifests {
		if !taken[m.FilePath()] {
			plan.keep = append(plan.keep, m)
		}
	}

	return plan, nil
}

// measure estimates the size of the live part and what it becomes.
func (g *manifestGroup) measure(target int64) {
	var live float64
	for _, m := range g.manifests {
		g.bytes += m.Length()
		added, existing, deleted := m.AddedDataFiles(), m.ExistingDataFiles(), m.DeletedDataFiles()
		switch all := float64(added) + float64(existing) + float64(deleted); {
		case added < 0 || existing < 0 || deleted < 0: // Format version 1 may not count.
			live += float64(m.Length())
		case all > 0:
			live += float64(m.Length()) * float64(added+existing) / all
		}
	}
	if live > 0 {
		g.expected = int(live)/int(target) + 1
	}
}

// mergeable leaves manifests alone that cannot be written again as they are:
// encrypted ones, those of a spec for which none can be written, such as one of
// two decimals, and those of a spec with a partition field whose column the
// current schema lacks, as its values would be dropped.
func mergeable(tbl *table.Table, m iceberg.ManifestFile) bool {
	spec := tbl.Metadata().PartitionSpecByID(int(m.PartitionSpecID()))
	if spec == nil || len(m.KeyMetadata()) > 0 || rewrite.UnwritableSpec(tbl.Schema(), *spec) != "" {
		return false
	}

	return len(spec.PartitionType(tbl.Schema()).FieldList) == spec.NumFields()
}

func byLowestPartition(a, b iceberg.ManifestFile) int {
	x, y := a.Partitions(), b.Partitions()
	for i := range min(len(x), len(y)) {
		if c := bytes.Compare(lowBound(x[i]), lowBound(y[i])); c != 0 {
			return c
		}
	}

	return cmp.Compare(a.MinSequenceNum(), b.MinSequenceNum())
}

func lowBound(f iceberg.FieldSummary) []byte {
	if f.LowerBound == nil {
		return nil
	}

	return *f.LowerBound
}
