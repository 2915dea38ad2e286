package rewrite

import (
	"context"
	"fmt"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go/table"
)

// writerQueue is how many batches wait for the writer.
const writerQueue = 2

// groupRun writes the outputs of one group. It reads the inputs once, in order,
// and cuts the stream into one writer call per output.
type groupRun struct {
	rewriter  *Rewriter
	tbl       *table.Table
	group     Group
	fs        *recorder
	allotment allotment

	out       *table.Table // the table as the writer sees it
	schema    *arrow.Schema
	next      func() (arrow.RecordBatch, error, bool)
	pending   arrow.RecordBatch
	cutter    *cutter
	guard     *pathGuard
	order     *orderCheck // of what is written
	read      int64       // rows that wait to be sorted
	form      *fileForm
	partition transformGuard
	files     int
	fanout    bool
	done      bool
	rows      int64
	// plainFloats forbids dictionaries of floating-point numbers.
	plainFloats bool
}

// write fills in the result's outputs and row counts. The caller removes what
// was created when it fails.
func (g *groupRun) write(ctx context.Context, res *Result) error {
	if err := g.prepare(); err != nil {
		return err
	}
	ro := readOptions{
		batchRows: g.batchRows(), batchBytes: g.allotment.batchBytes, lineage: g.group.lineage && g.tbl.Metadata().Version() >= 3,
		tempDir: g.rewriter.opts.TempDir,
	}
	schema, batches, err := openRows(ctx, g.tbl, g.group.Files, ro)
	if err != nil {
		return err
	}
	g.schema = schema
	batches = g.watched(batches)
	if g.group.sorting != nil {
		g.order = newOrderCheck(g.group.sorting)
		batches = g.sorted(ctx, batches)
	}
	next, stop := iter.Pull2(batches)
	defer stop()
	defer g.dropPending()
	g.next = next
	for !g.done {
		if err := g.writeOutput(ctx, ro.lineage, res); err != nil {
			return g.nameCulprit(ctx, ro, err)
		}
	}

	return g.check(res)
}

// prepare chooses the writer and its view of the table.
func (g *groupRun) prepare() error {
	spec := g.tbl.Spec()
	g.fanout = g.group.SpecID != spec.ID() && !spec.IsUnpartitioned()
	if t := g.rewriter.opts.TargetFileSize; t > 0 {
		g.group.size = sizing{target: t, min: t * minFileSizePercent / 100, max: t * maxFileSizePercent / 100}
	}
	out, err := writerTable(g.tbl, g.fs, g.plainFloats)
	if err != nil {
		return err
	}
	g.out = out
	if g.fanout {
		g.guard = newPathGuard(spec, g.tbl.Schema())
	}
	rows, bytes := g.expected()
	g.cutter = newCutter(g.group.size, rows, bytes, g.rowGroupRows(0))

	return nil
}

// expected is what should survive: rows exactly when only position deletes
// apply, bytes without the footers of the inputs.
func (g *groupRun) expected() (rows, bytes int64) {
	const footer = 400
	overhead := footer + footer/4*leaves(g.tbl.Schema())
	for _, f := range g.group.Files {
		live := f.Data.Count()
		for _, d := range f.Deletes {
			if table.IsDeletionVector(d) || d.ReferencedDataFile() != nil {
				live -= min(live, d.Count())
			}
		}
		size := f.Data.FileSizeBytes()
		body := max(size-overhead, size/10)
		rows += live
		bytes += int64(float64(body) * ratio(live, f.Data.Count()))
	}

	return rows, bytes
}

// batchRows bounds a batch by a small part of an output; the reader bounds it
// by memory.
func (g *groupRun) batchRows() int {
	rows, bytes := g.expected()

	return int(min(maxBatchRows, max(minBatchRows, rowsPerTarget(g.group.size, rows, bytes)/32)))
}

// rowGroupRows bounds a row group by the properties of the table, or by what is
// large enough, by half a target and, once the width of a decoded row is known,
// by memory.
func (g *groupRun) rowGroupRows(width int64) int64 {
	props := g.tbl.Properties()
	limit := int64(props.GetInt(table.ParquetRowGroupLimitKey, table.ParquetRowGroupLimitDefault))
	rows, bytes := g.expected()
	if choosesRowGroups(props) {
		limit = min(limit, enoughFor(rows, bytes))
	}
	if !g.fanout {
		limit = min(limit, max(1, rowsPerTarget(g.group.size, rows, bytes)/2))
	}
	if width > 0 {
		dictionaries := leaves(g.tbl.Schema()) * dictionaryBytes
		free := max(g.allotment.writeBytes/2, g.allotment.writeBytes-dictionaries)
		limit = min(limit, max(1, free/width))
	}

	return max(1, limit)
}

