// Package inspect describes the health of an Iceberg table from its metadata:
// sizes of data files, partitions, deletes, snapshots, manifests. It reads
// manifests as streams and no data file, takes no claim and writes nothing.
//
// What it holds in memory is bounded by the number of partitions (see
// maxPartitions), not by the number of files.
package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"
)

// Options say what counts as small, in bytes.
type Options struct {
	TargetFileSize int64 // the size a data file should have
	MinFileSize    int64 // smaller data files are small; 0: 75 % of the target
	MaxFileSize    int64 // larger ones are large; 0: 180 % of the target
	MinInputFiles  int   // so many files of the wrong size are worth a rewrite
	ManifestSize   int64 // the size a manifest should have
	Now            time.Time
}

const (
	smallPercent    = 75
	largePercent    = 180
	manifestReaders = 4
)

func (o Options) withDefaults() Options {
	if o.MinFileSize == 0 {
		o.MinFileSize = o.TargetFileSize * smallPercent / 100
	}
	if o.MaxFileSize == 0 {
		o.MaxFileSize = o.TargetFileSize * largePercent / 100
	}
	o.MinInputFiles = max(2, o.MinInputFiles)

	return o
}

// Table reads the manifests of the current snapshot and describes the table.
// It fails when a manifest cannot be read or ctx ends. It may be repeated and
// is safe for concurrent use.
func Table(ctx context.Context, tbl *table.Table, o Options) (Health, error) {
	o = o.withDefaults()
	md := tbl.Metadata()
	h := Health{
		Location: tbl.Location(), FormatVersion: md.Version(), TargetFileSize: o.TargetFileSize, MinFileSize: o.MinFileSize,
		Snapshots: snapshots(md, o.Now), Metadata: MetadataFile{Location: tbl.MetadataLocation()},
	}
	for range md.PreviousFiles() {
		h.Metadata.Earlier++
	}
	fio, err := tbl.FS(ctx)
	if err != nil {
		return h, fmt.Errorf("open files of %v: %w", tbl.Identifier(), err)
	}
	if st, ok := fio.(iceio.StatIO); ok {
		if info, err := st.Stat(tbl.MetadataLocation()); err == nil {
			h.Metadata.Bytes = info.Size()
		}
	}
	t := newTally(md, o)
	if snap := md.CurrentSnapshot(); snap != nil {
		h.SnapshotID = &snap.SnapshotID
		if err := t.snapshot(ctx, fio, snap); err != nil {
			return h, fmt.Errorf("inspect %v: %w", tbl.Identifier(), err)
		}
	}
	t.into(&h)

	return h, nil
}

// snapshot counts every live entry of a snapshot.
func (t *tally) snapshot(ctx context.Context, fio iceio.IO, snap *table.Snapshot) error {
	manifests, err := snap.Manifests(fio)
	if err != nil {
		return fmt.Errorf("read manifest list of snapshot %d: %w", snap.SnapshotID, err)
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(manifestReaders)
	for _, m := range manifests {
		t.manifest(m)
		work.Go(func() error { return t.read(ctx, fio, m) })
	}

	return work.Wait() //nolint:wrapcheck // read names the manifest.
}

// read counts the live entries of one manifest.
func (t *tally) read(ctx context.Context, fio iceio.IO, m iceberg.ManifestFile) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	spec := t.md.PartitionSpecByID(int(m.PartitionSpecID()))
	if spec == nil {
		return fmt.Errorf("manifest %s: the table has no partition spec %d", m.FilePath(), m.PartitionSpecID())
	}
	for e, err := range iceberg.EntriesWithProjection(fio, m, true, iceberg.ManifestEntryProjection{}) {
		if err != nil {
			return fmt.Errorf("read manifest %s: %w", m.FilePath(), err)
		}
		t.entry(*spec, e.DataFile())
	}

	return nil
}
