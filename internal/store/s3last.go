package store

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// lastRequest watches the request that makes an object visible. Once an
// attempt of it is on its way, the end of the writer's context does not cut it
// off: the store might carry it out after whoever cleans up has
// deleted the object. The attempt gets a grace period instead, and no further
// attempt follows.
type lastRequest struct {
	grace time.Duration
	// unknown is set by an attempt that the store neither confirmed nor refused.
	unknown atomic.Bool
}

type lastRequestKey struct{}

// bind marks the requests made with the context as attempts of l.
func (l *lastRequest) bind(ctx context.Context) context.Context {
	return context.WithValue(ctx, lastRequestKey{}, l)
}

func lastRequestOf(ctx context.Context) *lastRequest {
	l, _ := ctx.Value(lastRequestKey{}).(*lastRequest)
	return l
}

// send makes one attempt. The request ends with the body of its answer.
func (l *lastRequest) send(client *http.Client, req *http.Request) (*http.Response, error) {
	parent := req.Context()
	if parent.Err() != nil {
		return nil, context.Cause(parent)
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		timer := time.NewTimer(l.grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(context.Cause(parent))
		case <-ctx.Done():
		}
	})
	end := func() {
		stop()
		cancel(nil)
	}
	resp, err := client.Do(req.WithContext(ctx))
	if err != nil {
		l.unknown.Store(true)
		end()
		return nil, err //nolint:wrapcheck // the SDK classes the client's own error
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		l.unknown.Store(true)
	}
	resp.Body = &endingBody{ReadCloser: resp.Body, end: end}
	return resp, nil
}

// endingBody ends the request of an answer once the answer was read.
type endingBody struct {
	io.ReadCloser
	end func()
}

// Close ends the request.
func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close() //nolint:wrapcheck // the body's own error
}

// exists says whether there is an object of the written size.
func (w *s3Writer) exists(ctx context.Context) bool {
	out, err := w.b.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &w.loc.bucket, Key: &w.loc.key})
	return err == nil && aws.ToInt64(out.ContentLength) == w.size
}

// removeLate deletes the object of a last request whose outcome is not known.
// An object of another size is one that was there before and stays.
func (w *s3Writer) removeLate(ctx context.Context) error {
	if !w.exists(ctx) {
		return nil
	}
	_, err := w.b.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &w.loc.bucket, Key: &w.loc.key})
	if err != nil {
		return fmt.Errorf("delete object of a failed write: %w", explain(err))
	}
	return nil
}
