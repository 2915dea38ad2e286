package inspect

import (
	"cmp"
	"slices"
	"sync"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

const (
	// maxPartitions bounds what is kept by partition. Files of further ones are
	// counted together.
	maxPartitions = 100_000
	// worstShown is how many partitions are named.
	worstShown = 10
)

// tally adds up entries. Its methods may be called concurrently, except into.
type tally struct {
	md table.Metadata
	o  Options

	mu         sync.Mutex
	data       Data
	bars       []Bar
	partitions map[string]*Partition
	more       int64
	deletes    Deletes
	manifests  Manifests
	sorted     int64
}

func newTally(md table.Metadata, o Options) *tally {
	t := &tally{md: md, o: o, partitions: map[string]*Partition{}}
	from := int64(0)
	for _, to := range []int64{1 << 20, 8 << 20, 32 << 20, 64 << 20, 128 << 20, 256 << 20, 512 << 20, 1 << 30, 0} {
		t.bars = append(t.bars, Bar{From: from, To: to})
		from = to
	}

	return t
}

func (t *tally) manifest(m iceberg.ManifestFile) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.manifests.Count++
	t.manifests.Bytes += m.Length()
	if m.ManifestContent() == iceberg.ManifestContentDeletes {
		t.manifests.DeleteCount++
	}
	if m.Length() < t.o.ManifestSize*smallPercent/100 {
		t.manifests.Small++
	}
}

// entry counts one live file.
func (t *tally) entry(spec iceberg.PartitionSpec, df iceberg.DataFile) {
	name := ""
	if !spec.IsUnpartitioned() && df.ContentType() == iceberg.EntryContentData {
		schema := t.md.CurrentSchema()
		name = spec.PartitionToPath(table.GetPartitionRecord(df, spec.PartitionType(schema)), schema)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch df.ContentType() {
	case iceberg.EntryContentData:
		t.file(name, df)
	case iceberg.EntryContentEqDeletes:
		t.deletes.EqualityFiles++
	default:
		t.deletes.Rows += df.Count()
		if table.IsDeletionVector(df) {
			t.deletes.Vectors++
		} else {
			t.deletes.PositionFiles++
		}
	}
}

func (t *tally) file(name string, df iceberg.DataFile) {
	size := df.FileSizeBytes()
	small := size < t.o.MinFileSize
	t.data.Files++
	t.data.Bytes += size
	t.data.Rows += df.Count()
	if small {
		t.data.SmallFiles++
		t.data.SmallBytes += size
	}
	if size > t.o.MaxFileSize {
		t.data.LargeFiles++
	}
	if id := df.SortOrderID(); id != nil && *id != 0 && *id == t.md.DefaultSortOrder() {
		t.sorted++
	}
	for i := range t.bars {
		if b := &t.bars[i]; b.To == 0 || size < b.To {
			b.Files++
			b.Bytes += size

			break
		}
	}
	p := t.partition(name)
	if p == nil {
		t.more++

		return
	}
	p.Files++
	p.Bytes += size
	if small {
		p.SmallFiles++
		p.SmallBytes += size
	}
}

func (t *tally) partition(name string) *Partition {
	p, ok := t.partitions[name]
	if !ok && len(t.partitions) < maxPartitions {
		p = &Partition{Name: name}
		t.partitions[name] = p
	}

	return p
}

// into hands the sums over.
func (t *tally) into(h *Health) {
	h.Data, h.Sizes, h.Deletes, h.Manifests = t.data, t.bars, t.deletes, t.manifests
	if t.data.Rows > 0 {
		h.Deletes.Share = float64(t.deletes.Rows) / float64(t.data.Rows)
	}
	h.Sort = Sort{OrderID: t.md.DefaultSortOrder(), Order: sortOrder(t.md), SortedFiles: t.sorted}
	h.Manifests.Target = t.o.ManifestSize
	h.Partitions = Partitions{Count: len(t.partitions), More: t.more, Worst: t.worst()}
	saved := int64(0)
	for _, p := range t.partitions {
		if after := (p.SmallBytes + t.o.TargetFileSize - 1) / t.o.TargetFileSize; p.SmallFiles >= int64(t.o.MinInputFiles) && after < p.SmallFiles {
			saved += p.SmallFiles - max(1, after)
		}
	}
	deletes := t.deletes.PositionFiles + t.deletes.Vectors + t.deletes.EqualityFiles
	requests := t.data.Files + deletes + int64(t.manifests.Count)
	h.Compaction = Estimate{
		FilesBefore: t.data.Files, FilesAfter: t.data.Files - saved, RequestsBefore: requests, RequestsAfter: requests - saved,
	}
}

// worst are the partitions with most small files, then with most files.
func (t *tally) worst() []Partition {
	out := make([]Partition, 0, len(t.partitions))
	for _, p := range t.partitions {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b Partition) int {
		return cmp.Or(cmp.Compare(b.SmallFiles, a.SmallFiles), cmp.Compare(b.Files, a.Files), cmp.Compare(a.Name, b.Name))
	})

	return slices.Clone(out[:min(len(out), worstShown)])
}
