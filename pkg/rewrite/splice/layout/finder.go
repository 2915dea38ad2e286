package layout

import (
	"bytes"
	"sync"

	"github.com/apache/iceberg-go"

	"compactor/pkg/rewrite/splice/format"
)

// Finder finds the fields of a table in its files. It remembers how the last file
// holds them, for the next one comes from the same writer as a rule. It is safe for
// concurrent use.
type Finder struct {
	Schema *iceberg.Schema
	// Names are for files without field ids; nil for none.
	Names iceberg.NameMapping

	mu    sync.Mutex
	known []byte // the schema of the last file, as it was stored
	last  *Layout
}

// Of is the layout of a file. The error is a refusal or wraps ErrCorrupt. Files may
// share a layout, which must not be changed.
func (f *Finder) Of(footer *format.FileMetaData) (*Layout, error) {
	if l := f.remembered(footer.RawSchema); l != nil {
		return l, l.fits(footer)
	}
	if f.Names != nil {
		if err := Identify(footer, f.Names); err != nil {
			return nil, err
		}
	}
	l, err := Of(f.Schema, footer)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known, f.last = footer.RawSchema, l

	return l, nil
}

func (f *Finder) remembered(raw []byte) *Layout {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil || len(raw) == 0 || !bytes.Equal(raw, f.known) {
		return nil
	}

	return f.last
}
