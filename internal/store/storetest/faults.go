// Package storetest holds what the tests of storage code share: one
// conformance suite that every backend passes, and a decorator that injects
// faults into a store that otherwise works.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	icebergio "github.com/apache/iceberg-go/io"

	"compactor/internal/store"
)

// Op names a call of a store that a fault can hit.
type Op string

// The calls that are counted. Read covers Read and ReadAt of an open file,
// Write and Close belong to a writer.
const (
	Open   Op = "open"
	Read   Op = "read"
	Create Op = "create"
	Write  Op = "write"
	Close  Op = "close"
	Delete Op = "delete"
	List   Op = "list"
	Stat   Op = "stat"
)

// ErrInjected is the error of an injected failure that names no other.
var ErrInjected = errors.New("injected fault")

// Call is one call that passes through Faults.
type Call struct {
	N    int // from 0, over all calls
	Op   Op
	Path string
}

// Fault is what happens to a call. The zero value lets it pass.
type Fault struct {
	Err      error         // fail with it, without asking the store
	Delay    time.Duration // wait first, or until the context ends
	Truncate int64         // Open: the file ends after so many bytes; 0 means whole
}

// Faults decides about every call of the stores it is wrapped around. It is
// used as store.Options.Wrap and may be shared between stores.
type Faults struct {
	mu     sync.Mutex
	n      int
	decide func(Call) Fault
	calls  []Call
}

// New makes Faults that ask decide about each call, one at a time. A nil
// decide only records.
func New(decide func(Call) Fault) *Faults { return &Faults{decide: decide} }

// FailCall fails the n-th call, from 0, and no other.
func FailCall(n int) *Faults {
	return New(func(c Call) Fault {
		if c.N == n {
			return Fault{Err: ErrInjected}
		}
		return Fault{}
	})
}

// Calls returns what has been called so far.
func (f *Faults) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.calls...)
}

// Wrap puts the faults around a backend.
func (f *Faults) Wrap(b store.Backend) store.Backend { return &faulty{Backend: b, f: f} }

func (f *Faults) hit(ctx context.Context, op Op, path string) (Fault, error) {
	f.mu.Lock()
	c := Call{N: f.n, Op: op, Path: path}
	f.n++
	f.calls = append(f.calls, c)
	var fault Fault
	if f.decide != nil {
		fault = f.decide(c)
	}
	f.mu.Unlock()
	if fault.Delay > 0 {
		t := time.NewTimer(fault.Delay)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return fault, context.Cause(ctx)
		case <-t.C:
		}
	}
	if fault.Err != nil {
		return fault, fmt.Errorf("call %d: %w", c.N, fault.Err)
	}
	return fault, nil
}

type faulty struct {
	store.Backend
	f *Faults
}

// Open can fail, or open a file that ends too early.
func (b *faulty) Open(ctx context.Context, path string) (icebergio.File, error) {
	fault, err := b.f.hit(ctx, Open, path)
	if err != nil {
		return nil, err
	}
	file, err := b.Backend.Open(ctx, path)
	if err != nil {
		return nil, err //nolint:wrapcheck // a decorator passes errors on
	}
	return &faultyFile{File: file, b: b, ctx: ctx, path: path, end: fault.Truncate}, nil
}

// Create can fail.
func (b *faulty) Create(ctx context.Context, path string) (store.Writer, error) {
	if _, err := b.f.hit(ctx, Create, path); err != nil {
		return nil, err
	}
	w, err := b.Backend.Create(ctx, path)
	if err != nil {
		return nil, err //nolint:wrapcheck // a decorator passes errors on
	}
	return &faultyWriter{Writer: w, b: b, ctx: ctx, path: path}, nil
}

// Delete asks about every path, so that some of a batch can fail.
func (b *faulty) Delete(ctx context.Context, paths []string) []store.DeleteFailure {
	var failed []store.DeleteFailure
	pass := make([]string, 0, len(paths))
	for _, p := range paths {
		if _, err := b.f.hit(ctx, Delete, p); err != nil {
			failed = append(failed, store.DeleteFailure{Path: p, Err: err})
			continue
		}
		pass = append(pass, p)
	}
	return append(failed, b.Backend.Delete(ctx, pass)...)
}

// List can fail before the first object.
func (b *faulty) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	return func(yield func(store.Object, error) bool) {
		if _, err := b.f.hit(ctx, List, prefix); err != nil {
			yield(store.Object{}, err)
			return
		}
		b.Backend.List(ctx, prefix)(yield)
	}
}

// Stat can fail.
func (b *faulty) Stat(ctx context.Context, path string) (store.Object, error) {
	if _, err := b.f.hit(ctx, Stat, path); err != nil {
		return store.Object{}, err
	}
	return b.Backend.Stat(ctx, path) //nolint:wrapcheck // a decorator passes errors on
}

// faultyFile fails reads and can end early, as a cut object does: its size is
// still told as before.
type faultyFile struct {
	icebergio.File
	b    *faulty
	ctx  context.Context
	path string
	end  int64
	pos  int64
}

// ReadAt can fail, and ends at the cut.
func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if _, err := f.b.f.hit(f.ctx, Read, f.path); err != nil {
		return 0, err
	}
	short := false
	if f.end > 0 {
		if off >= f.end {
			return 0, io.EOF
		}
		if rest := f.end - off; int64(len(p)) > rest {
			p, short = p[:rest], true
		}
	}
	n, err := f.File.ReadAt(p, off)
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

// Read reads on from the current position, through ReadAt.
func (f *faultyFile) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := f.ReadAt(p, f.pos)
	f.pos += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Seek moves the position of Read.
func (f *faultyFile) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekCurrent {
		offset, whence = offset+f.pos, io.SeekStart
	}
	pos, err := f.File.Seek(offset, whence)
	if err == nil {
		f.pos = pos
	}
	return pos, err //nolint:wrapcheck // a decorator passes errors on
}

type faultyWriter struct {
	store.Writer
	b    *faulty
	ctx  context.Context
	path string
}

// Write can fail.
func (w *faultyWriter) Write(p []byte) (int, error) {
	if _, err := w.b.f.hit(w.ctx, Write, w.path); err != nil {
		return 0, err
	}
	return w.Writer.Write(p) //nolint:wrapcheck // a decorator passes errors on
}

// ReadFrom writes all of r, through Write.
func (w *faultyWriter) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{w}, r) //nolint:wrapcheck // a decorator passes errors on
}

// Close fails as a store does: the object does not become visible.
func (w *faultyWriter) Close() error {
	if _, err := w.b.f.hit(w.ctx, Close, w.path); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Writer.Close() //nolint:wrapcheck // a decorator passes errors on
}
