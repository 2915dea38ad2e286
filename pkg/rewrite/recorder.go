package rewrite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

// recorder is the storage a group writes through. It remembers every path that
// was created, because a writer that fails does not report what it had begun;
// it keeps the first write error, because the writer may only say that it is
// closed; and it counts the bytes that reached storage.
type recorder struct {
	target iceio.WriteFileIO
	bytes  atomic.Int64

	mu      sync.Mutex
	created []string
	failed  error
}

var _ iceio.WriteFileIO = (*recorder)(nil)

// open is the table's storage with the recorder in between.
func (r *recorder) open(tbl *table.Table) table.FSysF {
	return func(ctx context.Context) (iceio.IO, error) {
		target, err := tbl.FS(ctx)
		if err != nil {
			return nil, fmt.Errorf("open storage of table: %w", err)
		}
		writable, ok := target.(iceio.WriteFileIO)
		if !ok {
			return nil, fmt.Errorf("open storage of table: %T cannot write", target)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.target = writable

		return r, nil
	}
}

func (r *recorder) storage() iceio.WriteFileIO {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.target
}

// Open implements iceio.IO.
func (r *recorder) Open(name string) (iceio.File, error) {
	return r.storage().Open(name) //nolint:wrapcheck // a transparent decorator
}

// Remove implements iceio.IO.
func (r *recorder) Remove(name string) error {
	return r.storage().Remove(name) //nolint:wrapcheck // a transparent decorator
}

// Create implements iceio.WriteFileIO. The path is noted before the call: even
// a failed creation may leave something behind.
func (r *recorder) Create(name string) (iceio.FileWriter, error) {
	r.note(name)
	w, err := r.storage().Create(name)
	if err != nil {
		return nil, r.fail(fmt.Errorf("create %s: %w", name, err))
	}

	return &countingWriter{FileWriter: w, name: name, recorder: r}, nil
}

// WriteFile implements iceio.WriteFileIO.
func (r *recorder) WriteFile(name string, p []byte) error {
	r.note(name)
	r.bytes.Add(int64(len(p)))

	return r.storage().WriteFile(name, p) //nolint:wrapcheck // a transparent decorator
}

func (r *recorder) note(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.created = append(r.created, name)
}

func (r *recorder) paths() []string {
	r.mu.Lock()
	defer r.mu.Unlock()

	return slices.Clone(r.created)
}

// forget drops what was recorded, once the files are removed.
func (r *recorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.created = nil
	r.bytes.Store(0)
}

// undo removes what was written of a group, which begins anew.
func (r *recorder) undo(ctx context.Context, tbl *table.Table, res *Result) error {
	res.Outputs, res.RowsOut, res.BytesOut = nil, 0, 0
	if err := removeAll(ctx, tbl, r.paths()); err != nil {
		return err
	}
	r.forget()

	return nil
}

// fail remembers the first error and returns its argument.
func (r *recorder) fail(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = err
	}

	return err
}

func (r *recorder) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.failed
}

// countingWriter is one open output.
type countingWriter struct {
	iceio.FileWriter
	name     string
	recorder *recorder
}

// Write implements io.Writer.
func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.FileWriter.Write(p)

	return n, w.count(int64(n), err)
}

// ReadFrom implements io.ReaderFrom.
func (w *countingWriter) ReadFrom(src io.Reader) (int64, error) {
	n, err := w.FileWriter.ReadFrom(src)

	return n, w.count(n, err)
}

// Close implements io.Closer.
func (w *countingWriter) Close() error { return w.count(0, w.FileWriter.Close()) }

func (w *countingWriter) count(n int64, err error) error {
	w.recorder.bytes.Add(n)
	if err != nil {
		return w.recorder.fail(fmt.Errorf("write %s: %w", w.name, err))
	}

	return nil
}

// openFresh opens the table's storage so that it works after a cancellation:
// storage handles keep the context they were opened with.
func openFresh(ctx context.Context, tbl *table.Table) (iceio.IO, error) {
	storage, err := tbl.FS(context.WithoutCancel(ctx))
	if err != nil {
		return nil, fmt.Errorf("open storage to remove outputs: %w", err)
	}

	return storage, nil
}

func removeAll(ctx context.Context, tbl *table.Table, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	storage, err := openFresh(ctx, tbl)
	if err != nil {
		return err
	}
	var failed []error
	for _, path := range paths {
		if err := removeOne(storage, path); err != nil {
			failed = append(failed, err)
		}
	}

	return errors.Join(failed...)
}

func removeOne(storage iceio.IO, path string) error {
	if err := storage.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove output %s: %w", path, err)
	}

	return nil
}
