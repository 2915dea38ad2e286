package rewrite

import (
	"context"
	"maps"
	"slices"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

// findMisplaced remembers data files that a position-delete file of another
// partition names. By the specification such a delete has no effect, and
// iceberg-go does not apply it, although it writes such files itself when it
// deletes rows of an older partition spec; DuckDB does apply it. Whether the rows
// are there depends on who reads, and a rewrite would decide it for good, so
// these files are refused.
//
// What a delete file names is read from the file, and only where its bounds do
// not rule out that it reaches beyond its partition; each file is read once for
// all rounds.
func (s *fileSet) findMisplaced(ctx context.Context, storage iceio.IO, cache *manifestCache) error {
	s.misplaced, s.misplacing = make(map[string]string), make(map[string]bool)
	scopes := make([]string, len(s.data))
	for i, data := range s.data {
		scopes[i] = scope(data)
	}
	for _, e := range s.deletes.all {
		if !e.partitionWide(s.byPath) || !s.reachesBeyond(e, scopes) {
			continue
		}
		named, err := cache.namedBy(ctx, storage, e.path())
		if err != nil {
			return err
		}
		for _, path := range named {
			if data := s.byPath[path]; data != nil && scope(data) != scope(e) && e.seq >= data.seq {
				s.misplaced[path] = e.path()
				s.misplacing[e.path()] = true
			}
		}
	}

	return nil
}

// partitionWide tells position deletes that can name any file of their partition.
func (e *entry) partitionWide(live map[string]*entry) bool {
	return e.file.ContentType() == iceberg.EntryContentPosDeletes && !table.IsDeletionVector(e.file) && e.reference(live) == ""
}

// reachesBeyond reports whether the bounds of a delete file leave room for a
// data file of another partition.
func (s *fileSet) reachesBeyond(e *entry, scopes []string) bool {
	own := scope(e)
	for i, data := range s.data {
		if scopes[i] != own && e.seq >= data.seq && e.mayName(data.path()) {
			return true
		}
	}

	return false
}

// namedBy returns the data files that a position-delete file names.
func (c *manifestCache) namedBy(ctx context.Context, storage iceio.IO, path string) ([]string, error) {
	c.mu.Lock()
	named, known := c.named[path]
	c.mu.Unlock()
	if known {
		return named, nil
	}
	seen := make(map[string]bool)
	err := readPositions(ctx, storage, path, func(data string, _ int64) { seen[data] = true })
	if err != nil {
		return nil, err
	}
	named = slices.Sorted(maps.Keys(seen))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.named[path] = named

	return named, nil
}
