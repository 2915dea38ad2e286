package rowsort

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// fileBuffer is what is written and read at once.
const fileBuffer = 128 << 10

// File holds a run: it is written once from the beginning, rewound, and read.
type File interface {
	io.ReadWriteSeeker
	io.Closer
}

// TempFiles makes files in a folder, the system's own for temporary files when
// it is empty. A file loses its name at once where the system allows that, so
// that it is gone when it is closed or the process ends, however it ends.
func TempFiles(dir string) func() (File, error) {
	return func() (File, error) {
		f, err := os.CreateTemp(dir, "compactor-sort-*")
		if err != nil {
			return nil, fmt.Errorf("create file for sorted rows: %w", err)
		}
		if os.Remove(f.Name()) == nil {
			return f, nil
		}

		return named{f}, nil
	}
}

// named is a file that keeps its name while it is open.
type named struct{ *os.File }

// Close closes and removes the file.
func (n named) Close() error {
	return errors.Join(n.File.Close(), os.Remove(n.Name()))
}

// run is a file of sorted batches.
type run struct {
	file   File
	schema *arrow.Schema
	buffer *bufio.Writer
	writer *ipc.Writer
	reader *ipc.Reader
	bytes  int64
}

func newRun(create func() (File, error), schema *arrow.Schema) (*run, error) {
	f, err := create()
	if err != nil {
		return nil, err
	}
	r := &run{file: f, schema: schema, buffer: bufio.NewWriterSize(f, fileBuffer)}
	r.writer = ipc.NewWriter(r.buffer, ipc.WithSchema(schema), ipc.WithLZ4(), ipc.WithCompressConcurrency(1))

	return r, nil
}

func (r *run) write(rec arrow.RecordBatch) error {
	if err := r.writer.Write(rec); err != nil {
		return fmt.Errorf("write sorted rows to temporary file: %w", err)
	}

	return nil
}

// finish ends the writing; the size is known then.
func (r *run) finish() error {
	err := r.writer.Close()
	r.writer = nil
	if err = errors.Join(err, r.buffer.Flush()); err != nil {
		return fmt.Errorf("write sorted rows to temporary file: %w", err)
	}
	r.buffer = nil
	if r.bytes, err = r.file.Seek(0, io.SeekEnd); err != nil {
		return fmt.Errorf("measure temporary file: %w", err)
	}

	return nil
}

func (r *run) open() error {
	if _, err := r.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("rewind temporary file: %w", err)
	}
	reader, err := ipc.NewReader(bufio.NewReaderSize(r.file, fileBuffer), ipc.WithSchema(r.schema))
	if err != nil {
		return fmt.Errorf("read sorted rows from temporary file: %w", err)
	}
	r.reader = reader

	return nil
}

// next returns the next batch, which belongs to the caller; nil at the end.
func (r *run) next() (arrow.RecordBatch, error) {
	if r.reader == nil || !r.reader.Next() {
		if r.reader != nil && r.reader.Err() != nil && !errors.Is(r.reader.Err(), io.EOF) {
			return nil, fmt.Errorf("read sorted rows from temporary file: %w", r.reader.Err())
		}

		return nil, nil
	}
	rec := r.reader.RecordBatch()
	rec.Retain()

	return rec, nil
}

func (r *run) close() error {
	if r.reader != nil {
		r.reader.Release()
		r.reader = nil
	}
	if r.writer != nil {
		_ = r.writer.Close() // what was written is not wanted any more
		r.writer = nil
	}
	if err := r.file.Close(); err != nil {
		return fmt.Errorf("remove temporary file: %w", err)
	}

	return nil
}

func closeRuns(runs []*run) error {
	var failed []error
	for _, r := range runs {
		failed = append(failed, r.close())
	}

	return errors.Join(failed...)
}
