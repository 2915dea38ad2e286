package rewrite

import (
	"context"
	"fmt"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"
)

// keyForms are the columns of equality-delete files as these store them, by path
// and field id.
type keyForms map[string]map[int]arrow.DataType

// readKeyForms reads the footers of the equality deletes that apply to files.
func readKeyForms(ctx context.Context, tbl *table.Table, storage iceio.IO, files []File) (keyForms, error) {
	out := make(keyForms)
	var mu sync.Mutex
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(inspectors)
	for _, d := range equalityDeletes(files) {
		work.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			var forms map[int]arrow.DataType
			err := guarded(func() (err error) {
				forms, err = keyFormsOf(tbl, storage, d.FilePath())

				return err
			})
			if err != nil {
				return fmt.Errorf("equality deletes %s: %w", d.FilePath(), err)
			}
			mu.Lock()
			defer mu.Unlock()
			out[d.FilePath()] = forms

			return nil
		})
	}

	return out, work.Wait() //nolint:wrapcheck // wrapped with the file above
}

// equalityDeletes are those of several files, each once.
func equalityDeletes(files []File) []iceberg.DataFile {
	var out []iceberg.DataFile
	seen := make(map[string]bool)
	for _, f := range files {
		for _, d := range f.Deletes {
			if d.ContentType() == iceberg.EntryContentEqDeletes && !seen[d.FilePath()] {
				seen[d.FilePath()] = true
				out = append(out, d)
			}
		}
	}

	return out
}

func keyFormsOf(tbl *table.Table, storage iceio.IO, path string) (map[int]arrow.DataType, error) {
	footer, err := footerOf(storage, path)
	if err != nil {
		return nil, err
	}
	stored, err := readFileSchema(tbl, footer)
	if err != nil {
		return nil, err
	}
	prefixed, err := prefixedOf(tbl, footer, stored)
	for _, i := range prefixed {
		stored.forms[stored.leaves[i]] = arrow.Null // deletes are not converted: no form is the same
	}

	return stored.forms, err
}

// arrowLeaves appends the types of the columns below fields.
func arrowLeaves(fields []arrow.Field, to []arrow.DataType) []arrow.DataType {
	for _, field := range fields {
		if nested, is := field.Type.(arrow.NestedType); is {
			to = arrowLeaves(nested.Fields(), to)
		} else {
			to = append(to, field.Type)
		}
	}

	return to
}

// sameForm reports whether iceberg-go (v0.7.0) finds equal values of two stored
// types equal: it compares the bytes as they are stored, so that a 32-bit number
// never equals a 64-bit one, nor a timestamp one of another unit.
func sameForm(a, b arrow.DataType) bool {
	if a == nil || b == nil || a.ID() == arrow.DICTIONARY {
		return false
	}
	if textual(a) && textual(b) {
		return true
	}
	if a.ID() != b.ID() {
		return false
	}
	switch a := a.(type) {
	case *arrow.TimestampType:
		other, is := b.(*arrow.TimestampType)

		return is && a.Unit == other.Unit
	case arrow.DecimalType:
		other, is := b.(arrow.DecimalType)

		return is && a.GetScale() == other.GetScale()
	default:
		return arrow.TypeEqual(a, b)
	}
}

func textual(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY:
		return true
	default:
		return false
	}
}
