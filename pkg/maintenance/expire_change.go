package maintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go/table"
)

// expiryChange removes snapshots, refs, schemas and specs. It makes no
// snapshot, so that what it did shows only in what is gone.
type expiryChange struct{ plan expiryPlan }

func (expiryChange) permits(action, _ string) bool {
	switch action {
	case table.UpdateRemoveSnapshots, table.UpdateRemoveSnapshotRef, table.UpdateRemoveStatistics,
		table.UpdateRemovePartitionStatistics, table.UpdateRemoveSchemas, table.UpdateRemoveSpec:
		return true
	}

	return false
}

// ready compares the refs with those the plan was made for. The request
// asserts every ref that was loaded, but no requirement can say that there is
// no further one; a catalog drops a ref together with the snapshot it points at.
func (c expiryChange) ready(ctx context.Context, m *Maintainer, base *table.Table) error {
	now, err := m.Catalog.LoadTable(ctx, base.Identifier())
	if err != nil {
		return fmt.Errorf("load refs: %w", err)
	}
	if why := refsDiffer(base.Metadata(), now.Metadata()); why != "" {
		return fmt.Errorf("%s, although the claim is held; nothing was expired: %w", why, ErrConflict)
	}

	return nil
}

func (expiryChange) leftovers() string { return "no file was deleted" }

func (c expiryChange) judge(_ context.Context, _ *Maintainer, base, now *table.Table) (verdict, commitResult, error) {
	if !c.goneFrom(now.Metadata()) {
		return movedOn(base, now)
	}
	res := commitResult{MetadataPath: now.MetadataLocation(), FoundBySearch: true}
	if head := currentHead(now); head != nil {
		res.SnapshotID = *head
	}

	return happened, res, nil
}

// goneFrom says whether a state of the table has nothing any more of what the
// plan removes.
func (c expiryChange) goneFrom(meta table.Metadata) bool {
	if len(present(meta, c.plan.ids())) > 0 {
		return false
	}
	for refName := range meta.Refs() {
		if slices.Contains(c.plan.refs, refName) {
			return false
		}
	}
	for _, sc := range meta.Schemas() {
		if slices.Contains(c.plan.schemas, sc.ID) {
			return false
		}
	}
	for _, spec := range meta.PartitionSpecs() {
		if slices.Contains(c.plan.specs, spec.ID()) {
			return false
		}
	}

	return true
}

// present returns those of ids that a state of the table has.
func present(meta table.Metadata, ids []int64) []int64 {
	var found []int64
	for _, id := range ids {
		if meta.SnapshotByID(id) != nil {
			found = append(found, id)
		}
	}

	return found
}

// errUnproven: the states between the one that was loaded and the one without
// the snapshots cannot be read, so nothing may be concluded from them.
var errUnproven = errors.New("the history of the table's metadata does not show what lies between")

// provenUnreferenced answers the question that no requirement of the commit
// can ask: did a ref come up between the load and the commit that pointed at a
// snapshot which the commit removed? The catalog drops such a ref silently.
//
// The metadata log of the state after the commit lists the states before it.
// When its last entry is the state that was loaded, there was none in between.
// Otherwise each state in between is read, up to the first without the removed
// snapshots; the first ref that points at one of them is an ErrConflict. A log
// that does not reach back to the loaded state is errUnproven.
func (c expiryChange) provenUnreferenced(ctx context.Context, base, after *table.Table) error {
	between, err := statesBetween(base, after)
	if err != nil {
		return err
	}
	for _, location := range between {
		state, err := stateAt(ctx, after, location)
		if err != nil {
			return errors.Join(errUnproven, err)
		}
		if c.goneFrom(state) {
			return nil
		}
		for refName, ref := range state.Refs() {
			if len(present(base.Metadata(), []int64{ref.SnapshotID})) == 0 || !slices.Contains(c.plan.ids(), ref.SnapshotID) {
				continue
			}
			if slices.Contains(c.plan.refs, refName) && refTarget(base.Metadata(), refName) == ref.SnapshotID {
				continue // The plan removes this ref itself.
			}

			return fmt.Errorf("%s %s came to point at snapshot %d while it was being expired, and is lost; its files are all there: %w",
				ref.SnapshotRefType, refName, ref.SnapshotID, ErrConflict)
		}
	}

	return nil
}

// statesBetween lists the metadata files after the loaded one and before the
// current one, oldest first.
func statesBetween(base, after *table.Table) ([]string, error) {
	if base.MetadataLocation() == after.MetadataLocation() {
		return nil, nil
	}
	var log []string
	for e := range after.Metadata().PreviousFiles() {
		log = append(log, e.MetadataFile)
	}
	for i := len(log) - 1; i >= 0; i-- {
		if objectKey(log[i]) == objectKey(base.MetadataLocation()) {
			return log[i+1:], nil
		}
	}

	return nil, fmt.Errorf("metadata file %s is not in the log of %s: %w", base.MetadataLocation(), after.MetadataLocation(), errUnproven)
}

// stateAt reads a metadata file of the table.
func stateAt(ctx context.Context, tbl *table.Table, location string) (table.Metadata, error) {
	state, err := table.NewFromLocation(ctx, tbl.Identifier(), location, tbl.FS, noCatalog{})
	if err != nil {
		return nil, fmt.Errorf("read metadata file %s: %w", location, err)
	}
	if state.Metadata().TableUUID() != tbl.Metadata().TableUUID() {
		return nil, fmt.Errorf("metadata file %s is of another table", location)
	}

	return state.Metadata(), nil
}
