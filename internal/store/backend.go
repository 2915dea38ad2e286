package store

import (
	"context"
	"iter"
	"time"

	icebergio "github.com/apache/iceberg-go/io"
)

// Object is one stored object.
type Object struct {
	Path    string    // full URI, spelled with the scheme it was asked for with
	Size    int64     // bytes
	ModTime time.Time // by the store's clock; zero when the store does not tell
	Listed  time.Time // the store's clock when List saw it; zero when the store does not tell, and outside of List
}

// Writer writes one object. The object exists once Close has returned nil.
// Abort gives the write up and leaves nothing behind; it may be called at any
// time, from any goroutine and more than once, and after Close it does nothing.
type Writer interface {
	icebergio.FileWriter
	Abort() error
}

// DeleteFailure is one path that could not be deleted, and why.
type DeleteFailure struct {
	Path string
	Err  error
}

// Backend serves the paths of one or more schemes. It is the seam for further
// stores and for injected faults. Paths are full locations as they appear
// in table metadata. Errors need no path of their own: FS adds operation and path.
type Backend interface {
	// Open returns the object for reading, fs.ErrNotExist if there is none.
	Open(ctx context.Context, path string) (icebergio.File, error)
	// Create begins to write an object, replacing what is there on Close. When
	// ctx ends before Close the write is aborted.
	Create(ctx context.Context, path string) (Writer, error)
	// Delete removes objects; what is not there counts as removed. It goes on
	// after a failure and returns every path that may still be there.
	Delete(ctx context.Context, paths []string) []DeleteFailure
	// List yields every object below the folder prefix, in no particular order,
	// without folders. After an error it ends.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
	// Stat returns size and time of one object, fs.ErrNotExist if there is none.
	Stat(ctx context.Context, path string) (Object, error)
}