// writeOutput writes one file, or, for an old spec, all files of the group.
func (g *groupRun) writeOutput(ctx context.Context, lineage bool, res *Result) error {
	first, err := g.peek()
	if err != nil || first == nil {
		return err
	}
	g.cutter.groupRows = g.rowGroupRows(max(batchWidth(first), g.group.plainWidth()))
	before := g.fs.bytes.Load()
	write := g.writeFile
	if g.fanout || needsLibrary(g.tbl.Schema()) {
		write = g.writeByLibrary
	}
	added, err := write(ctx, lineage, before)
	if err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	res.Outputs = append(res.Outputs, added...)
	g.cutter.closed(g.fs.bytes.Load() - before)

	return nil
}

// oneOutput yields batches until the open output is full. Where iceberg-go
// writes, it runs on a goroutine of the writer, which has ended when WriteRecords
// is exhausted.
func (g *groupRun) oneOutput(before int64) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for {
			rec, err := g.peek()
			if err != nil {
				yield(nil, err)

				return
			}
			if rec == nil {
				return
			}
			if !g.fanout {
				g.cutter.observe(g.fs.bytes.Load() - before)
				if g.cutter.full(rec.NumRows()) {
					return
				}
			}
			g.pending = nil
			g.cutter.add(rec.NumRows())
			g.rows += rec.NumRows()
			g.report()
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// peek returns the next batch without taking it; nil at the end.
func (g *groupRun) peek() (arrow.RecordBatch, error) {
	for g.pending == nil {
		rec, err, ok := g.next()
		if !ok || err != nil {
			g.done = true

			return nil, err
		}
		if hook := g.rewriter.opts.BeforeWrite; hook != nil {
			rec = hook(rec)
		}
		if err := g.writable(rec); err != nil {
			rec.Release()

			return nil, err
		}
		if rec.NumRows() == 0 {
			rec.Release()

			continue
		}
		g.pending = rec
	}

	return g.pending, nil
}

// writable checks a batch before it is written.
func (g *groupRun) writable(rec arrow.RecordBatch) error {
	if err := g.order.check(rec); err != nil {
		return err
	}
	if g.guard != nil {
		if err := g.guard.check(rec); err != nil {
			return err
		}
	}

	return required(rec)
}

func (g *groupRun) dropPending() {
	if g.pending != nil {
		g.pending.Release()
		g.pending = nil
	}
}

func (g *groupRun) report() {
	if g.rewriter.opts.Progress == nil {
		return
	}
	done := g.rows
	if g.group.sorting != nil { // every row is read before the first is written
		done = (g.read + g.rows) / 2
	}
	g.rewriter.opts.Progress(Progress{
		Group: g.group.ID, RowsDone: done, RowsTotal: g.cutter.rowsTotal,
		BytesDone: int64(float64(g.group.Bytes) * ratio(done, g.cutter.rowsTotal)), Bytes: g.group.Bytes,
	})
}

// check counts what was written against what was read, and looks for files
// nobody reported.
func (g *groupRun) check(res *Result) error {
	known := make(map[string]bool)
	for _, df := range res.Outputs {
		known[df.FilePath()] = true
		res.RowsOut += df.Count()
		res.BytesOut += df.FileSizeBytes()
		if !g.fanout && partitionKey(g.tbl.Spec(), df.Partition()) != g.wantKey() {
			return fmt.Errorf("%w: output %s left the partition of its inputs, %s", ErrIntegrity, df.FilePath(), g.group.Partition)
		}
	}
	res.RowsDeleted = res.RowsIn - g.rows
	if res.RowsOut != g.rows || res.RowsDeleted < 0 {
		return fmt.Errorf("%w: %d rows in the inputs, %d read, %d written", ErrIntegrity, res.RowsIn, g.rows, res.RowsOut)
	}
	for _, path := range g.fs.paths() {
		if !known[path] {
			return fmt.Errorf("output %s: the writer did not report it", path)
		}
	}

	return nil
}

// wantKey is the partition every output of a group of the current spec has.
func (g *groupRun) wantKey() string {
	spec := g.tbl.Spec()
	if g.group.SpecID != spec.ID() { // an old spec into an unpartitioned one
		return partitionKey(spec, nil)
	}

	return g.group.key
}

// batchWidth is the decoded size of a row.
func batchWidth(rec arrow.RecordBatch) int64 {
	var total int64
	for _, col := range rec.Columns() {
		total += int64(col.Data().SizeInBytes())
	}

	return total / max(1, rec.NumRows())
}

// plainWidth is the size of an average row as far as the footers tell it.
func (g Group) plainWidth() int64 {
	var width int64
	for _, f := range g.Files {
		if f.shape != nil {
			width = max(width, f.shape.plain)
		}
	}

	return width
}
