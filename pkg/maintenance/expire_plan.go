package maintenance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// The table properties that expiry reads itself. The spelling without a prefix
// is what older writers of this library set.
const (
	propMaxRefAge       = table.MaxRefAgeMsKey
	propMaxRefAgeLegacy = "max-ref-age-ms"
)

// expiryPlan is what an expiry removes from the table's metadata.
type expiryPlan struct {
	snapshots []table.Snapshot // oldest first
	refs      []string         // sorted
	schemas   []int
	specs     []int
}

func (p expiryPlan) empty() bool {
	return len(p.snapshots) == 0 && len(p.refs) == 0 && len(p.schemas) == 0 && len(p.specs) == 0
}

func (p expiryPlan) ids() []int64 {
	ids := make([]int64, len(p.snapshots))
	for i, s := range p.snapshots {
		ids[i] = s.SnapshotID
	}

	return ids
}

// planExpiry decides which snapshots and refs go, by the retention rules of
// the Iceberg specification ("Snapshot Retention Policy"). A snapshot stays
// when
//
//   - a ref that stays points at it: main always stays, another ref goes once
//     the snapshot it points at is older than the ref's (else the table's)
//     max-ref-age-ms;
//   - it is an ancestor of a branch that stays, and is among the newest
//     min-snapshots-to-keep of that branch or no older than
//     max-snapshot-age-ms, where the branch's own settings win over o; or
//   - no ref that stays reaches it, and it is no older than o.OlderThan.
//
// With o.SnapshotIDs exactly these go, whatever their age, and no ref does.
// It only reads meta and is deterministic in its arguments.
func planExpiry(meta table.Metadata, o ExpireOptions, now time.Time) (expiryPlan, error) {
	if len(o.SnapshotIDs) > 0 {
		return planNamed(meta, o.SnapshotIDs)
	}
	maxRefAge, err := maxRefAge(meta.Properties())
	if err != nil {
		return expiryPlan{}, err
	}
	var plan expiryPlan
	keep := map[int64]bool{}      // stays by a rule
	reachable := map[int64]bool{} // a ref that stays reaches it
	refs := maps.Collect(meta.Refs())
	for _, refName := range slices.Sorted(maps.Keys(refs)) {
		ref := refs[refName]
		head := meta.SnapshotByID(ref.SnapshotID)
		if head == nil {
			return expiryPlan{}, fmt.Errorf("ref %s points at snapshot %d, which the table does not have: %w",
				refName, ref.SnapshotID, ErrRefused)
		}
		if refName != table.MainBranch && ageMillis(*head, now) > *cmp.Or(ref.MaxRefAgeMs, &maxRefAge) {
			plan.refs = append(plan.refs, refName)

			continue
		}
		keep[head.SnapshotID], reachable[head.SnapshotID] = true, true
		if ref.SnapshotRefType == table.BranchRef {
			retainBranch(meta, ref, o, now, keep, reachable)
		}
	}
	for _, s := range meta.Snapshots() {
		young := ageMillis(s, now) <= o.OlderThan.Milliseconds()
		if !keep[s.SnapshotID] && (reachable[s.SnapshotID] || !young) {
			plan.snapshots = append(plan.snapshots, s)
		}
	}
	sortByAge(plan.snapshots)

	return plan, nil
}

// retainBranch walks a branch from its head and marks what stays.
func retainBranch(meta table.Metadata, ref table.SnapshotRef, o ExpireOptions, now time.Time, keep, reachable map[int64]bool) { //nolint:revive // The two sets are its result.
	atLeast, maxAge := max(1, o.RetainLast), o.OlderThan.Milliseconds()
	if ref.MinSnapshotsToKeep != nil {
		atLeast = *ref.MinSnapshotsToKeep
	}
	if ref.MaxSnapshotAgeMs != nil {
		maxAge = *ref.MaxSnapshotAgeMs
	}
	kept, keeping := 0, true
	for s := meta.SnapshotByID(ref.SnapshotID); s != nil; s = parentOf(meta, s) {
		reachable[s.SnapshotID] = true
		// The walk keeps a run of snapshots without a gap: the first that is
		// too old and not needed for the number ends it.
		keeping = keeping && (kept < atLeast || ageMillis(*s, now) <= maxAge)
		if keeping {
			keep[s.SnapshotID] = true
			kept++
		}
	}
}

func parentOf(meta table.Metadata, s *table.Snapshot) *table.Snapshot {
	if s.ParentSnapshotID == nil {
		return nil
	}

	return meta.SnapshotByID(*s.ParentSnapshotID)
}

// planNamed takes exactly the snapshots that were named, and refuses one that
// a ref points at.
func planNamed(meta table.Metadata, ids []int64) (expiryPlan, error) {
	var plan expiryPlan
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		s := meta.SnapshotByID(id)
		if s == nil {
			return expiryPlan{}, fmt.Errorf("snapshot %d is not in the table: %w", id, ErrRefused)
		}
		for refName, ref := range meta.Refs() {
			if ref.SnapshotID == id {
				return expiryPlan{}, fmt.Errorf("snapshot %d is what %s %s points at: %w", id, ref.SnapshotRefType, refName, ErrRefused)
			}
		}
		plan.snapshots = append(plan.snapshots, *s)
	}
	sortByAge(plan.snapshots)

	return plan, nil
}

func sortByAge(list []table.Snapshot) {
	slices.SortFunc(list, func(a, b table.Snapshot) int {
		return cmp.Or(cmp.Compare(a.TimestampMs, b.TimestampMs), cmp.Compare(a.SequenceNumber, b.SequenceNumber),
			cmp.Compare(a.SnapshotID, b.SnapshotID))
	})
}

func ageMillis(s table.Snapshot, now time.Time) int64 { return now.UnixMilli() - s.TimestampMs }

// maxRefAge reads the table's property. One that cannot be read is an error:
// it may be the one that holds a tag back.
func maxRefAge(props iceberg.Properties) (int64, error) {
	for _, key := range []string{propMaxRefAge, propMaxRefAgeLegacy} {
		text, ok := props[key]
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n <= 0 {
			return 0, fmt.Errorf("table property %s=%q is not a number of milliseconds: %w", key, text, ErrRefused)
		}

		return n, nil
	}

	return int64(^uint64(0) >> 1), nil
}

// refuseCollection returns why files of the table may not be collected.
func refuseCollection(props iceberg.Properties) error {
	// Everything but a plain true counts as off: it protects files that other
	// tables may share.
	if v, ok := props[table.GCEnabledKey]; ok && !isTrue(v) {
		return fmt.Errorf("table property %s=%s: files of this table may be shared, nothing is deleted: %w",
			table.GCEnabledKey, v, ErrRefused)
	}

	return nil
}

func isTrue(text string) bool {
	on, err := strconv.ParseBool(text)

	return err == nil && on
}

// Expirable is how many snapshots and refs an expiry with these options would
// remove, by the metadata alone. It fails with ErrRefused where an expiry
// would. It reads no file.
func Expirable(meta table.Metadata, o ExpireOptions, now time.Time) (snapshots, refs int, err error) {
	if err := refuseCollection(meta.Properties()); err != nil {
		return 0, 0, err
	}
	plan, err := planExpiry(meta, o, now)

	return len(plan.snapshots), len(plan.refs), err
}
