package rewrite

import (
	"context"
	"fmt"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// Plan is what to rewrite in one snapshot, in execution order. It is made by
// NewPlan or Refresh. Its fields are to be read, not changed; methods may not be
// called concurrently.
type Plan struct {
	// SnapshotID and SchemaID are the snapshot that was read, 0 without one.
	SnapshotID int64
	SchemaID   int
	// SequenceNumber is the snapshot's; outputs take it as their data sequence
	// number, so that a delete committed later still applies to them.
	SequenceNumber int64
	// Groups are the units of work, those with most small files first.
	Groups []Group
	// Refused names what was left out on purpose, and why.
	Refused []Refusal
	// Reason says in words why Groups is empty; empty otherwise.
	Reason string
	// Dangling are delete files that apply to no data file. They go with the next
	// rewrite that is committed, or alone through StageDeletes.
	Dangling []iceberg.DataFile
	// Live describes the whole table.
	Live Totals

	specID  int
	asked   PlanOptions // as given, before the table's defaults
	options PlanOptions
	sorting *sorting
	set     *fileSet
	cache   *manifestCache
}

// Totals counts the live files of a table.
type Totals struct {
	Files, SmallFiles, LargeFiles, DeleteFiles int
	Bytes, Rows                                int64
	// SmallBytes are in files below the minimum size. DeletedRows are the records
	// of position deletes and deletion vectors; one row may be in several.
	SmallBytes, DeletedRows int64
}

// Group is a set of whole files that are rewritten together.
type Group struct {
	// ID is unique in its plan and kept by Refresh.
	ID string
	// SpecID is the partition spec of the inputs. When it is not the table's
	// current one, outputs go to the partitions their rows belong to now.
	SpecID int
	// Partition is the tuple as people write it, p=a/d=2024-01-01; empty for an
	// unpartitioned spec and for a group of an old spec, which pools partitions.
	Partition string
	Files     []File
	// Bytes and Rows are those of the input files, deleted rows included.
	Bytes, Rows int64
	// Outputs is how many files are expected.
	Outputs int
	// ReasonPicked says in words why the group is worth its work.
	ReasonPicked string
	// SmallFiles counts inputs below the minimum size.
	SmallFiles int

	size    sizing
	key     string
	lineage bool
	oldSpec bool
	rules   PlanOptions
	sorting *sorting
}

// File is one input with everything that applies to it.
type File struct {
	Data           iceberg.DataFile
	SequenceNumber int64
	FirstRowID     *int64
	// Deletes are the deletion vector or position deletes, then the equality
	// deletes.
	Deletes []iceberg.DataFile

	entry   *entry
	applied applied
	traits  traits
	shape   *fileShape // from the footer; nil until the file was inspected
}

// traits are what a file counts for when a group is weighed.
type traits struct {
	live                      int64 // bytes that its surviving rows take, estimated
	small, large, overDeleted bool
}

// Refusal is work that was left out on purpose.
type Refusal struct {
	What, Reason string
	Files        int
	Bytes        int64
}

// NewPlan reads the manifests of the table's current snapshot and decides what
// to rewrite. It reads no data and writes nothing.
//
// The plan is deterministic: files of a partition are ordered by data sequence
// number, then path; groups by the number of small files, most first, then by
// bytes, largest first, then by partition. A file is in one group whole or in
// none. Files of different partition specs, partitions, and files with and
// without row ids never share a group; the files of an old spec are pooled.
//
// It returns an error when a manifest cannot be read or the options make no
// sense; a table this package does not rewrite yields a plan without groups
// that says so. The call may be repeated, and is safe for concurrent use.
func NewPlan(ctx context.Context, tbl *table.Table, o PlanOptions) (*Plan, error) {
	return newPlan(ctx, tbl, o, newManifestCache())
}

// Replan plans a newly loaded table from nothing, as NewPlan does with the
// options that the receiver was made with. Manifests that the receiver has read
// are not read again; it stays as it was.
func (p *Plan) Replan(ctx context.Context, tbl *table.Table) (*Plan, error) {
	return newPlan(ctx, tbl, p.asked, p.cache)
}

func newPlan(ctx context.Context, tbl *table.Table, asked PlanOptions, cache *manifestCache) (*Plan, error) {
	o, err := asked.withDefaults(tbl)
	if err != nil {
		return nil, fmt.Errorf("plan table: %w", err)
	}
	p := &Plan{asked: asked, options: o, cache: cache}
	if err := p.load(ctx, tbl); err != nil {
		return nil, err
	}
	if p.set == nil {
		p.Reason = "the table has no snapshot"

		return p, nil
	}
	if refusal, refused := refuseTable(tbl); refused {
		refusal.Files, refusal.Bytes = p.Live.Files, p.Live.Bytes
		p.Refused, p.Reason = []Refusal{refusal}, refusal.Reason

		return p, nil
	}
	var reason string
	if p.sorting, reason = sortingOf(tbl, o); reason != "" {
		p.Refused = []Refusal{{What: "table", Reason: reason, Files: p.Live.Files, Bytes: p.Live.Bytes}}
		p.Reason = reason

		return p, nil
	}
	if err := p.group(tbl); err != nil {
		return nil, fmt.Errorf("plan snapshot %d: %w", p.SnapshotID, err)
	}
	if err := p.readNaNs(ctx, tbl); err != nil {
		return nil, fmt.Errorf("plan snapshot %d: %w", p.SnapshotID, err)
	}

	return p, nil
}

// load reads the current snapshot into the plan.
func (p *Plan) load(ctx context.Context, tbl *table.Table) error {
	spec := tbl.Spec()
	p.SchemaID, p.specID = tbl.Schema().ID, spec.ID()
	snap := tbl.CurrentSnapshot()
	if snap == nil {
		return nil
	}
	p.SnapshotID, p.SequenceNumber = snap.SnapshotID, snap.SequenceNumber
	set, err := loadFiles(ctx, tbl, snap, p.cache)
	if err != nil {
		return err
	}
	p.set, p.Dangling = set, set.dangling
	p.Live = totals(set, p.options)

	return nil
}

// IsSmall tells whether a data file of so many bytes is below the minimum size
// of the plan.
func (p *Plan) IsSmall(bytes int64) bool { return bytes < p.options.MinFileSize }

func totals(set *fileSet, o PlanOptions) Totals {
	t := Totals{Files: len(set.data), DeleteFiles: len(set.deletes.all)}
	for _, e := range set.data {
		size := e.file.FileSizeBytes()
		t.Bytes += size
		t.Rows += e.file.Count()
		if size < o.MinFileSize {
			t.SmallFiles++
			t.SmallBytes += size
		}
		if size > o.MaxFileSize {
			t.LargeFiles++
		}
	}

	for _, e := range set.deletes.all {
		if e.file.ContentType() == iceberg.EntryContentPosDeletes {
			t.DeletedRows += e.file.Count()
		}
	}

	return t
}

// Drop removes finished groups, so that a later Refresh does not look for their
// inputs. Groups are recognised by their ID.
func (p *Plan) Drop(done []Group) {
	finished := make(map[string]bool, len(done))
	for _, g := range done {
		finished[g.ID] = true
	}
	var left []Group
	for _, g := range p.Groups {
		if !finished[g.ID] {
			left = append(left, g)
		}
	}
	p.Groups = left
	if len(left) == 0 && p.Reason == "" {
		p.Reason = "every planned group is done"
	}
}
