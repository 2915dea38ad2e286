package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Create begins a hidden file beside the target, in folders made on demand.
func (b *localBackend) Create(ctx context.Context, path string) (Writer, error) {
	loc, err := parseLocal(path)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(loc.path, "/") {
		return nil, &kindError{kind: fs.ErrInvalid, err: errors.New("the path names a folder")}
	}
	dir, name := filepath.Split(loc.path)
	if dir == "" {
		dir = "."
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, cause(err)
	}
	// The name is hidden, so that no listing of data files takes it for one.
	tmp, err := os.CreateTemp(dir, "."+name+".*.part")
	if err != nil {
		return nil, cause(err)
	}
	b.counters.Puts.Add(1)
	w := &localWriter{ctx: ctx, file: tmp, target: loc.path, counters: b.counters}
	w.mu.Lock() // the context may have ended already
	defer w.mu.Unlock()
	w.stop = context.AfterFunc(ctx, func() { _ = w.Abort() })
	return w, nil
}

// localWriter writes beside its target and renames at the end.
type localWriter struct {
	ctx      context.Context
	target   string
	counters *Counters
	stop     func() bool

	mu   sync.Mutex // Abort may come from another goroutine
	file *os.File
	done bool
}

var errWriterDone = &kindError{kind: fs.ErrClosed, err: errors.New("the write has ended or was aborted")}

// Write appends to the hidden file.
func (w *localWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return 0, err
	}
	n, err := w.file.Write(p)
	w.counters.BytesWritten.Add(int64(n))
	return n, cause(err)
}

func (w *localWriter) usable() error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	if w.done {
		return errWriterDone
	}
	return nil
}

// ReadFrom writes all of r.
func (w *localWriter) ReadFrom(r io.Reader) (int64, error) { return readCopy(w, r) }

// Close makes the file visible, in this order: content to disk, rename, folder
// to disk. Before the rename a crash leaves a hidden file, after it the whole one.
func (w *localWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop()
	err := w.usable()
	if err == nil {
		err = w.publish()
	}
	if err != nil {
		return errors.Join(err, w.discard())
	}
	w.done = true
	return nil
}

func (w *localWriter) publish() error {
	if err := w.file.Chmod(0o644); err != nil {
		return cause(err)
	}
	if err := w.file.Sync(); err != nil {
		return cause(err)
	}
	if err := w.file.Close(); err != nil {
		return cause(err)
	}
	if err := os.Rename(w.file.Name(), w.target); err != nil {
		return fmt.Errorf("rename: %w", err)
	}
	dir, err := os.Open(filepath.Dir(w.target))
	if err != nil {
		return cause(err)
	}
	return cause(errors.Join(dir.Sync(), dir.Close()))
}

// Abort removes the hidden file.
func (w *localWriter) Abort() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.discard()
}

func (w *localWriter) discard() error {
	if w.done {
		return nil
	}
	w.done = true
	w.stop()
	_ = w.file.Close() // it is thrown away; it may have been closed before
	if err := os.Remove(w.file.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cause(err)
	}
	return nil
}
