// Package store is the object store behind iceberg-go's FileIO: S3 and
// whatever speaks its protocol, Azure and Google Cloud Storage, and local files.
//
// A Store holds what one catalog needs to reach its objects: settings, HTTP
// connections, counters. An FS is a view of it that is bound to one context
// and serves every path whose scheme has a backend, in any bucket. iceberg-go
// keeps the context a FileIO was made with, so an FS whose context is dead
// does nothing any more, and cleaning up after a cancellation needs
// FS.WithContext with a context that is still alive.
//
// # Reads
//
// Open asks for the first SmallObject bytes (8 MiB) in one ranged GET, whose
// answer also tells the size; no HEAD is sent. What fits is held whole and
// never asked for again. A larger object is read by range: the first block and
// the last half MiB (a Parquet footer) are kept, small reads get a read-ahead
// of 1 MiB, large ones go straight into the caller's buffer. A body that is cut
// is continued where it stopped, on the condition that the ETag is still the
// same.
//
// # Writes
//
// Up to PartSize bytes are buffered and sent as one PUT; beyond that a
// multipart upload is begun, with at most Concurrency parts in flight. An
// object becomes visible when Close returns nil, and not before: a failed write,
// Abort and the end of the context all abort the upload. The last request, the
// one that makes the object visible, is not cut off once it was started: for up to half
// a minute Close waits for its outcome, so that nothing appears after
// Close, Abort or a delete that follows them. Local files are
// written beside their target, synchronised to disk and renamed.
//
// # Errors
//
// Every error is an *fs.PathError with the operation and the path. A missing
// object satisfies errors.Is(err, fs.ErrNotExist), a refused one
// fs.ErrPermission. Retries are bounded and jittered, happen only for
// what may go better the next time, and never after the context has ended.
//
// # Concurrency
//
// Store and FS may be used by many goroutines. A file may be read by many
// goroutines through ReadAt; Read and Seek share one position. A writer
// belongs to one goroutine, apart from Abort.
package store
