package maintenance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/iceberg-go/table"
)

// rootProperties are the table properties that send files out of the table's
// location; the last two are older names.
func rootProperties() []string {
	return []string{table.WriteDataPathKey, table.WriteMetadataPathKey, "write.object-storage.path", "write.folder-storage.path"}
}

// orphanRoots are the folders to list: the table's location and what was asked
// for beside it. unlisted are the folders that the table's properties name and
// nobody asked for.
func orphanRoots(tbl *table.Table, extra []string) (roots, unlisted []string, err error) {
	location := strings.TrimRight(tbl.Location(), "/")
	if location == "" {
		return nil, nil, fmt.Errorf("the table has no location: %w", ErrRefused)
	}
	roots = []string{location}
	for _, e := range extra {
		e = strings.TrimRight(e, "/")
		if e == "" || placeOf(e).key == "" && folderOf(e) != folderOf(location) {
			return nil, nil, fmt.Errorf("location %q is a whole store, not a folder of the table: %w", e, ErrRefused)
		}
		if slices.ContainsFunc(roots, func(r string) bool { return folderOf(e).below(folderOf(r)) }) {
			continue
		}
		if slices.ContainsFunc(roots, func(r string) bool { return folderOf(r).below(folderOf(e)) }) {
			return nil, nil, fmt.Errorf("location %q holds the table's own folder and more than that: %w", e, ErrRefused)
		}
		roots = append(roots, e)
	}
	for _, p := range declaredRoots(tbl) {
		if !slices.ContainsFunc(roots, func(r string) bool { return folderOf(p).below(folderOf(r)) }) && !slices.Contains(unlisted, p) {
			unlisted = append(unlisted, p)
		}
	}

	return roots, unlisted, nil
}

func declaredRoots(tbl *table.Table) []string {
	var out []string
	for _, key := range rootProperties() {
		if v := strings.TrimRight(tbl.Properties()[key], "/"); v != "" {
			out = append(out, v)
		}
	}

	return out
}

// vouchFor refuses a location that has nothing to do with the table: the
// table's properties have to name it or a folder above it, or the table has
// to have files in it.
func (r *references) vouchFor(tbl *table.Table, extra []string) error {
	declared := declaredRoots(tbl)
	for _, e := range extra {
		f := folderOf(e)
		if f.below(folderOf(tbl.Location())) || slices.ContainsFunc(declared, func(d string) bool { return f.below(folderOf(d)) }) {
			continue
		}
		if slices.ContainsFunc(declared, func(d string) bool { return folderOf(d).below(f) }) || r.perRoot[f] == 0 {
			return fmt.Errorf("location %q is no folder of this table: neither do its properties name it, nor has it files there: %w", e, ErrRefused)
		}
	}

	return nil
}

// unlisted completes the folders that were not listed: those the properties
// name, and the common folders of all files outside of the listed ones.
func (r *references) unlisted(declared []string) []string {
	out := slices.Clone(declared)
	for _, store := range slices.Sorted(maps.Keys(r.outside)) {
		f := place{store, r.outside[store]}
		if !slices.ContainsFunc(out, func(d string) bool { return f.below(folderOf(d)) }) {
			out = append(out, f.String())
		}
	}

	return out
}
