package maintenance

import (
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// unusedMetadata finds the partition specs and schemas that nothing which
// stays uses any more. lists are the manifests of every snapshot that stays.
//
// A spec goes when it is not the default one and no manifest that stays was
// written with it. A schema goes when it is not the current one, no snapshot
// that stays names it, and it knows no column that may still be needed: while
// there are delete files, an equality delete may be about a column that the
// current schema has dropped, and a spec that stays may partition by one.
func unusedMetadata(meta table.Metadata, kept []table.Snapshot, lists []iceberg.ManifestFile) (schemas, specs []int) {
	usedSpecs := map[int]bool{meta.DefaultPartitionSpec(): true}
	deletes := false
	for _, m := range lists {
		usedSpecs[int(m.PartitionSpecID())] = true
		deletes = deletes || m.ManifestContent() == iceberg.ManifestContentDeletes
	}
	sources := map[int]bool{}
	for _, spec := range meta.PartitionSpecs() {
		if !usedSpecs[spec.ID()] {
			specs = append(specs, spec.ID())

			continue
		}
		for i := range spec.NumFields() {
			for _, id := range spec.Field(i).SourceIDs {
				sources[id] = true
			}
		}
	}
	usedSchemas := map[int]bool{meta.CurrentSchema().ID: true}
	for _, s := range kept {
		if s.SchemaID == nil {
			// A snapshot that does not say which schema it has may have any.
			return nil, specs
		}
		usedSchemas[*s.SchemaID] = true
	}
	for _, sc := range meta.Schemas() {
		if !usedSchemas[sc.ID] && !knowsMore(sc, meta.CurrentSchema(), deletes, sources) {
			schemas = append(schemas, sc.ID)
		}
	}
	slices.Sort(schemas)
	slices.Sort(specs)

	return schemas, specs
}

// knowsMore says whether sc has a column that current has not and that is, or
// may be, needed.
func knowsMore(sc, current *iceberg.Schema, deletes bool, sources map[int]bool) bool {
	fields, err := sc.FlatFields()
	if err != nil {
		return true // What cannot be read is kept.
	}
	for f := range fields {
		if _, has := current.FindFieldByID(f.ID); !has && (deletes || sources[f.ID]) {
			return true
		}
	}

	return false
}

// expiryCommit builds the request of an expiry: every ref that was loaded is
// asserted, so that the request fails when one of them moved.
func expiryCommit(tbl *table.Table, p expiryPlan) table.TableCommit {
	meta := tbl.Metadata()
	reqs := []table.Requirement{table.AssertTableUUID(meta.TableUUID())}
	asserted := false
	for _, refName := range sortedRefs(meta) {
		id := refTarget(meta, refName)
		reqs = append(reqs, table.AssertRefSnapshotID(refName, &id))
		asserted = asserted || refName == table.MainBranch
	}
	if !asserted {
		reqs = append(reqs, table.AssertRefSnapshotID(table.MainBranch, nil))
	}
	var updates []table.Update
	for _, refName := range p.refs {
		updates = append(updates, table.NewRemoveSnapshotRefUpdate(refName))
	}
	gone := map[int64]bool{}
	for _, id := range p.ids() {
		gone[id] = true
	}
	for s := range meta.Statistics() {
		if gone[s.SnapshotID] {
			updates = append(updates, table.NewRemoveStatisticsUpdate(s.SnapshotID))
		}
	}
	for s := range meta.PartitionStatistics() {
		if gone[s.SnapshotID] {
			updates = append(updates, table.NewRemovePartitionStatisticsUpdate(s.SnapshotID))
		}
	}
	if len(p.snapshots) > 0 {
		updates = append(updates, table.NewRemoveSnapshotsUpdate(p.ids(), false))
	}
	if len(p.specs) > 0 {
		reqs = append(reqs, table.AssertDefaultSpecID(meta.DefaultPartitionSpec()))
		updates = append(updates, table.NewRemoveSpecUpdate(p.specs))
	}
	if len(p.schemas) > 0 {
		reqs = append(reqs, table.AssertCurrentSchemaID(meta.CurrentSchema().ID))
		updates = append(updates, table.NewRemoveSchemasUpdate(p.schemas))
	}

	return table.TableCommit{Identifier: tbl.Identifier(), Requirements: reqs, Updates: updates}
}

func sortedRefs(meta table.Metadata) []string {
	var names []string
	for n := range meta.Refs() {
		names = append(names, n)
	}
	slices.Sort(names)

	return names
}

func refTarget(meta table.Metadata, refName string) int64 {
	for n, ref := range meta.Refs() {
		if n == refName {
			return ref.SnapshotID
		}
	}

	return 0
}

// refsDiffer names the first ref that is not what it was, or "".
func refsDiffer(base, now table.Metadata) string {
	was, is := map[string]table.SnapshotRef{}, map[string]table.SnapshotRef{}
	for n, r := range base.Refs() {
		was[n] = r
	}
	for n, r := range now.Refs() {
		is[n] = r
		if old, had := was[n]; !had {
			return fmt.Sprintf("%s %s is new and points at snapshot %d", r.SnapshotRefType, n, r.SnapshotID)
		} else if !old.Equals(r) {
			return fmt.Sprintf("%s %s has changed and points at snapshot %d", r.SnapshotRefType, n, r.SnapshotID)
		}
	}
	for _, n := range sortedRefs(base) {
		if _, still := is[n]; !still {
			return "ref " + n + " is gone"
		}
	}

	return ""
}
