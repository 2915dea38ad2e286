package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// objectInfo is what an answer tells about the object as a whole.
type objectInfo struct {
	size int64
	etag string
	mod  time.Time
}

// span is a byte range. With dst set, the bytes go there and length is its length.
type span struct {
	off    int64
	length int64
	dst    []byte
}

// fetch reads a range, shortened to the object's end, in as few requests as the
// network allows: normally one. A body that breaks off is continued from where
// it stopped; etag, or the one of the first answer, makes sure that it is still
// the same object. An empty object is no error.
func (b *s3Backend) fetch(ctx context.Context, loc s3Location, want span, etag string) ([]byte, objectInfo, error) {
	r := &ranged{b: b, loc: loc, want: want, etag: etag, buf: want.dst}
	for attempt := 1; ; attempt++ {
		if ctx.Err() != nil {
			return nil, r.info, context.Cause(ctx)
		}
		err := r.once(ctx)
		if err == nil {
			return r.buf[:r.got], r.info, nil
		}
		var cut *cutError
		if !errors.As(err, &cut) || attempt >= b.opts.MaxAttempts {
			return nil, r.info, err
		}
		if err := b.pause(ctx, attempt, err); err != nil {
			return nil, r.info, err
		}
	}
}

// cutError is a body that ended early: the request was answered, so the SDK's
// own retries are over.
type cutError struct{ err error }

func (e *cutError) Error() string { return "the answer broke off: " + e.err.Error() }
func (e *cutError) Unwrap() error { return e.err }

// ranged is one fetch with what it has so far.
type ranged struct {
	b    *s3Backend
	loc  s3Location
	want span
	etag string
	buf  []byte
	got  int
	info objectInfo
}

func (r *ranged) once(ctx context.Context) error {
	from, to := r.want.off+int64(r.got), r.want.off+r.want.length-1
	if r.buf != nil {
		to = r.want.off + int64(len(r.buf)) - 1
	}
	in := &s3.GetObjectInput{
		Bucket: &r.loc.bucket, Key: &r.loc.key,
		Range: aws.String(fmt.Sprintf("bytes=%d-%d", from, to)),
	}
	if r.etag != "" {
		in.IfMatch = &r.etag
	}
	out, err := r.b.api.GetObject(ctx, in)
	if err != nil {
		return r.refused(err)
	}
	err = r.read(out)
	if cerr := out.Body.Close(); err == nil && cerr != nil {
		err = &cutError{cerr}
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// refused sorts out the answers that are no failure of the request.
func (r *ranged) refused(err error) error {
	switch statusOf(err) {
	case http.StatusRequestedRangeNotSatisfiable:
		if r.want.off == 0 && r.got == 0 {
			r.buf = []byte{} // no byte to be had from the start on: the object is empty
			return nil
		}
	case http.StatusPreconditionFailed:
		return errChanged
	}
	return explain(err)
}

func (r *ranged) read(out *s3.GetObjectOutput) error {
	total, first, err := extent(out)
	if err != nil {
		return err
	}
	r.info = objectInfo{size: total, etag: aws.ToString(out.ETag), mod: aws.ToTime(out.LastModified)}
	if r.etag == "" {
		r.etag = r.info.etag
	}
	if r.buf == nil {
		r.buf = make([]byte, max(0, min(r.want.length, total-r.want.off)))
	} else if rest := total - r.want.off; rest < int64(len(r.buf)) {
		r.buf = r.buf[:max(rest, 0)]
	}
	if skip := r.want.off + int64(r.got) - first; skip > 0 {
		// A server that does not know ranges sends everything from the start.
		if _, err := io.CopyN(io.Discard, out.Body, skip); err != nil {
			return &cutError{err}
		}
	}
	n, err := io.ReadFull(out.Body, r.buf[r.got:])
	r.got += n
	if err != nil {
		return &cutError{err}
	}
	return nil
}

// extent reads the size of the whole object and the offset of the first byte
// of the body.
func extent(out *s3.GetObjectOutput) (total, first int64, err error) {
	cr := aws.ToString(out.ContentRange)
	if cr == "" {
		if out.ContentLength == nil {
			return 0, 0, errors.New("the store answered without a length and without a content range")
		}
		return *out.ContentLength, 0, nil
	}
	span, size, found := strings.Cut(strings.TrimPrefix(cr, "bytes "), "/")
	start, _, ranged := strings.Cut(span, "-")
	if found && ranged {
		if first, err = strconv.ParseInt(start, 10, 64); err == nil {
			total, err = strconv.ParseInt(size, 10, 64)
		}
	}
	if !found || !ranged || err != nil {
		return 0, 0, fmt.Errorf("the store answered with the content range %q, which does not tell the size", cr)
	}
	return total, first, nil
}
