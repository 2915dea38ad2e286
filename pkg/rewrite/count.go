package rewrite

import (
	"context"
	"fmt"

	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/table/dv"
)

// counter counts the deleted rows of groups without the engine's help: deletion
// vectors by the count in their manifest entry, position deletes by a reader of
// its own, equality deletes by a filter of its own.
type counter struct {
	tbl     *table.Table
	storage iceio.IO
}

// positional counts rows of a group without equality deletes.
func (c counter) positional(ctx context.Context, g Group) (int64, error) {
	marks, err := c.marks(ctx, g, false)
	if err != nil {
		return 0, err
	}
	var deleted int64
	for _, f := range g.Files {
		if v := f.applied.vector; v != nil {
			deleted += v.file.Count()
		} else if m := marks[f.Data.FilePath()]; m != nil {
			deleted += m.set
		}
	}

	return deleted, nil
}

// marks reads which rows position deletes remove, by data file. With vectors it
// does the same for deletion vectors, whose rows equality deletes may hit too.
func (c counter) marks(ctx context.Context, g Group, vectors bool) (map[string]*bitset, error) {
	marks := make(map[string]*bitset)
	targets := make(map[string]map[string]*bitset) // delete file → the data files it applies to
	for _, f := range g.Files {
		if f.applied.vector != nil && vectors {
			m, err := c.vectorMarks(f)
			if err != nil {
				return nil, err
			}
			marks[f.Data.FilePath()] = m
		}
		for _, d := range f.applied.positional {
			path := f.Data.FilePath()
			if marks[path] == nil {
				marks[path] = newBitset(f.Data.Count())
			}
			if targets[d.path()] == nil {
				targets[d.path()] = make(map[string]*bitset)
			}
			targets[d.path()][path] = marks[path]
		}
	}
	for deletes, files := range targets {
		err := readPositions(ctx, c.storage, deletes, func(path string, pos int64) {
			if m := files[path]; m != nil {
				m.mark(pos)
			}
		})
		if err != nil {
			return nil, err
		}
	}

	return marks, nil
}

func (c counter) vectorMarks(f File) (*bitset, error) {
	bitmap, err := dv.ReadDV(c.storage, f.applied.vector.file)
	if err != nil {
		return nil, fmt.Errorf("read deletion vector of %s: %w", f.Data.FilePath(), err)
	}
	m := newBitset(f.Data.Count())
	for pos := range f.Data.Count() {
		if bitmap.Contains(uint64(pos)) {
			m.mark(pos)
		}
	}

	return m, nil
}
