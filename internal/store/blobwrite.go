package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"gocloud.dev/blob"
)

// Create begins an object. It becomes visible when Close returns nil.
func (b *blobBackend) Create(ctx context.Context, path string) (Writer, error) {
	loc, err := parseS3Object(path)
	if err != nil {
		return nil, err
	}
	bucket, err := b.bucket(ctx, loc.bucket)
	if err != nil {
		return nil, err
	}
	w := &blobWriter{counters: b.counters}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	b.counters.Puts.Add(1)
	if w.w, err = bucket.NewWriter(w.ctx, loc.key, &blob.WriterOptions{ //nolint:contextcheck // a child of ctx
		BufferSize: int(b.partSize), MaxConcurrency: b.concurrency, ContentType: "application/octet-stream",
	}); err != nil {
		w.cancel(nil)
		return nil, blobError(ctx, err)
	}
	w.mu.Lock() // the context may have ended already
	defer w.mu.Unlock()
	w.stop = context.AfterFunc(ctx, func() { _ = w.abort(context.Cause(ctx)) })
	return w, nil
}

// blobWriter writes one object. A write of the Go CDK is given up by ending
// its context before it is closed.
type blobWriter struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	stop     func() bool
	counters *Counters

	mu   sync.Mutex // Abort may come from another goroutine
	w    *blob.Writer
	done bool
	why  error
}

// Write hands bytes to the upload.
func (w *blobWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return 0, err
	}
	n, err := w.w.Write(p)
	w.counters.BytesWritten.Add(int64(n))
	if err != nil {
		return n, blobError(w.ctx, err)
	}
	return n, nil
}

// ReadFrom writes all of r.
func (w *blobWriter) ReadFrom(r io.Reader) (int64, error) { return readCopy(w, r) }

func (w *blobWriter) usable() error {
	if w.done {
		return w.why
	}
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return nil
}

// Close makes the object visible, or gives it up on an error.
func (w *blobWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		w.discard(err)
		return err
	}
	err := w.w.Close()
	w.release(errWriterDone)
	if err != nil {
		return fmt.Errorf("finish upload: %w", err)
	}
	return nil
}

// Abort gives the write up.
func (w *blobWriter) Abort() error { return w.abort(errWriterDone) }

func (w *blobWriter) abort(reason error) error {
	w.cancel(reason)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.discard(reason)
	return nil
}

func (w *blobWriter) discard(reason error) {
	if w.done {
		return
	}
	w.cancel(reason)
	if err := w.w.Close(); err == nil {
		reason = errors.Join(reason, errors.New("the object was finished all the same"))
	}
	w.release(reason)
}

func (w *blobWriter) release(why error) {
	w.done, w.why = true, why
	w.stop()
	w.cancel(nil)
}
