package maintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

// sweep deletes what only snapshots that are gone from a table could reach.
//
// A file is deleted if and only if all of this holds:
//
//   - it is named by a snapshot in gone: as its manifest list, as a manifest
//     of that list, as a live entry of such a manifest, or as a statistics
//     file of that snapshot;
//   - no snapshot in gone is a snapshot of the table as it was loaded after
//     the commit (the caller has checked that, and that no ref was lost);
//   - no snapshot of the table as it was loaded after the commit, by the
//     catalog's answer or by the metadata file, names it in any of these ways, and the table names it neither as its metadata file
//     nor in its metadata log. Two spellings of one object count as one name.
//
// A snapshot that is committed later inherits from one that stays, so that it
// cannot bring a file back that none of them names.
//
// Effects, in order: content files, then the manifests that named them, then
// statistics files and manifest lists, the lists of last last. Each part is
// begun only when the part before it is gone without a failure. So as long as
// a file is left, the way to it is left too, and a later run finds it.
type sweep struct {
	m      *Maintainer
	fio    icebergio.IO
	now    *table.Table     // loaded after the commit
	kept   []table.Snapshot // of now
	gone   []table.Snapshot // not in now
	stats  []string         // statistics files of gone
	last   map[int64]int64  // snapshots in gone whose lists are deleted last, see lostParents
	batch  int64            // live entries of dead manifests looked at per pass
	budget *DeleteBudget    // nil: no bound
	capped bool             // the budget has left files, set by run
	really bool             // false: count and name, delete nothing
	files  *FileSweep
}

const (
	// maxFailuresShown bounds how many failed deletes a report names.
	maxFailuresShown = 20
	// deleteSlice is how many deletes are asked for between two looks at the
	// context and two log lines; the store sends them in batches.
	deleteSlice = 4000
	// defaultSweepBatch bounds the memory of a pass to some hundred MiB.
	defaultSweepBatch = 1_000_000
)

// errDeletesFailed ends a sweep at the part that could not be deleted whole.
var errDeletesFailed = errors.New("some files could not be deleted")

// run finds and deletes. An error of a read leaves everything in place that
// was not yet deleted; nothing is concluded from a part of the table.
func (s *sweep) run(ctx context.Context) error {
	keptManifests, err := readLists(ctx, s.fio, s.kept, false)
	if err != nil {
		return err
	}
	goneManifests, err := readLists(ctx, s.fio, s.gone, true)
	if err != nil {
		return err
	}
	named := s.named(keptManifests)
	dead := slices.DeleteFunc(goneManifests.order, keptManifests.has)
	all := true
	for pass := range passes(dead, s.batch) {
		content, err := s.unreachable(ctx, pass, keptManifests.order, named)
		if err != nil {
			return err
		}
		s.files.ContentFiles += len(content)
		manifests := unnamed(manifestPaths(pass), named)
		s.files.Manifests += len(manifests)
		whole := s.part(ctx, content, true)
		whole = s.part(ctx, manifests, whole)
		all = all && whole
	}
	stats := unnamed(s.stats, named)
	s.files.Statistics += len(stats)
	lists, last := s.lists(named)
	s.files.ManifestLists += len(lists) + len(last)
	all = s.part(ctx, stats, all)
	all = s.part(ctx, lists, all)
	all = s.part(ctx, last, all)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("delete unreachable files: %w", context.Cause(ctx))
	case !all && (!s.capped || s.files.Failed > 0):
		return errDeletesFailed
	default:
		return nil
	}
}

// found says whether a later run finds what is left: it goes by a snapshot of
// the table whose parent is gone.
func (s *sweep) found() bool {
	return slices.ContainsFunc(s.gone, func(snap table.Snapshot) bool {
		_, is := s.last[snap.SnapshotID]

		return is
	})
}

// named is the set of objects, content files apart, that the table still
// names.
func (s *sweep) named(manifests *manifestSet) map[string]struct{} {
	meta := s.now.Metadata()
	named := make(map[string]struct{}, len(s.kept)+len(manifests.byKey))
	for key := range manifests.byKey {
		named[key] = struct{}{}
	}
	note := func(location string) { named[objectKey(location)] = struct{}{} }
	for _, k := range s.kept {
		note(k.ManifestList)
	}
	for st := range meta.Statistics() {
		note(st.StatisticsPath)
	}
	for st := range meta.PartitionStatistics() {
		note(st.StatisticsPath)
	}
	for e := range meta.PreviousFiles() {
		note(e.MetadataFile)
	}
	note(s.now.MetadataLocation())

	return named
}

// passes cuts the dead manifests into passes whose live entries fit in memory,
// by the counts in the manifest lists. Each pass reads the manifests that stay
// once, so that there is one pass unless very much has expired.
func passes(dead []iceberg.ManifestFile, batch int64) func(func([]iceberg.ManifestFile) bool) {
	if batch <= 0 {
		batch = defaultSweepBatch
	}

	return func(yield func([]iceberg.ManifestFile) bool) {
		first, sum := 0, int64(0)
		for i, m := range dead {
			n := int64(max(0, m.AddedDataFiles())) + int64(max(0, m.ExistingDataFiles()))
			if i > first && sum+n > batch {
				if !yield(dead[first:i]) {
					return
				}
				first, sum = i, 0
			}
			sum += n
		}
		if first < len(dead) {
			yield(dead[first:])
		}
	}
}

// unreachable returns the content files that dead manifests have as live
// entries and no manifest that stays has.
func (s *sweep) unreachable(ctx context.Context, dead, kept []iceberg.ManifestFile, named map[string]struct{}) ([]string, error) {
	candidates := map[string]string{}
	err := liveEntries(ctx, s.fio, dead, true, func(p string) {
		key := objectKey(p)
		if _, is := named[key]; !is {
			candidates[key] = p
		}
	})
	if err != nil || len(candidates) == 0 {
		return nil, err
	}
	if err := liveEntries(ctx, s.fio, kept, false, func(p string) { delete(candidates, objectKey(p)) }); err != nil {
		return nil, err
	}
	paths := make([]string, 0, len(candidates))
	for _, p := range candidates {
		paths = append(paths, p)
	}
	slices.Sort(paths)

	return paths, nil
}

func (s *sweep) lists(named map[string]struct{}) (first, last []string) {
	for _, snap := range s.gone {
		if _, is := s.last[snap.SnapshotID]; is {
			last = append(last, snap.ManifestList)
		} else {
			first = append(first, snap.ManifestList)
		}
	}

	return unnamed(first, named), unnamed(last, named)
}

// unnamed returns the paths of objects that are not in named, each object
// once.
func unnamed(paths []string, named map[string]struct{}) []string {
	var out []string
	seen := map[string]struct{}{}
	for _, p := range paths {
		key := objectKey(p)
		_, is := named[key]
		if _, twice := seen[key]; is || twice || p == "" {
			continue
		}
		seen[key] = struct{}{}
		out = append(out, p)
	}
	slices.Sort(out)

	return out
}

func manifestPaths(manifests []iceberg.ManifestFile) []string {
	paths := make([]string, len(manifests))
	for i, m := range manifests {
		paths[i] = m.FilePath()
	}

	return paths
}
