package claim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Status implements Observer. Whether a lock is taken is asked of the kernel with
// a shared lock that is given back at once: what stands in the file may have been
// left by a holder that was killed. A writer that attempts the lock in that very
// moment attempts it again.
func (f *file) Status(ctx context.Context, key Key) (Status, error) {
	if err := key.Validate(); err != nil {
		return Status{}, err
	}
	if ctx.Err() != nil {
		return Status{}, fmt.Errorf("look at claim %s: %w", key, context.Cause(ctx))
	}
	s := Status{Key: key, Mode: ModeFile, Reference: key.String()}
	lock, queue := f.paths(key)
	held, err := locked(lock)
	if err != nil {
		return Status{}, fmt.Errorf("look at claim %s: %w", key, err)
	}
	queued, err := locked(queue)
	if err != nil {
		return Status{}, fmt.Errorf("look at queue of claim %s: %w", key, err)
	}
	s.Notes = append(s.Notes, "lock file "+lock)
	if held {
		s.Holder = fileHolder(lock, f.cfg.Now())
	}
	if queued {
		s.Waiters = []Party{{}}
		s.Notes = append(s.Notes, "at least one writer waits; mode file does not record who and how many")
	}
	return s, nil
}

// fileHolder is what the holder wrote into the lock file. A writer that takes the
// lock by other means writes nothing.
func fileHolder(path string, now time.Time) *Party {
	record := readHolder(path)
	return &Party{Name: record.Holder, For: record.age(now)}
}

// locked says whether somebody has the lock on a file. A file that is not there
// has never been locked.
func locked(path string) (taken bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err //nolint:wrapcheck // An *os.PathError names the file.
	}
	defer f.Close() //nolint:errcheck // Closing gives the shared lock back; nothing was written.
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return true, nil
		case err != nil:
			return false, fmt.Errorf("test lock of %s: %w", path, err)
		default:
			return false, nil
		}
	}
}

// Status implements Observer. In this mode there is nothing to see.
func (n *none) Status(_ context.Context, key Key) (Status, error) {
	if err := key.Validate(); err != nil {
		return Status{}, err
	}
	return Status{Key: key, Mode: ModeNone, Reference: key.String(), Notes: []string{"claim mode none takes no claims, so nobody can be seen"}}, nil
}
