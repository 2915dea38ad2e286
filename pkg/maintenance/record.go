package maintenance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/apache/iceberg-go/table"

	icebergio "github.com/apache/iceberg-go/io"
)

// recorder remembers every file that staging a commit created, so that the
// manifests and the manifest list of a commit that certainly did not happen
// can be removed.
type recorder struct {
	mu    sync.Mutex
	paths []string
}

// bind returns tbl with a FileIO that reports each created path to r.
func (r *recorder) bind(tbl *table.Table) *table.Table {
	fsF := func(ctx context.Context) (icebergio.IO, error) {
		inner, err := tbl.FS(ctx)
		if err != nil {
			return nil, fmt.Errorf("open file io of %s: %w", tbl.Location(), err)
		}
		w, ok := inner.(icebergio.WriteFileIO)
		if !ok {
			return nil, fmt.Errorf("open file io of %s: it cannot write", tbl.Location())
		}

		return recordingIO{WriteFileIO: w, rec: r}, nil
	}

	return table.New(tbl.Identifier(), tbl.Metadata(), tbl.MetadataLocation(), fsF, noCatalog{})
}

func (r *recorder) add(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paths = append(r.paths, path)
}

func (r *recorder) created() []string {
	r.mu.Lock()
	defer r.mu.Unlock()

	return append([]string(nil), r.paths...)
}

// remove deletes what was recorded. A file that is gone already is no error.
func (r *recorder) remove(ctx context.Context, tbl *table.Table) error {
	paths := r.created()
	if len(paths) == 0 {
		return nil
	}
	fio, err := tbl.FS(ctx)
	if err != nil {
		return fmt.Errorf("open file io of %s: %w", tbl.Location(), err)
	}
	if bulk, ok := fio.(icebergio.BulkRemovableIO); ok {
		if _, err := bulk.DeleteFiles(ctx, paths); err != nil {
			return fmt.Errorf("delete staged metadata of %s: %w", tbl.Location(), err)
		}

		return nil
	}
	var errs []error
	for _, p := range paths {
		if err := fio.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("delete staged file %s: %w", p, err))
		}
	}

	return errors.Join(errs...)
}

// recordingIO forwards everything and notes what is created. The optional
// interfaces of the FileIO below it are not forwarded: staging needs none.
type recordingIO struct {
	icebergio.WriteFileIO
	rec *recorder
}

// Create notes the name and creates the file.
func (r recordingIO) Create(name string) (icebergio.FileWriter, error) {
	r.rec.add(name)

	return r.WriteFileIO.Create(name) //nolint:wrapcheck // A decorator hands the error on as it is.
}

// WriteFile notes the name and writes the file.
func (r recordingIO) WriteFile(name string, p []byte) error {
	r.rec.add(name)

	return r.WriteFileIO.WriteFile(name, p) //nolint:wrapcheck // A decorator hands the error on as it is.
}

// noCatalog stands where iceberg-go expects a catalog while a commit is only
// staged: the guarded commit alone talks to the catalog.
type noCatalog struct{}

var errNoCatalog = errors.New("staging does not talk to the catalog")

// LoadTable refuses.
func (noCatalog) LoadTable(context.Context, table.Identifier) (*table.Table, error) {
	return nil, errNoCatalog
}

// CommitTable refuses.
func (noCatalog) CommitTable(context.Context, table.Identifier, []table.Requirement,
	[]table.Update,
) (table.Metadata, string, error) {
	return nil, "", errNoCatalog
}
