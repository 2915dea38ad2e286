package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	icebergio "github.com/apache/iceberg-go/io"
)

// localBackend serves the files of this machine.
type localBackend struct {
	counters *Counters
}

// Open opens a file; a folder is refused.
func (b *localBackend) Open(ctx context.Context, path string) (icebergio.File, error) {
	loc, err := parseLocal(path)
	if err != nil {
		return nil, err
	}
	b.counters.Gets.Add(1)
	f, err := os.Open(loc.path)
	if err != nil {
		return nil, cause(err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = &kindError{kind: fs.ErrInvalid, err: errors.New("it is a folder")}
	}
	if err != nil {
		return nil, errors.Join(cause(err), f.Close())
	}
	return &localFile{File: f, ctx: ctx, counters: b.counters}, nil
}

// Stat tells size and time; a folder is fs.ErrNotExist.
func (b *localBackend) Stat(_ context.Context, path string) (Object, error) {
	loc, err := parseLocal(path)
	if err != nil {
		return Object{}, err
	}
	b.counters.Heads.Add(1)
	info, err := os.Stat(loc.path)
	if err != nil {
		return Object{}, cause(err)
	}
	if info.IsDir() {
		// As in an object store: a folder is no object.
		return Object{}, &kindError{kind: fs.ErrNotExist, err: errors.New("it is a folder")}
	}
	return Object{Path: path, Size: info.Size(), ModTime: info.ModTime()}, nil
}

// Delete removes files one by one and never a folder.
func (b *localBackend) Delete(ctx context.Context, paths []string) []DeleteFailure {
	var failed []DeleteFailure
	for _, p := range paths {
		if err := b.deleteOne(ctx, p); err != nil {
			failed = append(failed, DeleteFailure{Path: p, Err: err})
		}
	}
	return failed
}

func (b *localBackend) deleteOne(ctx context.Context, path string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	loc, err := parseLocal(path)
	if err != nil {
		return err
	}
	if strings.HasSuffix(loc.path, "/") {
		return &kindError{kind: fs.ErrInvalid, err: errors.New("it is a folder")}
	}
	b.counters.Deletes.Add(1)
	if info, err := os.Lstat(loc.path); err == nil && info.IsDir() {
		return &kindError{kind: fs.ErrInvalid, err: errors.New("it is a folder")}
	}
	if err := os.Remove(loc.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cause(err)
	}
	return nil
}

// List walks the tree. A file or folder that vanishes meanwhile is left out: it
// is gone, as it would be in a listing made a moment later.
func (b *localBackend) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		loc, err := parseLocal(prefix)
		if err != nil {
			yield(Object{}, err)
			return
		}
		base := strings.TrimRight(prefix, "/")
		root := strings.TrimRight(loc.path, "/")
		if root == "" {
			root = "/"
		}
		err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return cause(err)
			}
			if d.IsDir() {
				b.counters.Lists.Add(1)
				return nil
			}
			info, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return cause(err)
			}
			rel := strings.TrimPrefix(strings.TrimPrefix(p, root), "/")
			if rel == "" {
				return nil // prefix itself is a file, not a folder
			}
			o := Object{Path: base + "/" + filepath.ToSlash(rel), Size: info.Size(), ModTime: info.ModTime(), Listed: time.Now()}
			if !yield(o, nil) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield(Object{}, err)
		}
	}
}

// cause takes operation and path off an os error: FS puts its own there.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// localFile counts what is read and stops with its context.
type localFile struct {
	*os.File
	ctx      context.Context
	counters *Counters
}

// Read reads on from the current position.
func (f *localFile) Read(p []byte) (int, error) {
	if f.ctx.Err() != nil {
		return 0, context.Cause(f.ctx)
	}
	n, err := f.File.Read(p)
	f.counters.BytesRead.Add(int64(n))
	return n, err //nolint:wrapcheck // an *fs.PathError, or io.EOF as it is
}

// ReadAt reads without moving the position.
func (f *localFile) ReadAt(p []byte, off int64) (int, error) {
	if f.ctx.Err() != nil {
		return 0, context.Cause(f.ctx)
	}
	n, err := f.File.ReadAt(p, off)
	f.counters.BytesRead.Add(int64(n))
	return n, err //nolint:wrapcheck // an *fs.PathError, or io.EOF as it is
}

// WriteTo hides the one of os.File, which would pass by the counter.
func (f *localFile) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{f}) //nolint:wrapcheck // either side's own error
}
