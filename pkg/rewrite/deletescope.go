package rewrite

import (
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// granularityKey asks for one position-delete file for each data file.
const granularityKey = "write.delete.granularity"

// deleteScope is the position deletes of one partition of one spec that become
// fewer, and the data files they can reach.
type deleteScope struct {
	name    string
	spec    iceberg.PartitionSpec
	deletes []*entry
	data    []*entry
	bytes   int64
}

// deleteScopes are the partitions whose position deletes can become fewer, in
// the order of their first delete file. Deletion vectors are as few as they can
// be. Left alone are partitions with deletes that readers disagree about or
// cannot read, that belong to data files elsewhere, or of a spec for which no
// manifest can be written.
func (p *Plan) deleteScopes(tbl *table.Table) []*deleteScope {
	byName := make(map[string]*deleteScope)
	var order []*deleteScope
	for _, e := range p.set.deletes.all {
		if e.file.ContentType() != iceberg.EntryContentPosDeletes || table.IsDeletionVector(e.file) {
			continue
		}
		name := scope(e)
		s := byName[name]
		if s == nil {
			s = &deleteScope{name: name}
			byName[name] = s
			order = append(order, s)
		}
		s.deletes = append(s.deletes, e)
		s.bytes += e.file.FileSizeBytes()
	}
	for _, data := range p.set.data {
		if s := byName[scope(data)]; s != nil {
			s.data = append(s.data, data)
		}
	}
	var out []*deleteScope
	for _, s := range order {
		if spec := tbl.Metadata().PartitionSpecByID(s.deletes[0].spec()); spec != nil && p.mergeable(tbl, s, *spec) {
			s.spec = *spec
			out = append(out, s)
		}
	}

	return out
}

// mergeable says whether a merge makes the deletes of a partition fewer, and
// whether it may be done.
func (p *Plan) mergeable(tbl *table.Table, s *deleteScope, spec iceberg.PartitionSpec) bool {
	if UnwritableSpec(tbl.Schema(), spec) != "" {
		return false
	}
	for _, data := range s.data {
		if p.set.misplaced[data.path()] != "" {
			return false
		}
	}
	perFile, wide := make(map[string]int), 0
	for _, e := range s.deletes {
		if !isParquet(e.file) || len(e.file.KeyMetadata()) > 0 || p.set.misplacing[e.path()] {
			return false
		}
		switch ref := e.reference(p.set.byPath); {
		case ref == "":
			wide++
		case p.set.byPath[ref] != nil && scope(p.set.byPath[ref]) != s.name:
			return false
		default:
			perFile[ref]++
		}
	}
	switch {
	case tbl.Metadata().Version() >= 3:
		return true
	case byDataFile(tbl):
		return wide > 0 || len(perFile) < len(s.deletes)
	default:
		return len(s.deletes) > 1
	}
}

// byDataFile reports whether the table wants position deletes apart by data file.
func byDataFile(tbl *table.Table) bool {
	return strings.EqualFold(tbl.Properties()[granularityKey], "file")
}

// reached are the rows that position deletes remove, by data file, in order and
// once each.
type reached map[string][]int64

// targets are, for each delete file, the data files to which it applies.
func (p *Plan) targets(s *deleteScope) (map[*entry]map[string]*entry, error) {
	out := make(map[*entry]map[string]*entry)
	for _, data := range s.data {
		a, err := p.set.deletes.forFile(data)
		if err != nil {
			return nil, err
		}
		for _, e := range a.positional {
			if out[e] == nil {
				out[e] = make(map[string]*entry)
			}
			out[e][data.path()] = data
		}
	}

	return out, nil
}
