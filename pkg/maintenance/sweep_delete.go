package maintenance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	icebergio "github.com/apache/iceberg-go/io"
	"golang.org/x/sync/errgroup"

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
	paths, whole := s.affordable(ctx, paths)
	for slice := range slices.Chunk(paths, deleteSlice) {
		if ctx.Err() != nil {
			return false
		}
		if n := s.budget.take(len(slice)); n < len(slice) {
			s.capped, whole = true, false // Another table was faster.
			if slice = slice[:n]; n == 0 {
				break
			}
		}
		deleted, failures := deleteFiles(ctx, s.fio, slice)
		s.files.Deleted += deleted
		s.files.Failed += len(failures)
		s.files.Left -= deleted + len(failures)
		whole = whole && len(failures) == 0
		s.m.deleting(s.files.Deleted+s.files.Failed, s.files.Planned)
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

// affordable cuts a part down to what the budget allows, and says whether it is
// all of it. Files that an earlier run has deleted must cost nothing, or the same
// would be deleted again by every run: where there is a bound, each file is looked for first.
func (s *sweep) affordable(ctx context.Context, paths []string) (now []string, whole bool) {
	if _, bounded := s.budget.bound(); !bounded {
		return paths, true
	}
	room := s.budget.left(len(paths))
	seen := 0
	for some := range slices.Chunk(paths, looksAtOnce) {
		if len(now) > room {
			break
		}
		there, err := existing(ctx, s.fio, some)
		if err != nil {
			s.files.Failures = append(s.files.Failures, err.Error())
			s.files.Failed++

			return nil, false
		}
		gone := len(some) - len(there)
		s.files.Planned, s.files.Left = s.files.Planned-gone, s.files.Left-gone
		now, seen = append(now, there...), seen+len(some)
	}
	if whole = len(now) <= room && seen == len(paths); !whole {
		s.capped = true
		now = now[:min(room, len(now))]
	}

	return now, whole
}

// looksAtOnce is how many files are looked for between two looks at how many
// were found, and looksInFlight how many at the same time.
const (
	looksAtOnce   = 512
	looksInFlight = 32
)

// existing returns those of the paths that exist, in their order.
func existing(ctx context.Context, fio icebergio.IO, paths []string) ([]string, error) {
	there := make([]bool, len(paths))
	var looks errgroup.Group
	looks.SetLimit(looksInFlight)
	for i, p := range paths {
		looks.Go(func() (err error) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if there[i], err = exists(fio, p); err != nil {
				return fmt.Errorf("look for %s: %w", p, err)
			}

			return nil
		})
	}
	if err := looks.Wait(); err != nil {
		return nil, fmt.Errorf("look for files that are left: %w", err)
	}
	var out []string
	for i, p := range paths {
		if there[i] {
			out = append(out, p)
		}
	}

	return out, nil
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
