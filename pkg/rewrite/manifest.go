package rewrite

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"
)

// manifestReaders is how many manifests are read at once.
const manifestReaders = 8

// filePathFieldID is the reserved field id of file_path in position deletes.
const filePathFieldID = 2147483546

// entry is one live file of a snapshot as its manifest describes it, without
// the column statistics, which are most of a manifest's memory.
type entry struct {
	file iceberg.DataFile
	seq  int64  // data sequence number
	key  string // typed partition tuple
	// lowPath and highPath bound file_path in a position-delete file.
	lowPath, highPath string
	bounded           bool
	asked             bool // nans was read
	// nans has the counts of NaNs of a data file by field id, once a plan has asked
	// for them. Files with the same counts share it; it is not to be changed.
	nans     map[int]int64
	manifest iceberg.ManifestFile
}

func (e *entry) path() string { return e.file.FilePath() }

func (e *entry) spec() int { return int(e.file.SpecID()) }

// manifestCache keeps parsed manifests by path. A manifest never changes once
// it is written, so a refresh reads only those it has not seen.
type manifestCache struct {
	mu     sync.Mutex
	parsed map[string][]*entry
	named  map[string][]string // position-delete file → the data files it names
	reads  int                 // manifests read from storage, for tests and for the report
	nans   nanShare
}

func newManifestCache() *manifestCache {
	return &manifestCache{parsed: make(map[string][]*entry), named: make(map[string][]string)}
}

func (c *manifestCache) get(path string) ([]*entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entries, ok := c.parsed[path]

	return entries, ok
}

func (c *manifestCache) put(path string, entries []*entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parsed[path] = entries
	c.reads++
}

// keepOnly forgets manifests that the newest snapshot no longer lists.
func (c *manifestCache) keepOnly(manifests []iceberg.ManifestFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := make(map[string][]*entry, len(manifests))
	for _, m := range manifests {
		if entries, ok := c.parsed[m.FilePath()]; ok {
			kept[m.FilePath()] = entries
		}
	}
	c.parsed = kept
}

// fileSet is every live file of one snapshot.
type fileSet struct {
	data    []*entry
	byPath  map[string]*entry
	deletes *deleteIndex
	// misplaced has the data files that a delete file of another partition names,
	// and that delete file.
	misplaced  map[string]string
	misplacing map[string]bool // such delete files
	// dangling are delete files that apply to no live data file.
	dangling []iceberg.DataFile
}

// loadFiles reads the live files of a snapshot, in manifest order.
func loadFiles(ctx context.Context, tbl *table.Table, snap *table.Snapshot, cache *manifestCache) (*fileSet, error) {
	fs, err := tbl.FS(ctx)
	if err != nil {
		return nil, fmt.Errorf("open storage of table: %w", err)
	}
	manifests, err := snap.Manifests(fs)
	if err != nil {
		return nil, fmt.Errorf("read manifest list of snapshot %d: %w", snap.SnapshotID, err)
	}
	parsed := make([][]*entry, len(manifests))
	whole := ctx
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(manifestReaders)
	for i, m := range manifests {
		work.Go(func() error {
			entries, err := cache.load(ctx, tbl, fs, m)
			parsed[i] = entries

			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, fmt.Errorf("plan snapshot %d: %w", snap.SnapshotID, err)
	}
	cache.keepOnly(manifests)
	set, err := newFileSet(tbl.Metadata(), parsed)
	if err != nil {
		return nil, err
	}

	if err := set.findMisplaced(whole, fs, cache); err != nil {
		return nil, err
	}

	return set, set.findDangling(tbl)
}

func newFileSet(meta table.Metadata, parsed [][]*entry) (*fileSet, error) {
	set := &fileSet{byPath: make(map[string]*entry), deletes: newDeleteIndex()}
	var deletes []*entry
	for _, entries := range parsed {
		for _, e := range entries {
			if e.file.ContentType() != iceberg.EntryContentData {
				deletes = append(deletes, e)

				continue
			}
			if _, twice := set.byPath[e.path()]; twice {
				return nil, fmt.Errorf("data file %s: listed twice in one snapshot", e.path())
			}
			set.byPath[e.path()] = e
			set.data = append(set.data, e)
		}
	}
	for _, e := range deletes {
		if err := set.deletes.add(e, meta, set.byPath); err != nil {
			return nil, err
		}
	}

	return set, nil
}

func (c *manifestCache) load(ctx context.Context, tbl *table.Table, fs iceio.IO, m iceberg.ManifestFile) ([]*entry, error) {
	if entries, ok := c.get(m.FilePath()); ok {
		return entries, nil
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if len(m.KeyMetadata()) > 0 {
		return nil, fmt.Errorf("read manifest %s: it is encrypted", m.FilePath())
	}
	entries, err := readManifest(tbl, fs, m)
	if err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", m.FilePath(), err)
	}
	c.put(m.FilePath(), entries)

	return entries, nil
}

func readManifest(tbl *table.Table, fs iceio.IO, m iceberg.ManifestFile) ([]*entry, error) {
	spec := tbl.Metadata().PartitionSpecByID(int(m.PartitionSpecID()))
	if spec == nil {
		return nil, fmt.Errorf("partition spec %d: not in the table metadata", m.PartitionSpecID())
	}
	wantBounds := m.ManifestContent() == iceberg.ManifestContentDeletes
	projection := iceberg.ManifestEntryProjection{IncludePruningStats: wantBounds}
	keys := make(map[string]string)
	var out []*entry
	for me, err := range iceberg.EntriesWithProjection(fs, m, true, projection) {
		if err != nil {
			return nil, err
		}
		df := me.DataFile()
		e := &entry{file: df, seq: max(0, me.SequenceNum()), key: partitionKey(*spec, df.Partition()), manifest: m}
		if shared, ok := keys[e.key]; ok {
			e.key = shared
		} else {
			keys[e.key] = e.key
		}
		if wantBounds {
			e.bound(df)
			e.file = iceberg.DataFileWithoutColumnStats(df)
		}
		e.file = canonical(e.file)
		out = append(out, e)
	}

	return out, nil
}

// bound remembers the range of data files a position-delete file talks about.
func (e *entry) bound(df iceberg.DataFile) {
	low, hasLow := df.LowerBoundValues()[filePathFieldID]
	high, hasHigh := df.UpperBoundValues()[filePathFieldID]
	if hasLow && hasHigh {
		e.lowPath, e.highPath, e.bounded = string(low), string(high), true
	}
}

// ratio is part of the whole, 0 when there is no whole.
func ratio(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}

	return math.Min(1, float64(part)/float64(whole))
}
