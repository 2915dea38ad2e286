package maintenance

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
)

// rollingManifest writes entries into manifests of the target size. A manifest
// is opened with its first entry, so that none is empty.
type rollingManifest struct {
	r     *manifestRewrite
	group manifestGroup
	path  string
	file  icebergio.FileWriter
	out   *counting
	w     *iceberg.ManifestWriter
}

func (o *rollingManifest) add(e iceberg.ManifestEntry) error {
	if o.w == nil {
		if err := o.open(); err != nil {
			return err
		}
	}
	if err := o.w.Existing(e); err != nil {
		return fmt.Errorf("write entry of %s: %w", e.DataFile().FilePath(), err)
	}
	if o.out.n >= o.r.o.TargetSize {
		return o.close()
	}

	return nil
}

func (o *rollingManifest) open() error {
	locations, err := o.r.tbl.LocationProvider()
	if err != nil {
		return fmt.Errorf("find metadata location: %w", err)
	}
	o.path = locations.NewMetadataLocation(fmt.Sprintf("%s-m%d.avro", o.r.commit, o.r.files))
	o.r.files++
	file, err := o.r.fio.Create(o.path)
	if err != nil {
		return fmt.Errorf("create manifest: %w", err)
	}
	o.file, o.out = file, &counting{Writer: file}
	meta := o.r.tbl.Metadata()
	spec := meta.PartitionSpecByID(o.group.spec)
	o.w, err = iceberg.NewManifestWriter(meta.Version(), o.out, *spec, meta.CurrentSchema(), o.r.snapshot,
		iceberg.WithManifestWriterContent(o.group.content))
	if err != nil {
		o.w = nil

		return errors.Join(fmt.Errorf("begin manifest %s: %w", o.path, err), file.Close())
	}

	return nil
}

// close ends the manifest that is open, if one is.
func (o *rollingManifest) close() error {
	if o.w == nil {
		return nil
	}
	w := o.w
	o.w = nil
	if err := errors.Join(w.Close(), o.file.Close()); err != nil {
		return fmt.Errorf("finish manifest %s: %w", o.path, err)
	}
	m, err := w.ToManifestFile(o.path, o.out.n)
	if err != nil {
		return fmt.Errorf("describe manifest %s: %w", o.path, err)
	}
	o.r.written = append(o.r.written, m)

	return nil
}

// prove reads back what was written and compares it with what went in: the
// same entries, each with everything a reader may ask of it. Any difference is
// ErrHalt.
func (r *manifestRewrite) prove(ctx context.Context) error {
	var out digest
	for _, m := range r.written {
		for e, err := range m.Entries(r.fio, false) {
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				return fmt.Errorf("read back manifest %s: %w", m.FilePath(), err)
			}
			out.add(e)
		}
	}
	if out != r.in {
		return fmt.Errorf("%d entries went in, %d came out, or one of them has changed: %w", r.in.n, out.n, ErrHalt)
	}

	return nil
}

// digest is a sum over entries in any order: of a hash of each, modulo 2^128.
type digest struct {
	hi, lo uint64
	n      int64
}

// add takes in everything that a manifest says about a file, but for the
// status, which a rewrite changes from added to existing.
func (d *digest) add(e iceberg.ManifestEntry) {
	f := e.DataFile()
	text := fmt.Sprintln(e.SnapshotID(), e.SequenceNum(), deref(e.FileSequenceNum()),
		f.ContentType(), f.FilePath(), f.FileFormat(), f.SpecID(), f.Partition(), f.Count(), f.FileSizeBytes(),
		f.ColumnSizes(), f.ValueCounts(), f.NullValueCounts(), f.NaNValueCounts(), f.DistinctValueCounts(),
		f.LowerBoundValues(), f.UpperBoundValues(), string(f.KeyMetadata()), f.SplitOffsets(), f.EqualityFieldIDs(),
		deref(f.SortOrderID()), deref(f.FirstRowID()), deref(f.ReferencedDataFile()), deref(f.ContentOffset()), deref(f.ContentSizeInBytes()))
	sum := sha256.Sum256([]byte(text))
	d.join(digest{hi: binary.BigEndian.Uint64(sum[:8]), lo: binary.BigEndian.Uint64(sum[8:16]), n: 1})
}

func (d *digest) join(o digest) {
	lo, carry := bits.Add64(d.lo, o.lo, 0)
	hi, _ := bits.Add64(d.hi, o.hi, carry)
	d.lo, d.hi, d.n = lo, hi, d.n+o.n
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}

	return *p
}
