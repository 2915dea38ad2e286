package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	icebergio "github.com/apache/iceberg-go/io"
)

const (
	tailSize   = 512 << 10 // a Parquet footer with room for a few hundred columns
	readAhead  = 1 << 20
	maxWindows = 4 // readers that go through different columns at a time
)

// block is a piece of the object that is held in memory.
type block struct {
	off  int64
	data []byte
}

func (k block) holds(off int64) bool { return off >= k.off && off < k.off+int64(len(k.data)) }

// ranger reads a part of an object, shortened to the object's end. With an
// etag it fails once the object is another.
type ranger interface {
	fetch(ctx context.Context, loc s3Location, want span, etag string) ([]byte, objectInfo, error)
}

// s3File reads one object of any store that serves ranges. The first block, the last and a few windows are
// kept: at most SmallObject + tailSize + maxWindows*readAhead bytes.
type s3File struct {
	ctx   context.Context
	b     ranger
	loc   s3Location
	path  string
	info  objectInfo
	head  []byte // nil once closed
	first int64  // where the first block ends

	mu      sync.Mutex // guards what follows
	pos     int64
	closed  bool
	tail    block
	windows []block // the latest first

	fetching sync.Mutex // one window at a time, so that readers side by side share it
}

// openRanged reads the first block of an object, at most small bytes. The file lives in ctx.
func openRanged(ctx context.Context, b ranger, path string, small int64) (icebergio.File, error) {
	loc, err := parseS3Object(path)
	if err != nil {
		return nil, err
	}
	f := &s3File{ctx: ctx, b: b, loc: loc, path: path}
	if f.head, f.info, err = b.fetch(ctx, loc, span{length: small}, ""); err != nil {
		return nil, err
	}
	f.first = int64(len(f.head))
	return f, nil
}

// ReadAt reads from what is held, or asks for what is missing: a window for a
// small read, exactly the wanted bytes for a large one.
func (f *s3File) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("%w: negative offset", fs.ErrInvalid)
	}
	n := 0
	for n < len(p) {
		if err := f.usable(); err != nil {
			return n, pathError("read", f.path, err)
		}
		at := off + int64(n)
		if at >= f.info.size {
			return n, io.EOF
		}
		if m := f.held(p[n:], at); m > 0 {
			n += m
			continue
		}
		m, err := f.load(p[n:], at)
		n += m
		if err != nil {
			return n, pathError("read", f.path, err)
		}
	}
	return n, nil
}

func (f *s3File) usable() error {
	if f.ctx.Err() != nil {
		return context.Cause(f.ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	return nil
}

// held copies from memory, 0 if nothing there holds off.
func (f *s3File) held(p []byte, off int64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if off < int64(len(f.head)) {
		return copy(p, f.head[off:])
	}
	if f.tail.holds(off) {
		return copy(p, f.tail.data[off-f.tail.off:])
	}
	for i, w := range f.windows {
		if w.holds(off) {
			copy(f.windows[1:i+1], f.windows[:i])
			f.windows[0] = w
			return copy(p, w.data[off-w.off:])
		}
	}
	return 0
}

// load gets bytes at off from the store, either straight into p or as a block
// that is kept.
func (f *s3File) load(p []byte, off int64) (int, error) {
	tailOff := max(f.info.size-tailSize, f.first)
	if off < tailOff && len(p) >= readAhead {
		got, _, err := f.b.fetch(f.ctx, f.loc, span{off: off, dst: p}, f.info.etag)
		return len(got), err
	}
	f.fetching.Lock()
	defer f.fetching.Unlock()
	if n := f.held(p, off); n > 0 {
		return n, nil // another reader has brought it
	}
	from, length := off, int64(readAhead)
	if off >= tailOff {
		from, length = tailOff, tailSize
	}
	data, _, err := f.b.fetch(f.ctx, f.loc, span{off: from, length: length}, f.info.etag)
	if err != nil {
		return 0, err
	}
	k := block{off: from, data: data}
	if !k.holds(off) {
		return 0, io.ErrUnexpectedEOF
	}
	f.keep(k, off >= tailOff)
	return copy(p, k.data[off-k.off:]), nil
}

func (f *s3File) keep(k block, tail bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
	case tail:
		f.tail = k
	default:
		if len(f.windows) < maxWindows {
			f.windows = append(f.windows, block{})
		}
		copy(f.windows[1:], f.windows)
		f.windows[0] = k
	}
}

// Read reads on from the current position.
func (f *s3File) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	f.mu.Lock()
	pos := f.pos
	f.mu.Unlock()
	n, err := f.ReadAt(p, pos)
	f.mu.Lock()
	f.pos = pos + int64(n)
	f.mu.Unlock()
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Seek moves the position of Read; positions beyond the end are allowed.
func (f *s3File) Seek(offset int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += f.pos
	case io.SeekEnd:
		offset += f.info.size
	}
	if offset < 0 {
		return 0, &fs.PathError{Op: "seek", Path: f.path, Err: fs.ErrInvalid}
	}
	f.pos = offset
	return offset, nil
}

// Stat needs no request: the first answer told size and time.
func (f *s3File) Stat() (fs.FileInfo, error) {
	return fileInfo{Object{Path: f.path, Size: f.info.size, ModTime: f.info.mod}}, nil
}

// Close lets the blocks go. Closing twice is fs.ErrClosed, as for local files.
func (f *s3File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return &fs.PathError{Op: "close", Path: f.path, Err: fs.ErrClosed}
	}
	f.closed, f.head, f.tail, f.windows = true, nil, block{}, nil
	return nil
}

// take hands out the whole content, if it is held; ReadFile then needs no copy.
func (f *s3File) take() ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || int64(len(f.head)) != f.info.size {
		return nil, false
	}
	return slices.Clip(f.head), true
}
