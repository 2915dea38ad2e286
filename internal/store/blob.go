package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
	"sync"
	"time"

	icebergio "github.com/apache/iceberg-go/io"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
	"golang.org/x/sync/errgroup"
)

// blobDeletes is how many single deletes are in flight: the Go CDK has no
// batches.
const blobDeletes = 32

// blobBackend serves the stores that are reached through the Go CDK. A
// container is opened at its first use.
type blobBackend struct {
	open        func(ctx context.Context, container string) (*blob.Bucket, error)
	clock       func() time.Time
	smallObject int64
	partSize    int64
	concurrency int
	counters    *Counters

	mu      sync.Mutex
	buckets map[string]*blob.Bucket
}

func (s *Store) blobBackend(clock func() time.Time, open func(context.Context, string) (*blob.Bucket, error)) *blobBackend {
	return &blobBackend{
		open: open, clock: clock, smallObject: s.opts.SmallObject, partSize: s.opts.PartSize,
		concurrency: s.opts.Concurrency, counters: s.opts.Counters, buckets: map[string]*blob.Bucket{},
	}
}

func (b *blobBackend) bucket(ctx context.Context, container string) (*blob.Bucket, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if bucket, ok := b.buckets[container]; ok {
		return bucket, nil
	}
	// The handle is used by later calls too, which have contexts of their own.
	bucket, err := b.open(context.WithoutCancel(ctx), container)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", container, err)
	}
	b.buckets[container] = bucket
	return bucket, nil
}

// Open reads the object's first block, which for a small one is all of it.
func (b *blobBackend) Open(ctx context.Context, path string) (icebergio.File, error) {
	return openRanged(ctx, b, path, b.smallObject)
}

// fetch reads a range in one request.
func (b *blobBackend) fetch(ctx context.Context, loc s3Location, want span, etag string) ([]byte, objectInfo, error) {
	bucket, err := b.bucket(ctx, loc.bucket)
	if err != nil {
		return nil, objectInfo{}, err
	}
	length := want.length
	if want.dst != nil {
		length = int64(len(want.dst))
	}
	b.counters.Gets.Add(1)
	r, err := bucket.NewRangeReader(ctx, loc.key, want.off, length, nil)
	if err != nil {
		if want.off == 0 && gcerrors.Code(err) != gcerrors.NotFound {
			if o, serr := b.stat(ctx, bucket, loc.key); serr == nil && o.Size == 0 {
				// Some stores have no range of an empty object.
				return []byte{}, infoOf(o.Size, o.ModTime), nil
			}
		}
		return nil, objectInfo{}, blobError(ctx, err)
	}
	info := infoOf(r.Size(), r.ModTime())
	data, err := b.readAll(r, want, info)
	err = errors.Join(err, r.Close())
	switch {
	case err != nil:
		return nil, info, blobError(ctx, err)
	case etag != "" && etag != info.etag:
		return nil, info, errChanged
	}
	return data, info, nil
}

func (b *blobBackend) readAll(r io.Reader, want span, info objectInfo) ([]byte, error) {
	buf := want.dst
	rest := max(0, info.size-want.off)
	if buf == nil {
		buf = make([]byte, min(want.length, rest))
	}
	buf = buf[:min(int64(len(buf)), rest)]
	n, err := io.ReadFull(r, buf)
	b.counters.BytesRead.Add(int64(n))
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return buf, nil
}

// infoOf takes size and time for what tells one content from another.
func infoOf(size int64, mod time.Time) objectInfo {
	return objectInfo{size: size, mod: mod, etag: fmt.Sprintf("%d-%d", size, mod.UnixNano())}
}

func (b *blobBackend) stat(ctx context.Context, bucket *blob.Bucket, key string) (Object, error) {
	b.counters.Heads.Add(1)
	a, err := bucket.Attributes(ctx, key)
	if err != nil {
		return Object{}, blobError(ctx, err)
	}
	return Object{Size: a.Size, ModTime: a.ModTime}, nil
}

// Stat asks for the object's attributes.
func (b *blobBackend) Stat(ctx context.Context, path string) (Object, error) {
	loc, err := parseS3Object(path)
	if err != nil {
		return Object{}, err
	}
	bucket, err := b.bucket(ctx, loc.bucket)
	if err != nil {
		return Object{}, err
	}
	o, err := b.stat(ctx, bucket, loc.key)
	o.Path = path
	return o, err
}

// List pages through the objects flat.
func (b *blobBackend) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		loc, err := parseS3(prefix)
		if err != nil {
			yield(Object{}, err)
			return
		}
		bucket, err := b.bucket(ctx, loc.bucket)
		if err != nil {
			yield(Object{}, err)
			return
		}
		key := loc.key
		if key != "" && !strings.HasSuffix(key, "/") {
			key += "/"
		}
		for token := blob.FirstPageToken; len(token) > 0; {
			var page []*blob.ListObject
			b.counters.Lists.Add(1)
			if page, token, err = bucket.ListPage(ctx, token, deleteBatch, &blob.ListOptions{Prefix: key}); err != nil {
				yield(Object{}, blobError(ctx, err))
				return
			}
			now := b.clock()
			for _, o := range page {
				if strings.HasSuffix(o.Key, "/") && o.Size == 0 {
					continue
				}
				if !yield(Object{Path: loc.root + "/" + o.Key, Size: o.Size, ModTime: o.ModTime, Listed: now}, nil) {
					return
				}
			}
		}
	}
}

// Delete sends single deletes, many at a time.
func (b *blobBackend) Delete(ctx context.Context, paths []string) []DeleteFailure {
	var mu sync.Mutex
	var failed []DeleteFailure
	var work errgroup.Group
	work.SetLimit(blobDeletes)
	for _, p := range paths {
		work.Go(func() error {
			if err := b.deleteOne(ctx, p); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, DeleteFailure{Path: p, Err: err})
			}
			return nil
		})
	}
	_ = work.Wait() // failures are collected per path
	return failed
}

func (b *blobBackend) deleteOne(ctx context.Context, path string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	loc, err := parseS3Object(path)
	if err != nil {
		return err
	}
	bucket, err := b.bucket(ctx, loc.bucket)
	if err != nil {
		return err
	}
	b.counters.Deletes.Add(1)
	if err := bucket.Delete(ctx, loc.key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return blobError(ctx, err)
	}
	return nil
}

// blobError gives an error of the Go CDK the meaning of io/fs.
func blobError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return &kindError{kind: fs.ErrNotExist, err: err}
	case gcerrors.PermissionDenied:
		return &kindError{kind: fs.ErrPermission, err: err, hint: HintDenied}
	}
	return err
}
