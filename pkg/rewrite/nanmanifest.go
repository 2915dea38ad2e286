package rewrite

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"
)

// readNaNs reads the counts of NaNs of the files of the groups. Reading what
// manifests say about columns takes several times as long as reading the rest, so
// it is left to those manifests that have files to rewrite.
func (p *Plan) readNaNs(ctx context.Context, tbl *table.Table) error {
	fields := floatFields(nil, tbl.Schema().Fields())
	if len(fields) == 0 || p.sorting != nil { // what is sorted is decoded
		return nil
	}
	wanted := make(map[iceberg.ManifestFile]map[string]*entry)
	for _, g := range p.Groups {
		for _, f := range g.Files {
			if f.entry.asked {
				continue
			}
			m := f.entry.manifest
			if wanted[m] == nil {
				wanted[m] = make(map[string]*entry)
			}
			wanted[m][f.Data.FilePath()] = f.entry
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	storage, err := tbl.FS(ctx)
	if err != nil {
		return fmt.Errorf("open storage of table: %w", err)
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(manifestReaders)
	for m, entries := range wanted {
		work.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}

			return p.cache.nans.readManifest(storage, m, nanWish{entries, fields})
		})
	}

	return work.Wait() //nolint:wrapcheck // wrapped where it was made
}

// nanWish says for which files and columns counts are wanted.
type nanWish struct {
	entries map[string]*entry
	fields  []int
}

func (s *nanShare) readManifest(storage iceio.IO, m iceberg.ManifestFile, wish nanWish) error {
	projection := iceberg.ManifestEntryProjection{IncludePruningStats: true}
	for me, err := range iceberg.EntriesWithProjection(storage, m, true, projection) {
		if err != nil {
			return fmt.Errorf("read manifest %s: %w", m.FilePath(), err)
		}
		if e := wish.entries[me.DataFile().FilePath()]; e != nil {
			e.nans, e.asked = s.read(me.DataFile(), wish.fields), true
		}
	}
	return nil
}

// nanShare keeps counts of NaNs once. Most files of a table have the same ones,
// those of no NaN.
type nanShare struct {
	mu    sync.Mutex
	known map[string]map[int]int64
}

// floatFields are the columns whose NaNs are counted (nanCounter).
func floatFields(out []int, fields []iceberg.NestedField) []int {
	for _, f := range fields {
		switch t := f.Type.(type) {
		case *iceberg.StructType:
			out = floatFields(out, t.FieldList)
		case iceberg.Float32Type, iceberg.Float64Type:
			out = append(out, f.ID)
		}
	}

	return out
}

// read is nil for a file that has no counts. A count that cannot be one counts as
// missing.
func (s *nanShare) read(df iceberg.DataFile, fields []int) map[int]int64 {
	counts := df.NaNValueCounts()
	if len(counts) == 0 {
		return nil
	}
	var key []byte
	out := make(map[int]int64, len(fields))
	for _, id := range fields {
		if n, ok := counts[id]; ok && n >= 0 && n <= df.Count() {
			key = binary.AppendVarint(binary.AppendVarint(key, int64(id)), n)
			out[id] = n
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared, ok := s.known[string(key)]; ok {
		return shared
	}
	if s.known == nil {
		s.known = make(map[string]map[int]int64)
	}
	s.known[string(key)] = out

	return out
}
