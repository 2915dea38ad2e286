package rewrite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/table/dv"
)

// mergeBytes is how many bytes of position deletes are merged in one change.
const mergeBytes = 256 << 20

// positionMemory is what a deleted row takes in memory while it is merged.
const positionMemory = 32

// Deletes is a change of delete files alone: no data file is rewritten, and every
// row that was deleted before is deleted after.
type Deletes struct {
	SnapshotID int64
	// Dangling are delete files that applied to no data file.
	Dangling []iceberg.DataFile
	// Merged were replaced by Added.
	Merged, Added []iceberg.DataFile
	// Rows are how many rows the merged files remove.
	Rows int64
	// Left is how many partitions wait for another change.
	Left int

	sequence map[string]int64 // added file → data sequence number
	created  []string
}

// Empty reports whether there is nothing to commit.
func (d Deletes) Empty() bool { return len(d.Dangling)+len(d.Merged) == 0 }

// Mergeable counts the position-delete files that ChangeDeletes would replace, by
// what the manifests say, and names the partitions whose deletes stay because
// they do not fit the memory.
func (p *Plan) Mergeable(tbl *table.Table) (files int, tooLarge []Refusal) {
	if p.set == nil {
		return 0, nil
	}
	scopes, tooLarge := p.mergeScopes(tbl)
	for _, s := range scopes {
		files += len(s.deletes)
	}

	return files, tooLarge
}

// mergeScopes are the partitions whose position deletes become fewer, and those
// whose deletes do not fit the memory.
func (p *Plan) mergeScopes(tbl *table.Table) (scopes []*deleteScope, tooLarge []Refusal) {
	for _, s := range p.deleteScopes(tbl) {
		need := p.mergeMemory(s)
		if p.options.Memory == 0 || need <= p.options.Memory {
			scopes = append(scopes, s)

			continue
		}
		tooLarge = append(tooLarge, Refusal{
			What:   cmp.Or(partitionPath(s.spec, tbl.Schema(), s.deletes[0].file), "position deletes"),
			Reason: fmt.Sprintf("merging its position deletes needs %d bytes of memory, has %d", need, p.options.Memory),
			Files:  len(s.deletes), Bytes: s.bytes,
		})
	}

	return scopes, tooLarge
}

// ChangeDeletes prepares a change of the delete files of the plan's snapshot, and
// proves it: those that apply to no data file go, and with merge those position
// deletes that stay become one file for each partition, or for each data file
// where write.delete.granularity is "file", or deletion vectors from format
// version 3 on. Entries about data files or rows that are not there are dropped.
//
// Effects, in order: it reads delete files, writes new ones, and reads those back
// to compare, row by row. Nothing refers to a new file before StageDeletes. After
// an error, or when ctx ends, what it wrote is removed; the call may be repeated.
// The error wraps ErrIntegrity when the new files do not delete what the old ones
// did.
func ChangeDeletes(ctx context.Context, tbl *table.Table, plan *Plan, merge bool) (Deletes, error) {
	out := Deletes{SnapshotID: plan.SnapshotID, Dangling: plan.Dangling, sequence: make(map[string]int64)}
	if snap := tbl.CurrentSnapshot(); snap == nil || snap.SnapshotID != plan.SnapshotID {
		return out, fmt.Errorf("change deletes of snapshot %d: it is not the table's current snapshot", plan.SnapshotID)
	}
	storage, err := tbl.FS(ctx)
	if err != nil {
		return out, fmt.Errorf("open storage of table: %w", err)
	}
	dead := deadDeletes{plan: plan, gone: map[string]bool{}, storage: storage, named: make(map[*entry]map[string]bool)}
	if err := dead.prove(ctx, out.Dangling); err != nil || !merge {
		return out, err
	}
	writable, ok := storage.(iceio.WriteFileIO)
	if !ok {
		return out, errors.New("open storage of table: it cannot be written to")
	}
	m := &deleteMerge{tbl: tbl, plan: plan, storage: writable}
	err = m.all(ctx, &out)
	out.created = m.created
	if err != nil {
		return out, errors.Join(err, out.Remove(ctx, tbl))
	}

	return out, nil
}

// Remove removes what ChangeDeletes wrote, also with a context that has ended.
// It must not be called once a commit may have happened.
func (d Deletes) Remove(ctx context.Context, tbl *table.Table) error {
	return removeAll(ctx, tbl, d.created)
}

// Created are the paths of the files that ChangeDeletes wrote.
func (d Deletes) Created() []string { return d.created }

