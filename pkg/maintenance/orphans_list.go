package maintenance

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"

	"compactor/internal/store"
)

// lister is what orphan removal needs of a table's storage.
type lister interface {
	List(ctx context.Context, prefix string) iter.Seq2[store.Object, error]
	ReadFile(name string) ([]byte, error)
	DeleteFiles(ctx context.Context, paths []string) ([]string, error)
	DeletesDisabled() bool
}

// openLister opens the storage of a table, bound to ctx.
func openLister(ctx context.Context, tbl *table.Table) (lister, error) {
	fio, err := tbl.FS(ctx)
	if err != nil {
		return nil, fmt.Errorf("open file io of %s: %w", name(tbl), err)
	}
	l, ok := fio.(lister)
	if !ok {
		return nil, fmt.Errorf("open file io of %s: it cannot list objects", name(tbl))
	}

	return l, nil
}

// suspect is a listed object that nothing references.
type suspect struct {
	path string
	size int64
	mod  time.Time
}

// survey is one pass over the listed folders.
type survey struct {
	roots    []string // as they are listed
	refs     *references
	age      time.Duration
	memory   int64 // most bytes to keep suspects in; 0: no limit
	folders  []string
	rep      *OrphanReport
	suspects []suspect
	kept     int64            // bytes that suspects take
	perRoot  []int            // listed objects of each root
	metadata map[string][]int // folder to the unreferenced metadata files in it, as indexes into names
	names    []metadataFile
}

type metadataFile struct {
	path string
	mod  time.Time
}

// suspectOverhead is what a suspect takes beside the bytes of its path.
const suspectOverhead = 64

// list reads all roots once, and keeps only what may be an orphan.
func (s *survey) list(ctx context.Context, files lister) error {
	s.metadata = map[string][]int{}
	s.perRoot = make([]int, len(s.roots))
	for i, root := range s.roots {
		for o, err := range files.List(ctx, root) {
			if err != nil {
				return fmt.Errorf("list %s: %w", root, err)
			}
			s.perRoot[i]++
			s.rep.Listed++
			s.rep.ListedBytes += o.Size
			if err := s.classify(root, o); err != nil {
				return err
			}
		}
	}

	return nil
}

// classify decides about one object by its name and age alone. An object
// becomes a suspect only if none of these is true:
//
//	the table references it
//	it is a metadata.json file or a version hint
//	its name or one of its folders is hidden (_ or . first)
//	the store does not tell its age
//	it is younger than the age asked for, by the store's clock
func (s *survey) classify(root string, o store.Object) error {
	if s.refs.see(placeOf(o.Path).exact()) {
		s.rep.Referenced++

		return nil
	}
	relative := strings.Trim(strings.TrimPrefix(o.Path, root), "/")
	base := relative[strings.LastIndexByte(relative, '/')+1:]
	switch {
	case isMetadataFile(base):
		s.noteMetadata(o)
		s.rep.Kept.Metadata++
	case strings.HasPrefix(base, "version-hint"):
		s.rep.Kept.Metadata++
	case strings.HasSuffix(o.Path, "/"), s.hidden(relative):
		s.rep.Kept.Hidden++
	case o.ModTime.IsZero() || o.Listed.IsZero():
		s.rep.Kept.UnknownAge++
	case o.Listed.Sub(o.ModTime) < s.age:
		s.rep.Kept.Young++
	default:
		s.suspects = append(s.suspects, suspect{path: o.Path, size: o.Size, mod: o.ModTime})
		s.kept += int64(len(o.Path)) + suspectOverhead
		if s.memory > 0 && s.kept > s.memory {
			return fmt.Errorf("more than %d files look like orphans, which is more than fits into the memory budget: "+
				"at least %s are needed: %w", len(s.suspects), size(memoryShare*s.kept), ErrRefused)
		}
	}

	return nil
}

func isMetadataFile(base string) bool {
	return strings.HasSuffix(base, ".metadata.json") || strings.HasSuffix(base, ".metadata.json.gz") ||
		strings.HasSuffix(base, ".metadata.json.zst")
}

func (s *survey) noteMetadata(o store.Object) {
	dir := o.Path[:strings.LastIndexByte(o.Path, '/')]
	s.metadata[dir] = append(s.metadata[dir], len(s.names))
	s.names = append(s.names, metadataFile{path: o.Path, mod: o.ModTime})
}

// hidden says whether a part of the path below the root begins with _ or .
// and is not the folder of a partition whose field has such a name.
func (s *survey) hidden(relative string) bool {
	for part := range strings.SplitSeq(relative, "/") {
		if part == "" || part[0] != '_' && part[0] != '.' {
			continue
		}
		if !slices.ContainsFunc(s.folders, func(f string) bool { return strings.HasPrefix(part, f) }) {
			return true
		}
	}

	return false
}

// partitionFolders are the beginnings of partition folders that look hidden:
// "_day=" for a partition field called _day.
func partitionFolders(meta table.Metadata) []string {
	var out []string
	for _, spec := range meta.PartitionSpecs() {
		for _, f := range spec.Fields() {
			if f.Name != "" && (f.Name[0] == '_' || f.Name[0] == '.') {
				out = append(out, f.Name+"=", url.QueryEscape(f.Name)+"=")
			}
		}
	}

	return out
}

// judge turns suspects into orphans: those that nothing else speaks for. It
// returns them sorted by path.
//
// A suspect stays when a file that the table references under another name
// was not found: the reference may mean this very object. In the same store,
// where only slashes or escapes differ, the object is kept; where the stores
// differ, nothing is deleted at all.
func (s *survey) judge(skip []string) ([]suspect, error) {
	if s.refs.inside > 0 && s.refs.found == 0 {
		return nil, fmt.Errorf("none of the %d live files of the table was found in the listing of %s: "+
			"the listing is not of this table, or spells its names otherwise: %w",
			s.refs.inside, strings.Join(s.roots, ", "), ErrRefused)
	}
	missing := s.refs.missing()
	var orphans []suspect
	var foreign []string
	for _, c := range s.suspects {
		p := placeOf(c.path)
		if slices.ContainsFunc(skip, func(tree string) bool { return p.below(folderOf(tree)) }) {
			s.rep.Kept.OtherTables++

			continue
		}
		switch where, alike := alikeIn(missing, p); {
		case !alike:
			orphans = append(orphans, c)
		case where == p.store:
			s.rep.Kept.LookAlikes++
		default:
			foreign = append(foreign, fmt.Sprintf("%s (referenced in %s)", c.path, where))
		}
	}
	if len(foreign) > 0 {
		return nil, fmt.Errorf("%d files may be live under another name of their store, so that nothing is deleted: %s: %w",
			len(foreign), shorten(foreign), ErrRefused)
	}
	slices.SortFunc(orphans, func(a, b suspect) int { return strings.Compare(a.path, b.path) })

	return orphans, nil
}

func alikeIn[V any](set map[uint64]V, p place) (V, bool) {
	for _, h := range p.looseForms() {
		if v, ok := set[h]; ok {
			return v, true
		}
	}
	var none V

	return none, false
}

// shorten names the first few of a list.
func shorten(list []string) string {
	const most = 20
	if len(list) <= most {
		return strings.Join(list, ", ")
	}

	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}
