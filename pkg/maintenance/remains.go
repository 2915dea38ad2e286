package maintenance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"time"

	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// remains are snapshots that are gone from a table, whose files may still be
// there.
type remains struct {
	table     uuid.UUID
	snapshots []table.Snapshot
	stats     []string
	resumed   int // how many of them an earlier run has expired
}

func (r remains) empty() bool { return len(r.snapshots) == 0 }

func (r remains) ids() []int64 { return expiryPlan{snapshots: r.snapshots}.ids() }

// with adds what o holds.
func (r remains) with(o remains) remains {
	if r.empty() {
		return o
	}

	return remains{
		table: r.table, snapshots: slices.Concat(r.snapshots, o.snapshots), stats: slices.Concat(r.stats, o.stats),
		resumed: r.resumed + o.resumed,
	}
}

// remainsOf is what a plan makes of a state of the table.
func remainsOf(meta table.Metadata, plan expiryPlan) remains {
	r := remains{table: meta.TableUUID(), snapshots: plan.snapshots}
	gone := map[int64]bool{}
	for _, id := range plan.ids() {
		gone[id] = true
	}
	for s := range meta.Statistics() {
		if gone[s.SnapshotID] {
			r.stats = append(r.stats, s.StatisticsPath)
		}
	}
	for s := range meta.PartitionStatistics() {
		if gone[s.SnapshotID] {
			r.stats = append(r.stats, s.StatisticsPath)
		}
	}

	return r
}

// lostParents returns the parents of snapshots of the table that the table
// does not have, each with one child: an expiry of a branch leaves one.
func lostParents(meta table.Metadata) map[int64]int64 {
	lost := map[int64]int64{}
	for _, s := range meta.Snapshots() {
		if s.ParentSnapshotID != nil && meta.SnapshotByID(*s.ParentSnapshotID) == nil {
			lost[*s.ParentSnapshotID] = s.SnapshotID
		}
	}

	return lost
}

// unfinished finds the snapshots of the last expiry when their files were not
// all deleted: the run was stopped, or a delete was refused.
//
// The table's metadata log leads to the state before that expiry, the last one
// that has a parent which the table lacks by now. The manifest list of such a
// parent is the last thing a clean-up deletes; when it is gone, nothing is left
// to do.
func (m *Maintainer) unfinished(ctx context.Context, tbl *table.Table) (remains, error) {
	lost := lostParents(tbl.Metadata())
	if len(lost) == 0 {
		return remains{}, nil
	}
	before, err := stateBefore(ctx, tbl, lost)
	if err != nil || before == nil {
		return remains{}, err
	}
	if err := noRefLost(before, tbl.Metadata(), m.now()); err != nil {
		return remains{}, err
	}
	fio, err := tbl.FS(ctx)
	if err != nil {
		return remains{}, fmt.Errorf("open file io of %s: %w", name(tbl), err)
	}
	left, err := anyList(fio, before, lost)
	if err != nil || !left {
		return remains{}, err
	}
	gone := slices.DeleteFunc(slices.Clone(before.Snapshots()), func(s table.Snapshot) bool {
		return tbl.Metadata().SnapshotByID(s.SnapshotID) != nil
	})
	r := remainsOf(before, expiryPlan{snapshots: gone})
	r.resumed = len(gone)

	return r, nil
}

// noRefLost refuses to go on where an expiry took a ref away that was not past
// its age: the run that did it was told so and left the files for whoever
// made the ref.
func noRefLost(before, after table.Metadata, now time.Time) error {
	maxAge, err := maxRefAge(before.Properties())
	if err != nil {
		return err
	}
	for refName, ref := range before.Refs() {
		s := before.SnapshotByID(ref.SnapshotID)
		if s == nil || after.SnapshotByID(ref.SnapshotID) != nil || ageMillis(*s, now) > *cmp.Or(ref.MaxRefAgeMs, &maxAge) {
			continue
		}

		return fmt.Errorf("%s %s pointed at snapshot %d when that expired", ref.SnapshotRefType, refName, ref.SnapshotID)
	}

	return nil
}

// stateBefore returns the last state in the metadata log that has one of the
// lost parents, or nil. From the last expiry on, every state has all the
// children and none of the parents; no earlier one has. So a binary search
// finds the border with a few reads.
func stateBefore(ctx context.Context, tbl *table.Table, lost map[int64]int64) (table.Metadata, error) {
	var log []string
	for e := range tbl.Metadata().PreviousFiles() {
		log = append(log, e.MetadataFile)
	}
	var found table.Metadata
	var failed error
	sort.Search(len(log), func(i int) bool {
		if failed != nil {
			return true
		}
		state, err := stateAt(ctx, tbl, log[i])
		if errors.Is(err, fs.ErrNotExist) {
			return false // Old states are deleted first.
		}
		if err != nil {
			failed = err

			return true
		}
		has, expired := false, true
		for parent, child := range lost {
			has = has || state.SnapshotByID(parent) != nil
			expired = expired && state.SnapshotByID(child) != nil
		}
		if has {
			found = state
		}

		return !has && expired
	})

	return found, failed
}

// anyList says whether the manifest list of one of the lost parents exists.
func anyList(fio icebergio.IO, state table.Metadata, lost map[int64]int64) (bool, error) {
	for id := range lost {
		s := state.SnapshotByID(id)
		if s == nil {
			continue
		}
		there, err := exists(fio, s.ManifestList)
		if err != nil {
			return false, fmt.Errorf("look for manifest list of snapshot %d: %w", id, err)
		}
		if there {
			return true, nil
		}
	}

	return false, nil
}

func without(list []table.Snapshot, ids []int64) []table.Snapshot {
	gone := map[int64]bool{}
	for _, id := range ids {
		gone[id] = true
	}

	return slices.DeleteFunc(slices.Clone(list), func(s table.Snapshot) bool { return gone[s.SnapshotID] })
}

// afterExpiry is the table as the plan would leave it, for a dry run.
func afterExpiry(tbl *table.Table, plan expiryPlan) (*table.Table, error) {
	b, err := table.MetadataBuilderFromBase(tbl.Metadata(), tbl.MetadataLocation())
	if err != nil {
		return nil, fmt.Errorf("copy metadata of %s: %w", name(tbl), err)
	}
	for _, u := range expiryCommit(tbl, plan).Updates {
		if err := u.Apply(b); err != nil {
			return nil, fmt.Errorf("apply %s to %s: %w", u.Action(), name(tbl), err)
		}
	}
	meta, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("build metadata of %s: %w", name(tbl), err)
	}

	return table.New(tbl.Identifier(), meta, tbl.MetadataLocation(), tbl.FS, noCatalog{}), nil
}
