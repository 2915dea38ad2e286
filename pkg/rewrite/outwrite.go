package rewrite

import (
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// writeFile writes one output, of batches until it is full.
func (g *groupRun) writeFile(ctx context.Context, lineage bool, before int64) (added []iceberg.DataFile, err error) {
	if g.form == nil {
		if g.form, err = newFileForm(g.out, g.group.sorting, lineage); err != nil {
			return nil, err
		}
		g.partition = newTransformGuard(g.tbl, g.group.Files[0].Data)
		if _, err := g.fs.open(g.tbl)(ctx); err != nil {
			return nil, err
		}
	}
	path, err := outputPath(g.tbl, g.out, g.group, g.files)
	if err != nil {
		return nil, err
	}
	g.files++
	file, err := g.form.create(g.fs, path, g.cutter.groupRows, g.pending)
	if err != nil {
		return nil, err
	}
	if err := g.fill(ctx, file, before); err != nil {
		file.abandon()

		return nil, err
	}
	spec := g.tbl.Spec()
	var partition map[int]any
	if g.group.SpecID == spec.ID() {
		partition = g.group.Files[0].Data.Partition()
	}
	df, err := file.close(spec, partition)
	if err != nil {
		return nil, err
	}

	return []iceberg.DataFile{df}, nil
}

func (g *groupRun) fill(ctx context.Context, file *parquetFile, before int64) error {
	spec := g.tbl.Spec()
	for rec, err := range g.oneOutput(before) {
		if err != nil {
			return err
		}
		if g.group.SpecID == spec.ID() {
			err = g.partition.check(rec)
		}
		if err == nil {
			err = file.write(ctx, rec)
		}
		rec.Release()
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("write output: %w", context.Cause(ctx))
		}
	}

	return nil
}

// writeByLibrary lets iceberg-go write: the files of an old spec, whose rows go
// to the partitions they belong to now, and columns of types that only its own
// writer knows how to measure.
func (g *groupRun) writeByLibrary(ctx context.Context, lineage bool, before int64) ([]iceberg.DataFile, error) {
	opts := []table.WriteRecordOption{
		table.WithRecordBatchBufferSize(writerQueue),
		table.WithParquetRowGroupLimit(int(g.cutter.groupRows)),
	}
	switch {
	case g.fanout:
		opts = append(opts, table.WithMaxWriteWorkers(1), table.WithTargetFileSize(g.group.size.target))
	default:
		opts = append(opts, table.WithTargetFileSize(math.MaxInt64/2))
		if spec := g.tbl.Spec(); !spec.IsUnpartitioned() {
			opts = append(opts, table.WithClusteredWrite())
		}
	}
	if lineage {
		opts = append(opts, table.WithPreserveRowLineage(iceberg.SchemaWithRowLineage(g.tbl.Schema())))
	}
	nans := make(nanCounter)
	schema, batches, err := g.rowsForIceberg(before, lineage, nans)
	if err != nil {
		return nil, err
	}
	var added []iceberg.DataFile
	for df, err := range table.WriteRecords(ctx, g.out, schema, batches, opts...) {
		if err != nil {
			return nil, err
		}
		added = append(added, df)
	}
	if len(added) > 1 { // whose they are is not known
		nans = nil
	}
	for i, df := range added {
		sound, err := g.soundBounds(ctx, df, nans)
		if err != nil {
			return nil, err
		}
		added[i] = sound
	}

	return added, nil
}

// nansCounted counts in passing.
func (g *groupRun) nansCounted(in batches, into nanCounter) batches {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for rec, err := range in {
			if err == nil {
				into.add(g.tbl.Schema(), rec)
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}

// rowsForIceberg are the rows of the next outputs as iceberg-go's writer takes them.
func (g *groupRun) rowsForIceberg(before int64, lineage bool, nans nanCounter) (*arrow.Schema, iter.Seq2[arrow.RecordBatch, error], error) {
	batches := g.nansCounted(g.oneOutput(before), nans)
	if !requiresValues(&iceberg.StructType{FieldList: g.tbl.Schema().Fields()}) {
		return g.schema, batches, nil
	}
	// Batches of the very schema of its file are not converted by the writer,
	// which would lose what is required.
	form, err := newFileForm(g.out, g.group.sorting, lineage)
	if err != nil {
		return nil, nil, err
	}

	return form.arrow, relabelAll(batches, form.arrow), nil
}
