package claim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// lockFileMode lets the group's other members claim too.
const lockFileMode = 0o660

// tryLock makes one attempt. It returns nil and no error when the lock is taken,
// or when the file was replaced between opening and locking.
func tryLock(path string) (*os.File, error) {
	f, err := openLockFile(path)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	err = flock(f)
	if err == nil {
		err = sameFile(f, path)
	}
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, syscall.EWOULDBLOCK), errors.Is(err, errReplaced):
		return nil, f.Close() //nolint:wrapcheck // An *os.PathError names the file.
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
}

// openLockFile opens the file, and gives it its mode whatever the umask is if it
// had to be made.
func openLockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, lockFileMode)
	if errors.Is(err, os.ErrExist) {
		return os.OpenFile(path, os.O_RDWR, 0) //nolint:wrapcheck // An *os.PathError names the file.
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // An *os.PathError names the file.
	}
	if err := f.Chmod(lockFileMode); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// flock makes one attempt that does not block.
func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err //nolint:wrapcheck // Callers compare the number and add the path.
		}
	}
}

// errReplaced says that the path leads to another file than the one locked.
var errReplaced = errors.New("the lock file was removed or replaced")

// sameFile checks that a locked file is still what its path leads to: a lock on a
// file that nobody else can find excludes nobody.
func sameFile(f *os.File, path string) error {
	ours, err := f.Stat()
	if err != nil {
		return err //nolint:wrapcheck // An *os.PathError names the file.
	}
	there, err := os.Stat(path)
	if err != nil || !os.SameFile(ours, there) {
		return errReplaced
	}
	return nil
}

// holderRecord is what a lock file says about who holds it. It is for people and
// for HeldError; the lock itself decides.
type holderRecord struct {
	Holder string    `json:"holder"`
	Since  time.Time `json:"since"`
}

func (h holderRecord) age(now time.Time) time.Duration {
	if h.Since.IsZero() {
		return 0
	}
	return max(now.Sub(h.Since), 0)
}

func writeHolder(f *os.File, h holderRecord) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err //nolint:wrapcheck // Two plain fields; the caller adds the key.
	}
	if err := f.Truncate(0); err != nil {
		return err //nolint:wrapcheck // An *os.PathError names the file.
	}
	_, err = f.WriteAt(append(text, '\n'), 0)
	return err //nolint:wrapcheck // An *os.PathError names the file.
}

// readHolder reads what the holder wrote, as far as it is there.
func readHolder(path string) holderRecord {
	var h holderRecord
	f, err := os.Open(path)
	if err != nil {
		return h
	}
	defer f.Close() //nolint:errcheck // It was only read.
	const most = 4096
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil || json.Unmarshal(text, &h) != nil {
		return holderRecord{}
	}
	return h
}

// fileLease is a held lock file.
type fileLease struct{ file *os.File }

// check makes sure that the lock is still on the file others would lock. A
// process that was stopped keeps its lock, so a gap is no reason to doubt it.
func (l *fileLease) check(context.Context) error { return sameFile(l.file, l.file.Name()) }

func (l *fileLease) idle(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// release empties the file, so that nobody is told of a holder that is gone, and
// frees the lock by closing. The file stays: removing it would let two writers
// lock two files of one name.
func (l *fileLease) release(context.Context) error {
	err := errors.Join(l.file.Truncate(0), l.file.Close())
	if err != nil {
		return fmt.Errorf("release lock file: %w", err)
	}
	return nil
}

func (l *fileLease) abandon() {
	// The lock goes with the file; there is nothing else to do.
	_ = l.file.Close()
}
