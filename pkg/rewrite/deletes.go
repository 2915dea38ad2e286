package rewrite

import (
	"fmt"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// deleteIndex answers which delete files apply to a data file, by the rules of
// the Iceberg specification (section "Scan Planning"):
//
//   - A deletion vector applies to the data file it names and replaces every
//     position-delete file for it.
//   - A position-delete file applies to files of its own spec and partition
//     whose data sequence number is not above its own; one that names a single
//     data file applies to that file alone.
//   - An equality-delete file applies to files of its own spec and partition, or
//     to every file when its spec is unpartitioned, whose data sequence number
//     is below its own.
type deleteIndex struct {
	all        []*entry
	vectors    map[string][]*entry
	byPath     map[string][]*entry
	positional map[string][]*entry
	equality   map[string][]*entry
	global     []*entry
}

func newDeleteIndex() *deleteIndex {
	return &deleteIndex{
		vectors:    make(map[string][]*entry),
		byPath:     make(map[string][]*entry),
		positional: make(map[string][]*entry),
		equality:   make(map[string][]*entry),
	}
}

// applied is what applies to one data file.
type applied struct {
	vector     *entry
	positional []*entry
	equality   []*entry
}

func (a applied) files() []iceberg.DataFile {
	var out []iceberg.DataFile
	for _, e := range a.entries() {
		out = append(out, e.file)
	}

	return out
}

func (a applied) entries() []*entry {
	var out []*entry
	if a.vector != nil {
		out = append(out, a.vector)
	}

	return append(append(out, a.positional...), a.equality...)
}

// scope is the part of a table that a partition-wide delete can reach.
func scope(e *entry) string { return fmt.Sprintf("%d/%s", e.spec(), e.key) }

func (x *deleteIndex) add(e *entry, meta table.Metadata, live map[string]*entry) error {
	x.all = append(x.all, e)
	switch {
	case table.IsDeletionVector(e.file):
		ref := e.file.ReferencedDataFile()
		if ref == nil {
			return fmt.Errorf("deletion vector %s: it names no data file", e.path())
		}
		x.vectors[*ref] = append(x.vectors[*ref], e)
	case e.file.ContentType() == iceberg.EntryContentPosDeletes:
		if ref := e.reference(live); ref != "" {
			x.byPath[ref] = append(x.byPath[ref], e)
		} else {
			x.positional[scope(e)] = append(x.positional[scope(e)], e)
		}
	default:
		spec := meta.PartitionSpecByID(e.spec())
		if spec != nil && spec.IsUnpartitioned() {
			x.global = append(x.global, e)
		} else {
			x.equality[scope(e)] = append(x.equality[scope(e)], e)
		}
	}

	return nil
}

// reference is the one data file a position-delete file talks about, or empty.
// Equal bounds are believed only when they name a live data file: a writer may
// have truncated them, and a delete that is overlooked brings rows back.
func (e *entry) reference(live map[string]*entry) string {
	if ref := e.file.ReferencedDataFile(); ref != nil {
		return *ref
	}
	if e.bounded && e.lowPath == e.highPath {
		if _, ok := live[e.lowPath]; ok {
			return e.lowPath
		}
	}

	return ""
}

// fileScoped reports whether e deletes rows of a single data file, so that its
// record count says how many of that file's rows are gone.
func (e *entry) fileScoped(live map[string]*entry) bool {
	return e.file.ContentType() == iceberg.EntryContentPosDeletes && e.reference(live) != ""
}

// forFile computes what applies to one data file.
func (x *deleteIndex) forFile(data *entry) (applied, error) {
	var out applied
	if len(x.all) == 0 {
		return out, nil
	}
	for _, v := range x.vectors[data.path()] {
		if v.seq < data.seq {
			continue
		}
		if out.vector != nil {
			return out, fmt.Errorf("data file %s: two deletion vectors, %s and %s", data.path(), out.vector.path(), v.path())
		}
		out.vector = v
	}
	if out.vector == nil {
		out.positional = x.positionalFor(data)
	}
	for _, e := range append(x.global[:len(x.global):len(x.global)], x.equality[scope(data)]...) {
		if data.seq < e.seq {
			out.equality = append(out.equality, e)
		}
	}

	return out, nil
}

func (x *deleteIndex) positionalFor(data *entry) []*entry {
	var out []*entry
	for _, e := range x.byPath[data.path()] {
		if e.seq >= data.seq {
			out = append(out, e)
		}
	}
	for _, e := range x.positional[scope(data)] {
		if e.seq >= data.seq && e.mayName(data.path()) {
			out = append(out, e)
		}
	}

	return out
}

// mayName reports whether a position-delete file can hold rows for path. A
// bound cut short is taken as a prefix, because not every writer rounds a cut
// upper bound up.
func (e *entry) mayName(path string) bool {
	if !e.bounded {
		return true
	}

	return path >= e.lowPath && (path <= e.highPath || strings.HasPrefix(path, e.highPath))
}
