package store

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"
)

const (
	deleteBatch    = 1000 // what one DeleteObjects may name
	deleteParallel = 4
)

// Delete sends batches of up to 1000 keys, a few at a time. An endpoint that has
// no DeleteObjects gets single deletes.
func (b *s3Backend) Delete(ctx context.Context, paths []string) []DeleteFailure {
	d := &deletion{b: b, paths: map[target][]string{}}
	buckets := map[string][]target{}
	for _, p := range paths {
		loc, err := parseS3Object(p)
		if err != nil {
			d.fail(p, err)
			continue
		}
		t := target{loc.bucket, loc.key}
		if _, again := d.paths[t]; !again {
			buckets[loc.bucket] = append(buckets[loc.bucket], t)
		}
		d.paths[t] = append(d.paths[t], p)
	}
	var g errgroup.Group
	g.SetLimit(deleteParallel)
	for bucket, targets := range buckets {
		for batch := range slices.Chunk(targets, deleteBatch) {
			g.Go(func() error {
				d.batch(ctx, bucket, batch)
				return nil
			})
		}
	}
	_ = g.Wait() // failures are collected per path
	return d.failed
}

// target is one object; two spellings of it are deleted once.
type target struct{ bucket, key string }

type deletion struct {
	b     *s3Backend
	paths map[target][]string

	mu     sync.Mutex
	failed []DeleteFailure
}

func (d *deletion) fail(path string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = append(d.failed, DeleteFailure{Path: path, Err: err})
}

func (d *deletion) failTarget(t target, err error) {
	for _, p := range d.paths[t] {
		d.fail(p, err)
	}
}

func (d *deletion) batch(ctx context.Context, bucket string, batch []target) {
	if ctx.Err() == nil && len(batch) > 1 && !d.b.noBatch.Load() {
		handled, err := d.tryBatch(ctx, bucket, batch)
		if err == nil {
			return
		}
		if handled {
			for _, t := range batch {
				d.failTarget(t, err)
			}
			return
		}
		d.b.noBatch.Store(true)
	}
	for _, t := range batch {
		d.single(ctx, t)
	}
}

// tryBatch reports handled=false where the endpoint does not know the request.
func (d *deletion) tryBatch(ctx context.Context, bucket string, batch []target) (handled bool, err error) {
	ids := make([]types.ObjectIdentifier, len(batch))
	for i := range batch {
		ids[i].Key = &batch[i].key
	}
	out, err := d.b.api.DeleteObjects(ctx, &s3.DeleteObjectsInput{
		Bucket: &bucket, Delete: &types.Delete{Objects: ids, Quiet: aws.Bool(true)},
	})
	if err != nil {
		if ctx.Err() != nil {
			return true, context.Cause(ctx)
		}
		return !unknownRequest(err), explain(err)
	}
	for _, e := range out.Errors {
		if aws.ToString(e.Code) == "NoSuchKey" {
			continue
		}
		d.failTarget(target{bucket, aws.ToString(e.Key)}, refusal(e))
	}
	return true, nil
}

func unknownRequest(err error) bool {
	switch statusOf(err) {
	case http.StatusNotImplemented, http.StatusMethodNotAllowed, http.StatusLengthRequired:
		return true
	case http.StatusBadRequest:
		code := errorCode(err)
		return code == "InvalidArgument" || code == "MalformedXML" || code == "InvalidRequest" ||
			code == "NotImplemented" || code == "MissingContentMD5"
	}
	return false
}

func refusal(e types.Error) error {
	err := errors.New(aws.ToString(e.Code) + ": " + aws.ToString(e.Message))
	if aws.ToString(e.Code) == "AccessDenied" {
		return &kindError{kind: fs.ErrPermission, err: err, hint: "the store's credentials may not delete it"}
	}
	return err
}

func (d *deletion) single(ctx context.Context, t target) {
	if ctx.Err() != nil {
		d.failTarget(t, context.Cause(ctx))
		return
	}
	_, err := d.b.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &t.bucket, Key: &t.key})
	if err = explain(err); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.failTarget(t, err)
	}
}
