package maintenance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	icebergio "github.com/apache/iceberg-go/io"

	"compactor/internal/store"
)

// part deletes one part of the sweep and says whether all of it is gone. With
// allowed false, because a part before it is not all gone, it only counts.
func (s *sweep) part(ctx context.Context, paths []string, allowed bool) bool {
	s.files.Planned += len(paths)
	s.files.Left += len(paths)
	if !s.really {
		s.files.Paths = append(s.files.Paths, paths...)

		return true
	}
	if !allowed {
		return false
	}
	whole := true
	for slice := range slices.Chunk(paths, deleteSlice) {
		if ctx.Err() != nil {
			return false
		}
		deleted, failures := deleteFiles(ctx, s.fio, slice)
		s.files.Deleted += deleted
		s.files.Failed += len(failures)
		s.files.Left -= deleted + len(failures)
		whole = whole && len(failures) == 0
		for _, f := range failures {
			if len(s.files.Failures) < maxFailuresShown {
				s.files.Failures = append(s.files.Failures, f.Error())
			}
		}
		s.m.Log.Info().Str("table", name(s.now)).Int("deleted", s.files.Deleted).Int("failed", s.files.Failed).
			Int("planned", s.files.Planned).Msg("unreachable files deleted")
	}

	return whole
}

// deleteFiles deletes what it can, in batches where the store has them, and
// returns how many are gone and why each of the others is not. A file that is
// not there counts as gone.
func deleteFiles(ctx context.Context, fio icebergio.IO, paths []string) (deleted int, failures []error) {
	bulk, ok := fio.(icebergio.BulkRemovableIO)
	if !ok {
		for _, p := range paths {
			if err := fio.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
				failures = append(failures, fmt.Errorf("delete %s: %w", p, err))
			}
		}

		return len(paths) - len(failures), failures
	}
	gone, err := bulk.DeleteFiles(ctx, paths)
	var refused *store.DeleteError
	switch {
	case err == nil:
		return len(paths), nil
	case errors.As(err, &refused):
		for _, f := range refused.Failed {
			failures = append(failures, f.Err)
		}
	default:
		for range len(paths) - len(gone) {
			failures = append(failures, err)
		}
	}

	return len(paths) - len(failures), failures
}
