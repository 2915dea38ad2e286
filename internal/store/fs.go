package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"maps"
	"time"

	icebergio "github.com/apache/iceberg-go/io"
)

// FS is a store bound to a context: iceberg-go's FileIO with its optional
// parts, and a flat listing. When the context has ended every call returns
// its error without a request being sent.
type FS struct {
	ctx context.Context
	mux *mux
}

var (
	_ icebergio.ReadFileIO      = (*FS)(nil)
	_ icebergio.WriteFileIO     = (*FS)(nil)
	_ icebergio.BulkRemovableIO = (*FS)(nil)
	_ icebergio.StatIO          = (*FS)(nil)
	_ icebergio.ListableIO      = (*FS)(nil)
)

// WithContext returns the same store bound to another context: a fresh one to
// clean up with after the first was cancelled, or one that ends with a claim.
func (f *FS) WithContext(ctx context.Context) *FS { return &FS{ctx: ctx, mux: f.mux} }

// WithVended returns the same view with credentials that are renewed while it
// is in use. They are offered what f has at hand.
func (f *FS) WithVended(v *Vended) *FS {
	v.Offer(f.mux.props)
	return &FS{ctx: f.ctx, mux: &mux{store: f.mux.store, props: f.mux.props, vended: v, made: map[string]Backend{}}}
}

// Properties are the FileIO properties that f was made with.
func (f *FS) Properties() map[string]string { return maps.Clone(f.mux.props) }

// DeletesDisabled reports that the catalog sent s3.delete-enabled=false: files
// are the catalog's to delete. The FS itself does not refuse deletes; the
// caller decides.
func (f *FS) DeletesDisabled() bool { return isFalse(f.mux.props[propDeleteEnabled]) }

// CredentialsExpire returns when vended credentials end, zero if never or
// unknown, or if the operator's own keys are used instead.
func (f *FS) CredentialsExpire() time.Time {
	if f.mux.store.opts.S3.AccessKeyID != "" {
		return time.Time{}
	}
	if f.mux.vended != nil {
		return f.mux.vended.Expires()
	}
	return expiry(f.mux.props)
}

// Counters returns the counters of the store behind f.
func (f *FS) Counters() *Counters { return f.mux.store.opts.Counters }

// backend checks the context and finds the backend, with ready-made errors.
func (f *FS) backend(op, path string) (Backend, error) {
	if err := f.ctx.Err(); err != nil {
		return nil, pathError(op, path, context.Cause(f.ctx))
	}
	b, err := f.mux.backend(f.ctx, path)
	return b, pathError(op, path, err)
}

// Open opens an object for reading. Small ones are read whole at once.
func (f *FS) Open(name string) (icebergio.File, error) {
	b, err := f.backend("open", name)
	if err != nil {
		return nil, err
	}
	file, err := b.Open(f.ctx, name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return file, nil
}

// ReadFile reads a whole object. The slice is the caller's.
func (f *FS) ReadFile(name string) (data []byte, err error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if w, ok := file.(interface{ take() ([]byte, bool) }); ok {
		if data, ok := w.take(); ok {
			return data, nil
		}
	}
	info, err := file.Stat()
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	data = make([]byte, info.Size())
	if n, err := file.ReadAt(data, 0); n < len(data) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, pathError("read", name, err)
	}
	return data, nil
}

// Create begins an object. What it returns is a Writer: it has Abort, and
// nothing is visible before Close has returned nil. When the context of f ends
// first, the write is aborted.
func (f *FS) Create(name string) (icebergio.FileWriter, error) { return f.CreateWriter(name) }

// CreateWriter is Create with the concrete type.
func (f *FS) CreateWriter(name string) (Writer, error) {
	b, err := f.backend("create", name)
	if err != nil {
		return nil, err
	}
	w, err := b.Create(f.ctx, name)
	if err != nil {
		return nil, pathError("create", name, err)
	}
	return &pathWriter{Writer: w, path: name}, nil
}

// WriteFile writes a whole object, replacing what was there.
func (f *FS) WriteFile(name string, p []byte) error {
	w, err := f.CreateWriter(name)
	if err != nil {
		return err
	}
	if _, err := w.Write(p); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close() //nolint:wrapcheck // pathWriter has named operation and path
}

// Remove deletes one object. What is not there counts as deleted, so that a
// deletion may be repeated.
func (f *FS) Remove(name string) error {
	b, err := f.backend("remove", name)
	if err != nil {
		return err
	}
	if failed := b.Delete(f.ctx, []string{name}); len(failed) > 0 {
		return pathError("remove", name, failed[0].Err)
	}
	return nil
}

// DeleteFiles deletes many objects, in batches where the store can. Missing
// ones count as deleted. It does what it can: the paths that are gone are
// returned in the order given, and a *DeleteError lists the others. Both ctx
// and the context of f stop it.
func (f *FS) DeleteFiles(ctx context.Context, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(f.ctx, func() { cancel(context.Cause(f.ctx)) })() //nolint:contextcheck // either context stops it

	bad := map[string]error{}
	groups := map[string][]string{}
	for _, p := range paths {
		scheme := schemeOf(p)
		groups[scheme] = append(groups[scheme], p)
	}
	for _, group := range groups {
		b, err := f.backend("remove", group[0])
		if err != nil {
			for _, p := range group {
				bad[p] = err
			}
			continue
		}
		for _, fail := range b.Delete(ctx, group) {
			bad[fail.Path] = pathError("remove", fail.Path, fail.Err)
		}
	}
	deleted := make([]string, 0, len(paths))
	var failed []DeleteFailure
	for _, p := range paths {
		if err, is := bad[p]; is {
			failed = append(failed, DeleteFailure{Path: p, Err: err})
			continue
		}
		deleted = append(deleted, p)
	}
	if len(failed) > 0 {
		return deleted, &DeleteError{Failed: failed}
	}
	return deleted, nil
}

// Stat returns size and time of one object.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	b, err := f.backend("stat", name)
	if err != nil {
		return nil, err
	}
	o, err := b.Stat(f.ctx, name)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return fileInfo{o}, nil
}

// List yields every object in the folder prefix and below; "s3://b/t" and
// "s3://b/t/" are the same folder and neither holds "s3://b/t2/x". The paths
// begin with prefix as it was given. A folder that does not exist is empty.
// Both ctx and the context of f stop it; an error is the last thing it yields.
func (f *FS) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		b, err := f.backend("list", prefix)
		if err != nil {
			yield(Object{}, err)
			return
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(f.ctx, func() { cancel(context.Cause(f.ctx)) })() //nolint:contextcheck // either context stops it
		for o, err := range b.List(ctx, prefix) {
			if !yield(o, pathError("list", prefix, err)) || err != nil {
				return
			}
		}
	}
}

// WalkDir calls fn for root and then for every object below it, flat: the
// folders between are not visited. fs.SkipAll ends the walk, and so does
// fs.SkipDir for root.
func (f *FS) WalkDir(root string, fn fs.WalkDirFunc) error {
	err := fn(root, dirEntry{fileInfo{Object{Path: root}}, true}, nil)
	if errors.Is(err, fs.SkipDir) || errors.Is(err, fs.SkipAll) {
		return nil
	}
	if err != nil {
		return err
	}
	for o, err := range f.List(f.ctx, root) {
		if err != nil {
			return fn(root, nil, err)
		}
		if err := fn(o.Path, dirEntry{fileInfo{o}, false}, nil); err != nil {
			if errors.Is(err, fs.SkipAll) {
				return nil
			}
			return err
		}
	}
	return nil
}
