package maintenance

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"
)

// referenceReaders is how many manifest lists or manifests are read at once.
const referenceReaders = 8

// references is every file that the table's metadata names: metadata files,
// statistics, manifest lists, manifests, and the live entries of every
// snapshot. A path takes 16 bytes, whatever its length. Reading a newer state
// of the same table only adds what is new: manifest lists and manifests never
// change, so each is read once.
type references struct {
	roots []place // listed folders; what is outside of them is remembered by folder

	mu      sync.Mutex
	files   map[pathHash]reference
	stores  []string
	lists   map[pathHash]struct{}
	read    map[pathHash]struct{} // manifests
	inside  int                   // live files under the roots
	found   int                   // of these, seen in the listing
	perRoot map[place]int         // files under each root
	outside map[string]string     // store to the longest common folder
	fresh   map[uint64]struct{}   // loose identities added by a later read; nil before
}

type reference struct {
	loose uint64
	store uint16
	live  bool // a manifest or content file: it has to exist
	in    bool // below the listed roots
	seen  bool // in the listing, by its exact name
}

func newReferences(roots []place) *references {
	return &references{
		roots: roots, files: map[pathHash]reference{}, outside: map[string]string{},
		lists: map[pathHash]struct{}{}, read: map[pathHash]struct{}{}, perRoot: map[place]int{},
	}
}

// load adds what the table names now. The catalog's answer and the metadata
// file that it points to are both read: a catalog that leaves snapshots out of
// its answer must not make their files look like nobody's. An error leaves the
// set incomplete, and nothing may be concluded from it.
func (r *references) load(ctx context.Context, tbl *table.Table) error {
	metas := []table.Metadata{tbl.Metadata()}
	if loc := tbl.MetadataLocation(); loc != "" {
		stored, err := table.NewFromLocation(ctx, tbl.Identifier(), loc, tbl.FS, noCatalog{})
		if err != nil {
			return fmt.Errorf("read metadata file %s: %w", loc, err)
		}
		if stored.Metadata().TableUUID() != tbl.Metadata().TableUUID() {
			return fmt.Errorf("metadata file %s is of table %s, the catalog says %s: %w", loc,
				stored.Metadata().TableUUID(), tbl.Metadata().TableUUID(), ErrRefused)
		}
		metas = append(metas, stored.Metadata())
		r.add(loc, false)
	}
	fio, err := tbl.FS(ctx)
	if err != nil {
		return fmt.Errorf("open file io of %s: %w", name(tbl), err)
	}
	for _, meta := range metas {
		r.addMetadata(meta)
	}
	manifests, err := r.newManifests(ctx, fio, metas)
	if err != nil {
		return err
	}

	return r.readAll(ctx, fio, manifests)
}

func (r *references) addMetadata(meta table.Metadata) {
	for e := range meta.PreviousFiles() {
		r.add(e.MetadataFile, false)
	}
	for s := range meta.Statistics() {
		r.add(s.StatisticsPath, false)
	}
	for s := range meta.PartitionStatistics() {
		r.add(s.StatisticsPath, false)
	}
	for _, s := range meta.Snapshots() {
		r.add(s.ManifestList, true)
	}
}

// newManifests reads the manifest lists not yet read and returns the manifests
// not yet read.
func (r *references) newManifests(ctx context.Context, fio icebergio.IO, metas []table.Metadata) ([]iceberg.ManifestFile, error) {
	var out []iceberg.ManifestFile
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(referenceReaders)
	for _, meta := range metas {
		for _, s := range meta.Snapshots() {
			if s.ManifestList != "" && !r.claimOnce(r.lists, s.ManifestList) {
				continue
			}
			work.Go(func() error {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				manifests, err := s.Manifests(fio)
				if err != nil {
					return fmt.Errorf("read manifest list of snapshot %d: %w", s.SnapshotID, err)
				}
				for _, m := range manifests {
					if r.claimOnce(r.read, m.FilePath()) {
						r.add(m.FilePath(), true)
						r.mu.Lock()
						out = append(out, m)
						r.mu.Unlock()
					}
				}

				return nil
			})
		}
	}
	if err := work.Wait(); err != nil {
		return nil, fmt.Errorf("collect referenced files: %w", err)
	}

	return out, nil
}

// claimOnce says whether the path is new to the set, and puts it there.
func (r *references) claimOnce(set map[pathHash]struct{}, path string) bool {
	h := placeOf(path).exact()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, done := set[h]; done {
		return false
	}
	set[h] = struct{}{}

	return true
}

func (r *references) readAll(ctx context.Context, fio icebergio.IO, manifests []iceberg.ManifestFile) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(referenceReaders)
	for _, m := range manifests {
		work.Go(func() error {
			// Entries marked as deleted do not count: the snapshot that still
			// had the file names it in a manifest of its own as long as it lives.
			for e, err := range iceberg.EntriesWithProjection(fio, m, true, iceberg.ManifestEntryProjection{}) {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err != nil {
					return fmt.Errorf("read manifest %s: %w", m.FilePath(), err)
				}
				r.add(e.DataFile().FilePath(), true)
				if ref := e.DataFile().ReferencedDataFile(); ref != nil {
					r.add(*ref, false)
				}
			}

			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return fmt.Errorf("collect referenced files: %w", err)
	}

	return nil
}

// add puts one path into the set.
func (r *references) add(path string, live bool) {
	if path == "" {
		return
	}
	p := placeOf(path)
	h, l, in := p.exact(), loose(p.key), r.within(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.files[h]; ok {
		if live && !old.live {
			old.live = true
			r.files[h] = old
			r.count(old)
		}

		return
	}
	ref := reference{loose: l, store: r.storeIndex(p.store), live: live, in: in}
	r.files[h] = ref
	r.count(ref)
	if r.fresh != nil {
		r.fresh[l] = struct{}{}
	}
	if !in {
		r.noteOutside(p)
	}
	for _, root := range r.roots {
		if p.below(root) {
			r.perRoot[root]++
		}
	}
}

func (r *references) count(ref reference) {
	if ref.live && ref.in {
		r.inside++
	}
}

func (r *references) within(p place) bool {
	for _, root := range r.roots {
		if p.below(root) {
			return true
		}
	}

	return false
}

func (r *references) storeIndex(store string) uint16 {
	for i, s := range r.stores {
		if s == store {
			return uint16(i)
		}
	}
	r.stores = append(r.stores, store)

	return uint16(len(r.stores) - 1)
}

func (r *references) noteOutside(p place) {
	folder := p.key[:strings.LastIndexByte("/"+p.key, '/')]
	common, known := r.outside[p.store]
	if !known {
		r.outside[p.store] = folder

		return
	}
	for common != "" && !(place{p.store, folder}).below(place{p.store, common}) {
		common = common[:max(0, strings.LastIndexByte(common, '/'))]
	}
	r.outside[p.store] = common
}

// see marks a listed object that is referenced by exactly its name.
func (r *references) see(h pathHash) bool {
	ref, ok := r.files[h]
	if !ok {
		return false
	}
	if !ref.seen {
		ref.seen = true
		r.files[h] = ref
		if ref.live && ref.in {
			r.found++
		}
	}

	return true
}

// missing maps the loose identity of each referenced file that the listing
// did not show to the store that the reference names.
func (r *references) missing() map[uint64]string {
	out := map[uint64]string{}
	for _, ref := range r.files {
		if !ref.seen {
			out[ref.loose] = r.stores[ref.store]
		}
	}

	return out
}
