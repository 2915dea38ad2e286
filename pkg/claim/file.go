package claim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// lockFileMode lets the group's other members claim too.
	lockFileMode = 0o660
	// pollLeast and pollMost bound the jittered pause between two attempts.
	pollLeast, pollMost = 10 * time.Millisecond, 30 * time.Millisecond
)

// file claims with flock on a local file system.
//
// Two files belong to a table. Who has the lock on the first holds the claim. Who
// has the lock on the second, the queue, is next: it is held only while waiting,
// so a holder that releases and comes again finds the queue taken and goes
// behind. Waiting is done by attempts with short pauses and not by a blocking
// flock, because nothing in a process can interrupt that one. So the order among
// those behind the head of the queue is not the order of their arrival, and a
// program that takes the first lock alone has no place in any order.
type file struct {
	registry
	cfg Config
}

// openFile checks that the directory is there, writable and on a local file
// system, where flock excludes.
func openFile(cfg Config) (Claimer, error) {
	info, err := os.Stat(cfg.Dir)
	if err != nil {
		return nil, &SetupError{What: "claim directory cannot be used", Where: cfg.Dir, Hint: "create it, writable by every writer", Err: err}
	}
	if !info.IsDir() {
		return nil, &SetupError{What: "claim directory is not a directory", Where: cfg.Dir, Hint: "set claim.dir to a directory"}
	}
	network, err := networkFileSystem(cfg.Dir)
	if err != nil {
		return nil, &SetupError{What: "file system of the claim directory cannot be told", Where: cfg.Dir, Hint: "use a directory on a local disk", Err: err}
	}
	if network != "" {
		return nil, &SetupError{What: "claim directory is on a network file system (" + network + "), where locks do not reliably exclude", Where: cfg.Dir, Hint: "use a directory on a local disk, or claim mode advisory"}
	}
	const readWriteSearch = 7
	if err := syscall.Access(cfg.Dir, readWriteSearch); err != nil {
		return nil, &SetupError{What: "claim directory is not writable", Where: cfg.Dir, Hint: "let this user read, write and search it", Err: err}
	}
	return &file{cfg: cfg}, nil
}

// Mode returns ModeFile.
func (f *file) Mode() Mode { return ModeFile }

// Acquire implements Claimer.
func (f *file) Acquire(ctx context.Context, key Key, o AcquireOptions) (*Claim, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	w := &fileWait{cfg: f.cfg, key: key, o: o, started: f.cfg.Now()}
	sum := sha256.Sum256([]byte(key.String()))
	base := filepath.Join(f.cfg.Dir, hex.EncodeToString(sum[:]))
	locked, err := w.run(ctx, base+".lock", base+".queue")
	if err != nil {
		return nil, err
	}
	return f.adopt(ctx, f.cfg, grant{
		key: key, mode: ModeFile, reference: key.String(), started: w.started,
		lease: &fileLease{file: locked}, term: f.cfg.Timing.FileCAS,
	})
}

// fileWait is one wait for a lock file.
type fileWait struct {
	cfg      Config
	key      Key
	o        AcquireOptions
	started  time.Time
	lastLook time.Time
	path     string
}

// run takes the queue, then the lock, then leaves the queue.
func (w *fileWait) run(ctx context.Context, lock, queue string) (*os.File, error) {
	w.path = lock
	q, err := w.obtain(ctx, queue)
	if err != nil {
		return nil, err
	}
	defer q.Close() //nolint:errcheck // Nothing was written; closing frees the queue.
	l, err := w.obtain(ctx, lock)
	if err != nil {
		return nil, err
	}
	if err := writeHolder(l, holderRecord{Holder: w.cfg.Holder, Since: w.cfg.Now().UTC()}); err != nil {
		return nil, errors.Join(fmt.Errorf("write holder of claim %s: %w", w.key, err), l.Close())
	}
	return l, nil
}

// obtain opens path and attempts to lock it until it succeeds or time is up.
func (w *fileWait) obtain(ctx context.Context, path string) (*os.File, error) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("acquire claim %s: %w", w.key, context.Cause(ctx))
		case <-pause.C:
		}
		f, err := tryLock(path)
		if f != nil || err != nil {
			return f, err
		}
		if err := w.report(); err != nil {
			return nil, err
		}
		pause.Reset(pollLeast + rand.N(pollMost-pollLeast))
	}
}

// report tells the waiter about once a second who is in the way, and ends the
// wait when its time is up.
func (w *fileWait) report() error {
	now := w.cfg.Now()
	waited := now.Sub(w.started)
	if w.o.Timeout > 0 && waited >= w.o.Timeout {
		held := readHolder(w.path)
		return &HeldError{Key: w.key, Holder: held.Holder, HeldFor: held.age(now), Waited: waited}
	}
	if w.o.OnWait != nil && now.Sub(w.lastLook) >= w.cfg.Timing.Look {
		w.lastLook = now
		held := readHolder(w.path)
		w.o.OnWait(Waiting{For: waited, Holder: held.Holder, HeldFor: held.age(now)})
	}
	return nil
}

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
