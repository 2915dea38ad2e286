package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// abortTimeout bounds the cleaning up after a failed upload, which goes on
// when the work's own context has ended.
const abortTimeout = 30 * time.Second

// lastGrace is how long the request that makes an object visible may go on
// after the work's own context has ended.
const lastGrace = 5 * time.Second

// Create begins an object; nothing is sent before there is a full part, or Close.
func (b *s3Backend) Create(ctx context.Context, path string) (Writer, error) {
	loc, err := parseS3Object(path)
	if err != nil {
		return nil, err
	}
	w := &s3Writer{b: b, loc: loc, slots: make(chan []byte, b.concurrency), last: lastRequest{grace: lastGrace}}
	for range b.concurrency {
		w.slots <- nil
	}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.mu.Lock() // the context may have ended already
	defer w.mu.Unlock()
	w.stop = context.AfterFunc(ctx, func() { _ = w.abort(context.Cause(ctx)) }) //nolint:contextcheck // cleaning up has a context of its own
	return w, nil
}

// s3Writer sends full parts in the background. Its states: buffering (no
// upload), uploading, done. A slot is the right to have a part in flight and
// carries the buffer that the part before left behind.
type s3Writer struct {
	b      *s3Backend
	loc    s3Location
	ctx    context.Context // ends with the caller's, with a failed part, and with Abort
	cancel context.CancelCauseFunc
	stop   func() bool
	slots  chan []byte
	last   lastRequest
	flight sync.WaitGroup

	mu     sync.Mutex // Abort may come from another goroutine
	buf    []byte
	size   int64
	upload *string
	parts  int32
	done   bool
	why    error // why nothing can be written any more, once done

	doneMu sync.Mutex // parts finish in any order
	ended  []types.CompletedPart
}

// Write buffers, and sends parts in the background once there is more than one.
func (w *s3Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	written := 0
	for len(p) > 0 {
		if err := w.usable(); err != nil {
			return written, err
		}
		n := min(len(p), int(w.b.partSize)-len(w.buf))
		w.buf = append(w.buf, p[:n]...)
		p, written = p[n:], written+n
		w.size += int64(n)
		// A full buffer waits for the byte after it: an object of exactly one
		// part is still a single PUT.
		if len(w.buf) == int(w.b.partSize) && len(p) > 0 {
			if err := w.sendPart(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// ReadFrom writes all of r.
func (w *s3Writer) ReadFrom(r io.Reader) (int64, error) { return readCopy(w, r) }

func (w *s3Writer) usable() error {
	if w.done {
		return w.why
	}
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return nil
}

// sendPart hands the buffer to a goroutine, after it has waited for a slot.
func (w *s3Writer) sendPart() error {
	if w.parts == maxParts {
		return fmt.Errorf("the object is larger than %d parts of %d bytes: raise the part size", maxParts, w.b.partSize)
	}
	if w.upload == nil {
		out, err := w.b.api.CreateMultipartUpload(w.ctx, &s3.CreateMultipartUploadInput{Bucket: &w.loc.bucket, Key: &w.loc.key})
		if err != nil {
			return explain(err)
		}
		w.upload = out.UploadId
	}
	var spare []byte
	select {
	case spare = <-w.slots:
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
	w.parts++
	part, body := w.parts, w.buf
	w.buf = spare[:0]
	w.flight.Go(func() {
		defer func() { w.slots <- body }()
		if err := w.put(part, body); err != nil {
			w.cancel(err)
		}
	})
	return nil
}

func (w *s3Writer) put(part int32, body []byte) error {
	out, err := w.b.api.UploadPart(w.ctx, &s3.UploadPartInput{
		Bucket: &w.loc.bucket, Key: &w.loc.key, UploadId: w.upload,
		PartNumber: &part, Body: bytes.NewReader(body),
	})
	if err != nil {
		return explain(err)
	}
	w.doneMu.Lock()
	defer w.doneMu.Unlock()
	w.ended = append(w.ended, types.CompletedPart{
		PartNumber: &part, ETag: out.ETag, ChecksumCRC32: out.ChecksumCRC32, ChecksumCRC64NVME: out.ChecksumCRC64NVME,
	})
	return nil
}

// Close sends what is left and makes the object visible. On any error the
// upload is aborted. A context that ends while the last request is under way
// waits for its outcome, which then counts.
func (w *s3Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.usable()
	if err == nil {
		err = w.finish()
	}
	if err != nil {
		return errors.Join(err, w.discard(err))
	}
	w.release(errWriterDone)
	return nil
}

func (w *s3Writer) finish() error {
	if w.upload == nil {
		_, err := w.b.api.PutObject(w.last.bind(w.ctx), &s3.PutObjectInput{
			Bucket: &w.loc.bucket, Key: &w.loc.key, Body: bytes.NewReader(w.buf),
		})
		return explain(err)
	}
	if err := w.sendPart(); err != nil {
		return err
	}
	w.flight.Wait()
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	slices.SortFunc(w.ended, func(a, b types.CompletedPart) int { return int(*a.PartNumber - *b.PartNumber) })
	_, err := w.b.api.CompleteMultipartUpload(w.last.bind(w.ctx), &s3.CompleteMultipartUploadInput{
		Bucket: &w.loc.bucket, Key: &w.loc.key, UploadId: w.upload,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: w.ended},
	})
	if err != nil && errorCode(err) == "NoSuchUpload" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), abortTimeout)
		defer cancel()
		if w.exists(ctx) {
			// An earlier attempt was carried out and its answer lost.
			return nil
		}
	}
	return explain(err)
}

// Abort ends the upload. Parts in flight are cancelled first and waited for, so
// that none arrives after the upload is gone.
func (w *s3Writer) Abort() error { return w.abort(errWriterDone) }

func (w *s3Writer) abort(reason error) error {
	w.cancel(reason)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.discard(reason)
}

func (w *s3Writer) discard(reason error) error {
	if w.done {
		return nil
	}
	w.cancel(reason)
	w.flight.Wait()
	upload := w.upload
	w.release(reason)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), abortTimeout)
	defer cancel()
	var err error
	if upload != nil {
		err = w.abortUpload(ctx, upload)
	}
	if w.last.unknown.Load() {
		err = errors.Join(err, w.removeLate(ctx))
	}
	return err
}

func (w *s3Writer) abortUpload(ctx context.Context, upload *string) error {
	_, err := w.b.api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
		Bucket: &w.loc.bucket, Key: &w.loc.key, UploadId: upload,
	})
	if err != nil && errorCode(err) != "NoSuchUpload" {
		return fmt.Errorf("abort upload: %w", explain(err))
	}
	return nil
}

// release ends the writer and lets its memory and context go.
func (w *s3Writer) release(why error) {
	w.done, w.why = true, why
	w.stop()
	w.cancel(nil)
	w.buf, w.ended, w.upload = nil, nil, nil
}
