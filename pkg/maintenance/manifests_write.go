package maintenance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
)

// entryMemoryFactor is about how many bytes a decoded entry takes for each
// byte of a compressed manifest.
const entryMemoryFactor = 32

// manifestRewrite writes the manifests of one snapshot.
type manifestRewrite struct {
	m        *Maintainer
	o        ManifestsOptions
	tbl      *table.Table
	fio      icebergio.WriteFileIO
	snapshot int64
	commit   uuid.UUID
	files    int
	written  []iceberg.ManifestFile
	entries  int64
	in       digest // of all live entries that went in
}

func newManifestRewrite(ctx context.Context, m *Maintainer, tbl *table.Table, o ManifestsOptions) (*manifestRewrite, error) {
	fio, err := tbl.FS(ctx)
	if err != nil {
		return nil, fmt.Errorf("open file io: %w", err)
	}
	w, ok := fio.(icebergio.WriteFileIO)
	if !ok {
		return nil, errors.New("open file io: it cannot write")
	}
	r := &manifestRewrite{m: m, o: o, tbl: tbl, fio: w, commit: uuid.New()}
	for r.snapshot == 0 || tbl.Metadata().SnapshotByID(r.snapshot) != nil {
		id := uuid.New()
		for i := range 8 {
			r.snapshot = (r.snapshot<<8 | int64(id[i]^id[i+8])) &^ (-1 << 62)
		}
	}

	return r, nil
}

// rewrite merges each group, as many manifests at a time as fit in memory.
func (r *manifestRewrite) rewrite(ctx context.Context, plan manifestPlan) error {
	for _, g := range plan.groups {
		out := &rollingManifest{r: r, group: g}
		for batch := range batches(g.manifests, max(r.o.TargetSize, r.o.Memory/entryMemoryFactor)) {
			entries, err := r.read(ctx, batch)
			if err != nil {
				return errors.Join(err, out.close())
			}
			r.sortEntries(entries, g.spec)
			for _, e := range entries {
				if err := out.add(e); err != nil {
					return errors.Join(err, out.close())
				}
			}
		}
		if err := out.close(); err != nil {
			return err
		}
	}

	return nil
}

// batches cuts manifests into runs of about limit bytes.
func batches(manifests []iceberg.ManifestFile, limit int64) func(func([]iceberg.ManifestFile) bool) {
	return func(yield func([]iceberg.ManifestFile) bool) {
		first, sum := 0, int64(0)
		for i, m := range manifests {
			if i > first && sum+m.Length() > limit {
				if !yield(manifests[first:i]) {
					return
				}
				first, sum = i, 0
			}
			sum += m.Length()
		}
		if first < len(manifests) {
			yield(manifests[first:])
		}
	}
}

// read returns the live entries of manifests. Entries marked as deleted say
// what an older snapshot removed; that stays with its own manifests.
func (r *manifestRewrite) read(ctx context.Context, manifests []iceberg.ManifestFile) ([]iceberg.ManifestEntry, error) {
	parts := make([][]iceberg.ManifestEntry, len(manifests))
	digests := make([]digest, len(manifests))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(manifestReaders)
	for i, m := range manifests {
		work.Go(func() error {
			for e, err := range m.Entries(r.fio, true) {
				if err == nil && ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				if err != nil {
					return fmt.Errorf("read manifest %s: %w", m.FilePath(), err)
				}
				digests[i].add(e)
				parts[i] = append(parts[i], e)
			}

			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	for _, d := range digests {
		r.in.join(d)
	}
	all := slices.Concat(parts...)
	r.entries += int64(len(all))

	return all, nil
}

// sortEntries puts the files of one partition next to each other.
func (r *manifestRewrite) sortEntries(entries []iceberg.ManifestEntry, specID int) {
	spec := r.tbl.Metadata().PartitionSpecByID(specID)
	slices.SortStableFunc(entries, func(a, b iceberg.ManifestEntry) int {
		x, y := a.DataFile().Partition(), b.DataFile().Partition()
		for i := range spec.NumFields() {
			id := spec.Field(i).FieldID
			if c := compareValues(x[id], y[id]); c != 0 {
				return c
			}
		}

		return cmp.Or(cmp.Compare(a.SequenceNum(), b.SequenceNum()), cmp.Compare(a.DataFile().FilePath(), b.DataFile().FilePath()))
	})
}

// compareValues orders partition values of one field; nulls come first. Types
// without an order of their own are ordered by their text, which keeps equal
// ones together.
func compareValues(a, b any) int {
	switch x := a.(type) {
	case nil:
		if b == nil {
			return 0
		}

		return -1
	case int32:
		if y, ok := b.(int32); ok {
			return cmp.Compare(x, y)
		}
	case int64:
		if y, ok := b.(int64); ok {
			return cmp.Compare(x, y)
		}
	case iceberg.Date:
		if y, ok := b.(iceberg.Date); ok {
			return cmp.Compare(x, y)
		}
	case iceberg.Timestamp:
		if y, ok := b.(iceberg.Timestamp); ok {
			return cmp.Compare(x, y)
		}
	case string:
		if y, ok := b.(string); ok {
			return cmp.Compare(x, y)
		}
	}
	if b == nil {
		return 1
	}

	return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
}

// counting counts what is written through it.
type counting struct {
	io.Writer
	n int64
}

// Write writes and counts.
func (c *counting) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)

	return n, err //nolint:wrapcheck // A decorator hands the error on as it is.
}
