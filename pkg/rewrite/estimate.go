package rewrite

import (
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// What the engine allocates, in bytes. The figures are estimates from above:
// a group that is refused might have fitted, one that is accepted does fit.
const (
	// expansion is how much larger decoded data is than its Parquet file.
	expansion = 4
	// pageBytes is what one column keeps of decompressed pages while it is read.
	pageBytes = 1 << 20
	// columnWriteBytes is the least a column of an open row group keeps.
	columnWriteBytes = 64 << 10
	// dictionaryBytes is what the dictionary of a column grows to before the
	// writer gives it up.
	dictionaryBytes = 3 << 20
	minWriteBytes   = 4 << 20
	maxWriteBytes   = 256 << 20
	minBatchBytes   = 256 << 10
	maxBatchBytes   = 8 << 20
	minBatchRows    = 64
	maxBatchRows    = 64 << 10
	// batchesInFlight counts decoded batches between reader and writer: the one
	// being decoded, its projected copy, the queue of two, the one being encoded.
	batchesInFlight = 6
	// minSortBytes is the least that rows are sorted in, sortRows the least number
	// of rows; maxSortBytes is for a budget without a limit.
	minSortBytes = 16 << 20
	maxSortBytes = 1 << 30
	sortRows     = 16
	// sortShare is the part of the memory left by what is fixed that rows are
	// sorted in.
	sortShare = 2
	// rowCopies is how often the writer holds a row: as a value, in a page, and
	// in a compressed page that may have grown by doubling.
	rowCopies       = 4
	positionBytes   = 24
	equalityBytes   = 128
	vectorExpansion = 4
	// fanoutExpansion: all rows of an old-spec group may sit in open row groups.
	fanoutExpansion = 2
	// livePercent is the share of the memory that live data may fill. The rest
	// is what the collector and the allocator need to work.
	livePercent = 70
)

// footprint is what a group's data asks of the engine.
type footprint struct {
	columns  int64
	rowWidth int64 // decoded bytes of a row
	chunk    int64 // compressed bytes of the largest row group, read as a whole
	deletes  int64 // bytes of the delete files once they are in memory
	pages    int64 // decompressed pages held at once
	fanout   int64 // bytes of the row groups open at once in a fan-out write
	sorts    bool  // rows are held to be sorted
}

// allotment is how a budget is spent on one group.
type allotment struct {
	batchBytes, writeBytes, sortBytes int64
	total                             int64 // bytes to reserve
}

func estimate(tbl *table.Table, g Group) footprint {
	f := footprint{columns: leaves(tbl.Schema()), rowWidth: fixedWidth(tbl.Schema()), sorts: g.sorting != nil}
	if spec := tbl.Spec(); g.SpecID != spec.ID() && !spec.IsUnpartitioned() {
		f.fanout = fanoutExpansion * g.Bytes
	}
	seen := make(map[string]bool)
	for _, file := range g.Files {
		f.add(file)
		for _, d := range file.Deletes {
			name := d.FilePath()
			if ref := d.ReferencedDataFile(); ref != nil {
				name += "#" + *ref
			}
			if !seen[name] {
				seen[name] = true
				f.deletes += deleteBytes(d)
			}
		}
	}

	return f
}

// add counts a file by its footer, or by its manifest entry when the footer was
// not read yet.
func (f *footprint) add(file File) {
	if s := file.shape; s != nil {
		f.chunk = max(f.chunk, s.chunk)
		f.rowWidth = max(f.rowWidth, s.width)
		f.pages = max(f.pages, s.pages)

		return
	}
	chunk := largestRowGroup(file.Data)
	f.chunk = max(f.chunk, chunk)
	f.pages = max(f.pages, min(f.columns*pageBytes, expansion*chunk))
	if rows := file.Data.Count(); rows > 0 {
		f.rowWidth = max(f.rowWidth, expansion*file.Data.FileSizeBytes()/max(rows, 100))
	}
}

// largestRowGroup reads it from the split offsets, the start of each row group.
// Without them the file counts as one row group.
func largestRowGroup(df iceberg.DataFile) int64 {
	offsets := append(df.SplitOffsets(), df.FileSizeBytes())
	largest := int64(0)
	for i := 1; i < len(offsets); i++ {
		largest = max(largest, offsets[i]-offsets[i-1])
	}
	if len(offsets) == 1 || largest <= 0 {
		return df.FileSizeBytes()
	}

	return largest
}

func deleteBytes(d iceberg.DataFile) int64 {
	switch {
	case table.IsDeletionVector(d):
		size := d.FileSizeBytes()
		if part := d.ContentSizeInBytes(); part != nil {
			size = *part
		}

		return vectorExpansion * size
	case d.ContentType() == iceberg.EntryContentPosDeletes:
		return positionBytes * d.Count()
	default:
		return equalityBytes * d.Count()
	}
}

// fixed is what is held whatever the batch size is.
func (f footprint) fixed() int64 {
	return f.chunk + f.pages + f.deletes + f.fanout
}

func (f footprint) leastBatch() int64 { return max(minBatchBytes, f.rowWidth) }

func (f footprint) leastWrite() int64 {
	return max(minWriteBytes, f.columns*columnWriteBytes, rowCopies*f.rowWidth)
}

func (f footprint) leastSort() int64 {
	if !f.sorts {
		return 0
	}

	return max(minSortBytes, sortRows*f.rowWidth)
}

// minimum is the least memory the group can be rewritten in.
func (f footprint) minimum() int64 {
	return gross(f.fixed() + batchesInFlight*f.leastBatch() + f.leastWrite() + f.leastSort())
}

// fit spends a budget on the group; a budget of 0 has no limit. The total may
// exceed the budget when the minimum does.
func (f footprint) fit(budget int64) allotment {
	a := allotment{batchBytes: max(maxBatchBytes, f.leastBatch()), writeBytes: max(maxWriteBytes, f.leastWrite())}
	if f.sorts {
		a.sortBytes = max(maxSortBytes, f.leastSort())
	}
	if budget > 0 {
		free := max(0, budget*livePercent/100-f.fixed())
		if f.sorts {
			a.sortBytes = max(f.leastSort(), min(a.sortBytes, free/sortShare))
			free = max(0, free-a.sortBytes)
		}
		a.batchBytes = max(f.leastBatch(), min(a.batchBytes, free/(3*batchesInFlight)))
		a.writeBytes = max(f.leastWrite(), min(a.writeBytes, free-batchesInFlight*a.batchBytes))
	}
	a.total = gross(f.fixed() + batchesInFlight*a.batchBytes + a.writeBytes + a.sortBytes)

	return a
}

// gross adds the collector's share to live bytes.
func gross(live int64) int64 { return live * 100 / livePercent }

// leaves counts the primitive columns of a schema.
func leaves(sc *iceberg.Schema) int64 {
	var n int64
	for _, f := range sc.Fields() {
		n += typeLeaves(f.Type)
	}

	return n
}

func typeLeaves(t iceberg.Type) int64 {
	switch t := t.(type) {
	case *iceberg.StructType:
		var n int64
		for _, f := range t.FieldList {
			n += typeLeaves(f.Type)
		}

		return n
	case *iceberg.ListType:
		return typeLeaves(t.Element)
	case *iceberg.MapType:
		return typeLeaves(t.KeyType) + typeLeaves(t.ValueType)
	default:
		return 1
	}
}

// leafWidth is the decoded width of a primitive value; texts count for little
// here, because file sizes tell about them.
const leafWidth = 12

func fixedWidth(sc *iceberg.Schema) int64 { return leaves(sc) * leafWidth }
