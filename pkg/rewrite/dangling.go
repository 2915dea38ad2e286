package rewrite

import (
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// findDangling remembers the delete files that apply to no live data file, and
// that no later one can need: a file that is added gets a sequence number above
// theirs, or replaces one to which they do not apply.
//
// By the rules of deleteIndex alone, from manifests, that is
//
//   - a deletion vector, or position deletes that name one data file, whose data
//     file is not live;
//   - position deletes of a partition without a data file as old as they are;
//   - equality deletes of a partition, or of the table, without an older data file.
//
// Left are: what names a live data file, even one to which it does not apply;
// position deletes that name files of another partition, because readers
// disagree about them; what cannot be told apart by its path; what iceberg-go
// cannot remove; and files of a spec for which no manifest can be written, as
// one would have to be.
func (s *fileSet) findDangling(tbl *table.Table) error {
	applies := make(map[*entry]bool)
	for _, data := range s.data {
		a, err := s.deletes.forFile(data)
		if err != nil {
			return err
		}
		for _, e := range a.entries() {
			applies[e] = true
		}
	}
	once := make(map[string]int)
	for _, e := range s.deletes.all {
		once[removalKey(e)]++
	}
	for _, e := range s.deletes.all {
		spec := tbl.Metadata().PartitionSpecByID(e.spec())
		if spec == nil || UnwritableSpec(tbl.Schema(), *spec) != "" {
			continue
		}
		if !applies[e] && !s.namesLive(e) && !unremovable(e.file) && once[removalKey(e)] == 1 {
			s.dangling = append(s.dangling, e.file)
		}
	}

	return nil
}

// removalKey is what iceberg-go knows a delete file by when it is removed.
func removalKey(e *entry) string {
	if table.IsDeletionVector(e.file) {
		return "of " + *e.file.ReferencedDataFile()
	}

	return e.path()
}

// namesLive reports whether a position delete that applies nowhere names a live
// data file all the same.
func (s *fileSet) namesLive(e *entry) bool {
	if e.file.ContentType() != iceberg.EntryContentPosDeletes {
		return false
	}
	if ref := e.reference(s.byPath); ref != "" {
		return s.byPath[ref] != nil
	}

	return s.misplacing[e.path()]
}
