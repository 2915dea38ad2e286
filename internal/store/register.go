package store

import (
	"context"
	"fmt"
	"net/url"
	"sync"

	icebergio "github.com/apache/iceberg-go/io"
)

type storeKey struct{}

// WithStore returns a context that tells iceberg-go's calls which store to use
// for the FileIO they make. It is how one process can hold several catalogs
// with different settings, although iceberg-go's scheme registry is global.
func WithStore(ctx context.Context, s *Store) context.Context {
	return context.WithValue(ctx, storeKey{}, s)
}

var registerOnce sync.Once

// Register makes every FileIO of iceberg-go come from this package: for the
// schemes of S3, Azure and Google, file URIs and bare paths, replacing what was registered before. The
// program calls it once before it opens a catalog; more calls do nothing. A
// context without a store (see WithStore) is an error: there is no default.
func Register() {
	registerOnce.Do(func() {
		for _, scheme := range []string{"s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", schemeFile, schemeBare} {
			icebergio.Unregister(scheme)
			icebergio.Register(scheme, fileIO)
		}
	})
}

func fileIO(ctx context.Context, _ *url.URL, props map[string]string) (icebergio.IO, error) {
	s, ok := ctx.Value(storeKey{}).(*Store)
	if !ok {
		return nil, fmt.Errorf("make a FileIO: the context carries no store")
	}
	return s.FS(ctx, props), nil
}
