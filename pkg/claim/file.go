package claim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// pollLeast and pollMost bound the jittered pause between two attempts.
const pollLeast, pollMost = 10 * time.Millisecond, 30 * time.Millisecond

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
	lock, queue := f.paths(key)
	locked, err := w.run(ctx, lock, queue)
	if err != nil {
		return nil, err
	}
	return f.adopt(ctx, f.cfg, grant{
		key: key, mode: ModeFile, reference: key.String(), started: w.started,
		lease: &fileLease{file: locked}, term: f.cfg.Timing.FileCAS,
	})
}

// paths returns the two files of a table.
func (f *file) paths(key Key) (lock, queue string) {
	sum := sha256.Sum256([]byte(key.String()))
	base := filepath.Join(f.cfg.Dir, hex.EncodeToString(sum[:]))
	return base + ".lock", base + ".queue"
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