// all merges partition after partition, up to a limit of bytes.
func (m *deleteMerge) all(ctx context.Context, out *Deletes) error {
	scopes, _ := m.plan.mergeScopes(m.tbl)
	var bytes int64
	for i, s := range scopes {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if bytes > 0 && bytes+s.bytes > mergeBytes {
			out.Left = len(scopes) - i

			return nil
		}
		bytes += s.bytes
		if err := m.one(ctx, s, out); err != nil {
			return fmt.Errorf("merge %d position-delete files, first %s: %w", len(s.deletes), s.deletes[0].path(), err)
		}
	}

	return nil
}

// mergeMemory is what it takes to hold the deleted rows of a partition, in bytes.
func (p *Plan) mergeMemory(s *deleteScope) int64 {
	var rows int64
	for _, e := range s.deletes {
		rows += e.file.Count()
	}
	var reach int64 // every row of the partition has a bit in the old and in the new deletes
	for _, data := range s.data {
		reach += data.file.Count()
	}

	return p.options.Reserved + rows*positionMemory + reach/4
}

func (m *deleteMerge) one(ctx context.Context, s *deleteScope, out *Deletes) error {
	rows, err := m.gather(ctx, s)
	if err != nil {
		return err
	}
	added, err := m.write(ctx, s, rows)
	if err != nil {
		return err
	}
	if err := m.prove(ctx, s, added); err != nil {
		return err
	}
	var sequence int64
	for _, e := range s.deletes {
		sequence = max(sequence, e.seq)
		// A file that applies nowhere goes with the others of its partition.
		out.Dangling = slices.DeleteFunc(slices.Clone(out.Dangling), func(df iceberg.DataFile) bool { return df == e.file })
		out.Merged = append(out.Merged, e.file)
	}
	for _, df := range added {
		out.sequence[df.FilePath()] = sequence
		out.Added = append(out.Added, df)
		out.Rows += df.Count()
	}

	return nil
}

// prove reads old and new deletes of a partition apart from each other, and
// compares which rows they remove.
func (m *deleteMerge) prove(ctx context.Context, s *deleteScope, added []iceberg.DataFile) error {
	var g Group
	for _, data := range s.data {
		a, err := m.plan.set.deletes.forFile(data)
		if err != nil {
			return err
		}
		if a.vector == nil {
			g.Files = append(g.Files, newFile(candidate{entry: data, deletes: a}))
		}
	}
	before, err := counter{tbl: m.tbl, storage: m.storage}.marks(ctx, g, false)
	if err != nil {
		return err
	}
	after, err := m.readBack(ctx, s, added)
	if err != nil {
		return err
	}
	for _, f := range g.Files {
		old, fresh := before[f.Data.FilePath()], after[f.Data.FilePath()]
		if !old.same(fresh) {
			return fmt.Errorf("%w: the new deletes of data file %s are not the old ones", ErrIntegrity, f.Data.FilePath())
		}
		delete(after, f.Data.FilePath())
	}
	for path := range after {
		return fmt.Errorf("%w: the new deletes name data file %s, which has none", ErrIntegrity, path)
	}

	return nil
}

// readBack reads what was written.
func (m *deleteMerge) readBack(ctx context.Context, s *deleteScope, added []iceberg.DataFile) (map[string]*bitset, error) {
	counts := make(map[string]int64)
	for _, data := range s.data {
		counts[data.path()] = data.file.Count()
	}
	out := make(map[string]*bitset)
	mark := func(path string, pos int64) {
		if out[path] == nil {
			out[path] = newBitset(counts[path])
		}
		out[path].mark(pos)
	}
	for _, df := range added {
		if !table.IsDeletionVector(df) {
			if err := readPositions(ctx, m.storage, df.FilePath(), mark); err != nil {
				return nil, err
			}

			continue
		}
		bitmap, err := dv.ReadDV(m.storage, df)
		if err != nil {
			return nil, fmt.Errorf("read deletion vector %s: %w", df.FilePath(), err)
		}
		path := *df.ReferencedDataFile()
		for pos := range counts[path] {
			if bitmap.Contains(uint64(pos)) {
				mark(path, pos)
			}
		}
	}

	return out, nil
}

// same reports whether two sets have the same rows; nil has none.
func (b *bitset) same(o *bitset) bool {
	switch {
	case b == nil || b.set == 0:
		return o == nil || o.set == 0
	case o == nil:
		return false
	}

	return slices.Equal(b.words, o.words)
}
