package maintenance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"
)

// manifestReaders is how many manifest lists or manifests are read at once.
const manifestReaders = 16

// objectKey is the same for all spellings of one stored object, see placeOf.
func objectKey(location string) string { return placeOf(location).String() }

// manifestSet is a set of manifests, by the object they are.
type manifestSet struct {
	order []iceberg.ManifestFile
	byKey map[string]struct{}
}

func (s *manifestSet) add(m iceberg.ManifestFile) {
	key := objectKey(m.FilePath())
	if _, twice := s.byKey[key]; twice {
		return
	}
	s.byKey[key] = struct{}{}
	s.order = append(s.order, m)
}

func (s *manifestSet) has(m iceberg.ManifestFile) bool {
	_, has := s.byKey[objectKey(m.FilePath())]

	return has
}

// readLists reads the manifest lists of snapshots, several at a time, each
// once. With mayBeGone a list that does not exist is left out: an earlier run
// has deleted it, and it deletes a list only after all that the list leads to.
func readLists(ctx context.Context, fio icebergio.IO, snaps []table.Snapshot, mayBeGone bool) (*manifestSet, error) {
	lists := make([][]iceberg.ManifestFile, len(snaps))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(manifestReaders)
	for i, s := range snaps {
		work.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			manifests, err := s.Manifests(fio)
			if err != nil && (!mayBeGone || !errors.Is(err, fs.ErrNotExist)) {
				return fmt.Errorf("read manifest list of snapshot %d: %w", s.SnapshotID, err)
			}
			lists[i] = manifests

			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return nil, fmt.Errorf("read manifest lists: %w", err)
	}
	set := &manifestSet{byKey: map[string]struct{}{}}
	for _, manifests := range lists {
		for _, m := range manifests {
			set.add(m)
		}
	}

	return set, nil
}

// liveEntries calls each for the path of every live entry of manifests. The
// manifests are read several at a time and as streams; each is called by one
// goroutine at a time. With mayBeGone as in readLists.
func liveEntries(ctx context.Context, fio icebergio.IO, manifests []iceberg.ManifestFile, mayBeGone bool, each func(path string)) error {
	var mu sync.Mutex
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(manifestReaders)
	for _, m := range manifests {
		work.Go(func() error {
			batch := make([]string, 0, 256)
			flush := func() {
				mu.Lock()
				defer mu.Unlock()
				for _, p := range batch {
					each(p)
				}
				batch = batch[:0]
			}
			for entry, err := range iceberg.EntriesWithProjection(fio, m, true, iceberg.ManifestEntryProjection{}) {
				if err != nil && mayBeGone && errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				if err != nil {
					return fmt.Errorf("read manifest %s: %w", m.FilePath(), err)
				}
				if batch = append(batch, entry.DataFile().FilePath()); len(batch) == cap(batch) {
					if ctx.Err() != nil {
						return context.Cause(ctx)
					}
					flush()
				}
			}
			flush()

			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}

	return nil
}
