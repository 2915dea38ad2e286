package maintenance

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// stage writes the manifest list and builds the request for the snapshot.
func (r *manifestRewrite) stage(plan manifestPlan) (table.TableCommit, error) {
	meta := r.tbl.Metadata()
	parent := r.tbl.CurrentSnapshot()
	locations, err := r.tbl.LocationProvider()
	if err != nil {
		return table.TableCommit{}, fmt.Errorf("find metadata location: %w", err)
	}
	schema, seq := meta.CurrentSchema().ID, int64(0)
	if meta.Version() > 1 {
		seq = meta.LastSequenceNumber() + 1
	}
	snap := &table.Snapshot{
		SnapshotID: r.snapshot, ParentSnapshotID: &parent.SnapshotID, SequenceNumber: seq,
		TimestampMs:  max(r.m.now().UnixMilli(), parent.TimestampMs),
		ManifestList: locations.NewMetadataLocation(fmt.Sprintf("snap-%d-0-%s.avro", r.snapshot, r.commit)),
		SchemaID:     &schema,
	}
	if err := r.writeList(snap, slices.Concat(r.written, plan.keep)); err != nil {
		return table.TableCommit{}, err
	}
	snap.Summary = &table.Summary{Operation: table.OpReplace, Properties: r.summary(parent, plan)}
	var ref table.SnapshotRef
	for n, it := range meta.Refs() {
		if n == table.MainBranch {
			ref = it
		}
	}

	return table.TableCommit{
		Identifier:   r.tbl.Identifier(),
		Requirements: []table.Requirement{table.AssertTableUUID(meta.TableUUID()), table.AssertRefSnapshotID(table.MainBranch, &parent.SnapshotID)},
		Updates: []table.Update{
			table.NewAddSnapshotUpdate(snap),
			table.NewSetSnapshotRefUpdate(table.MainBranch, r.snapshot, table.BranchRef,
				valueOf(ref.MaxRefAgeMs), valueOf(ref.MaxSnapshotAgeMs), valueOf(ref.MinSnapshotsToKeep)),
		},
	}, nil
}

func valueOf[T int | int64](p *T) T {
	if p == nil {
		return 0
	}

	return *p
}

// summary carries the totals of the parent over: no file was added or removed.
func (r *manifestRewrite) summary(parent *table.Snapshot, plan manifestPlan) iceberg.Properties {
	props := iceberg.Properties{}
	if parent.Summary != nil {
		for _, key := range []string{
			"total-data-files", "total-delete-files", "total-records", "total-files-size", "total-position-deletes", "total-equality-deletes",
		} {
			if v, ok := parent.Summary.Properties[key]; ok {
				props[key] = v
			}
		}
	}
	props["manifests-created"] = strconv.Itoa(len(r.written))
	props["manifests-kept"] = strconv.Itoa(len(plan.keep))
	props["manifests-replaced"] = strconv.Itoa(plan.total - len(plan.keep))
	props["entries-processed"] = strconv.FormatInt(r.entries, 10)
	maps.Copy(props, r.m.summary(roundManifests))

	return props
}

// writeList writes the manifest list. In format version 3 it also assigns row
// ids to the new manifests: their entries carry ids of their own, so that the
// range is not used, but the format wants one.
func (r *manifestRewrite) writeList(snap *table.Snapshot, manifests []iceberg.ManifestFile) (err error) {
	out, err := r.fio.Create(snap.ManifestList)
	if err != nil {
		return fmt.Errorf("create manifest list: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	meta := r.tbl.Metadata()
	var w *iceberg.ManifestListWriter
	switch meta.Version() {
	case 1:
		w, err = iceberg.NewManifestListWriterV1(out, snap.SnapshotID, snap.ParentSnapshotID)
	case 2:
		w, err = iceberg.NewManifestListWriterV2(out, snap.SnapshotID, snap.SequenceNumber, snap.ParentSnapshotID)
	default:
		w, err = iceberg.NewManifestListWriterV3(out, snap.SnapshotID, snap.SequenceNumber, meta.NextRowID(), snap.ParentSnapshotID)
	}
	if err != nil {
		return fmt.Errorf("begin manifest list: %w", err)
	}
	if err := errors.Join(w.AddManifests(manifests), w.Close()); err != nil {
		return fmt.Errorf("write manifest list: %w", err)
	}
	if next := w.NextRowID(); next != nil && meta.Version() > 2 {
		first := meta.NextRowID()
		added := *next - first
		snap.FirstRowID, snap.AddedRows = &first, &added
	}

	return nil
}
