package rewrite

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/zeebo/xxh3"
)

// keyset holds the keys of equality deletes that share their columns and their
// scope, each with the highest sequence number it was deleted at.
type keyset struct {
	fieldIDs []int
	columns  []int // positions of the fields in a batch
	latest   map[xxh3.Uint128]int64
}

// equalityCounter counts the rows that equality deletes remove from a group.
type equalityCounter struct {
	counter
	fields []string // top-level columns that any delete compares
	ids    []int    // their ids, in the order of the columns
	sets   map[string][]*keyset
}

// equality counts the rows of a group that any delete removes. The second
// result is false when the deletes compare columns that cannot be read alone:
// nested ones, and ones the schema no longer has.
func (c counter) equality(ctx context.Context, g Group, a allotment) (int64, bool, error) {
	e := &equalityCounter{counter: c, sets: make(map[string][]*keyset)}
	if !e.chooseColumns(g) {
		return 0, false, nil
	}
	if err := e.loadKeys(ctx, g, a); err != nil {
		return 0, false, err
	}
	marks, err := c.marks(ctx, g, true)
	if err != nil {
		return 0, false, err
	}
	var deleted int64
	for _, f := range g.Files {
		n, err := e.countFile(ctx, f, marks[f.Data.FilePath()], a)
		if err != nil {
			return 0, false, err
		}
		deleted += n
	}

	return deleted, true, nil
}

// chooseColumns finds the columns to read, in the schema's order, which is the
// order a scan returns them in.
func (e *equalityCounter) chooseColumns(g Group) bool {
	wanted := make(map[int]bool)
	for _, f := range g.Files {
		for _, d := range f.applied.equality {
			for _, id := range d.file.EqualityFieldIDs() {
				wanted[id] = true
			}
		}
	}
	for _, field := range e.tbl.Schema().Fields() {
		if wanted[field.ID] {
			e.fields = append(e.fields, field.Name)
			e.ids = append(e.ids, field.ID)
			delete(wanted, field.ID)
		}
	}

	return len(wanted) == 0
}

func (e *equalityCounter) loadKeys(ctx context.Context, g Group, a allotment) error {
	loaded := make(map[string]bool)
	for _, f := range g.Files {
		for _, d := range f.applied.equality {
			if loaded[d.path()] {
				continue
			}
			loaded[d.path()] = true
			if err := e.loadFile(ctx, d, a); err != nil {
				return fmt.Errorf("read equality deletes %s: %w", d.path(), err)
			}
		}
	}

	return nil
}

// where is the scope of an equality delete: its partition, or the whole table.
func (e *equalityCounter) where(d *entry) string {
	spec := e.tbl.Metadata().PartitionSpecByID(d.spec())
	if spec != nil && spec.IsUnpartitioned() {
		return ""
	}

	return scope(d)
}

func (e *equalityCounter) loadFile(ctx context.Context, d *entry, a allotment) error {
	ids := d.file.EqualityFieldIDs()
	slices.Sort(ids)
	set := e.setFor(e.where(d), ids)
	o := readOptions{fields: e.namesOf(ids), raw: true, batchBytes: a.batchBytes, batchRows: positionBatch}
	all := make([]int, len(ids))
	for i := range all {
		all[i] = i
	}

	return eachBatch(ctx, e.tbl, []File{{Data: d.file, SequenceNumber: d.seq}}, o, func(rec arrow.RecordBatch) {
		keys := keysOf(rec, all)
		for row := range int(rec.NumRows()) {
			key := keys(row)
			set.latest[key] = max(set.latest[key], d.seq)
		}
	})
}

func (e *equalityCounter) setFor(where string, ids []int) *keyset {
	for _, set := range e.sets[where] {
		if slices.Equal(set.fieldIDs, ids) {
			return set
		}
	}
	set := &keyset{fieldIDs: ids, latest: make(map[xxh3.Uint128]int64)}
	for i, id := range e.ids {
		if slices.Contains(ids, id) {
			set.columns = append(set.columns, i)
		}
	}
	e.sets[where] = append(e.sets[where], set)

	return set
}

func (e *equalityCounter) namesOf(ids []int) []string {
	var names []string
	for i, id := range e.ids {
		if slices.Contains(ids, id) {
			names = append(names, e.fields[i])
		}
	}

	return names
}

// countFile reads the compared columns of every row of a file, deleted or not.
func (e *equalityCounter) countFile(ctx context.Context, f File, marks *bitset, a allotment) (int64, error) {
	sets := append(slices.Clone(e.sets[""]), e.sets[scope(f.entry)]...)
	var deleted, pos int64
	o := readOptions{fields: e.fields, raw: true, batchBytes: a.batchBytes, batchRows: maxBatchRows}
	err := eachBatch(ctx, e.tbl, []File{f}, o, func(rec arrow.RecordBatch) {
		keys := make([]func(int) xxh3.Uint128, len(sets))
		for i, set := range sets {
			keys[i] = keysOf(rec, set.columns)
		}
		for row := range int(rec.NumRows()) {
			gone := marks != nil && marks.has(pos)
			for i, set := range sets {
				gone = gone || set.latest[keys[i](row)] > f.SequenceNumber
			}
			deleted += int64(count(gone))
			pos++
		}
	})
	if err == nil && pos != f.Data.Count() {
		err = fmt.Errorf("%w: data file %s has %d rows, its manifest says %d", ErrIntegrity, f.Data.FilePath(), pos, f.Data.Count())
	}

	return deleted, err
}

// keysOf hashes the given columns of a row.
func keysOf(rec arrow.RecordBatch, columns []int) func(row int) xxh3.Uint128 {
	encoders := make([]encoder, len(columns))
	for i, c := range columns {
		encoders[i] = encoderOf(rec.Column(c))
	}
	var buf []byte

	return func(row int) xxh3.Uint128 {
		buf = buf[:0]
		for _, encode := range encoders {
			buf = encode(buf, row)
		}

		return xxh3.Hash128(buf)
	}
}

// hasEquality reports whether equality deletes apply to a group.
func hasEquality(g Group) bool {
	return slices.ContainsFunc(g.Files, func(f File) bool {
		return slices.ContainsFunc(f.Deletes, func(d iceberg.DataFile) bool {
			return d.ContentType() == iceberg.EntryContentEqDeletes
		})
	})
}
