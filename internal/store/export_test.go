package store

import (
	"context"
	"time"

	"gocloud.dev/blob"
)

// BlobBackend is the backend of the Go CDK over any of its buckets.
func (s *Store) BlobBackend(open func(context.Context, string) (*blob.Bucket, error)) Backend {
	return s.blobBackend(time.Now, open)
}
