package store

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"
)

// pathWriter puts operation and path on the errors of a backend's writer.
type pathWriter struct {
	Writer
	path string
}

func (w *pathWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	return n, pathError("write", w.path, err)
}

// ReadFrom writes all of r.
func (w *pathWriter) ReadFrom(r io.Reader) (int64, error) {
	n, err := w.Writer.ReadFrom(r)
	return n, pathError("write", w.path, err)
}

// Close makes the object visible.
func (w *pathWriter) Close() error { return pathError("close", w.path, w.Writer.Close()) }

// Abort gives the write up.
func (w *pathWriter) Abort() error { return pathError("abort", w.path, w.Writer.Abort()) }

// fileInfo shows an Object as fs.FileInfo.
type fileInfo struct{ o Object }

// Name is the last part of the path.
func (i fileInfo) Name() string { return i.o.Path[strings.LastIndexByte(i.o.Path, '/')+1:] }

// Size is the object's length in bytes.
func (i fileInfo) Size() int64 { return i.o.Size }

// Mode is the same for all objects.
func (i fileInfo) Mode() fs.FileMode { return 0o444 }

// ModTime is the store's time of the object.
func (i fileInfo) ModTime() time.Time { return i.o.ModTime }

// IsDir is false: folders are no objects.
func (i fileInfo) IsDir() bool { return false }

// Sys has nothing to tell.
func (i fileInfo) Sys() any { return nil }

type dirEntry struct {
	fileInfo
	dir bool
}

// IsDir tells the root of a walk from the objects below.
func (d dirEntry) IsDir() bool { return d.dir }

// Type is the directory bit alone.
func (d dirEntry) Type() fs.FileMode {
	if d.dir {
		return fs.ModeDir
	}
	return 0
}

// Info returns what the listing told.
func (d dirEntry) Info() (fs.FileInfo, error) { return d.fileInfo, nil }

// readCopy is what ReadFrom of every writer does: Write in blocks.
func readCopy(w io.Writer, r io.Reader) (int64, error) {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	var total int64
	for {
		n, err := r.Read(*buf)
		if n > 0 {
			m, werr := w.Write((*buf)[:n])
			total += int64(m)
			if werr != nil {
				return total, werr //nolint:wrapcheck // its own error, on its own writer
			}
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err //nolint:wrapcheck // the caller's reader, the caller's error
		}
	}
}

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 256<<10); return &b }}
