package rewrite

import (
	"context"
	"fmt"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// readAhead is how many small files are decoded at once.
const readAhead = 4

// readOptions say how files are read.
type readOptions struct {
	batchRows int // at most
	// batchBytes bounds a decoded batch, and the files of which several are
	// decoded at once. A single row may be larger.
	batchBytes int64
	lineage    bool     // add the row id and last-updated columns
	raw        bool     // leave deleted rows in
	fields     []string // columns, all when empty
	tempDir    string   // for columns that are converted
}

// openRows starts a read of whole files, in their order. The batches belong to
// the consumer. Files that are small once decoded are read a few at a time;
// a large one is streamed alone, because the scanner may otherwise hold all its
// batches while an earlier file is slow.
func openRows(ctx context.Context, tbl *table.Table, files []File, o readOptions) (*arrow.Schema, iter.Seq2[arrow.RecordBatch, error], error) {
	schema, err := rowSchema(tbl, o)
	if err != nil {
		return nil, nil, err
	}
	runs := readRuns(tbl, files, o)
	tbl = converted(tbl, files, o.tempDir)
	rows := func(yield func(arrow.RecordBatch, error) bool) {
		for _, run := range runs {
			_, batches, err := scanner(tbl, o, run).ReadTasks(ctx, tasks(run.files, o.raw))
			if err != nil {
				yield(nil, fmt.Errorf("read %d files from %s: %w", len(run.files), run.files[0].Data.FilePath(), err))

				return
			}
			guard, constants := rowGuard{}, []constant(nil)
			if len(o.fields) == 0 {
				guard, constants = newRowGuard(tbl, run.files[0].Data), run.files[0].constants()
			}
			for rec, err := range batches {
				if err == nil {
					rec, err = fill(constants, rec)
				}
				if err == nil {
					err = guard.check(rec)
				}
				if err != nil {
					yield(nil, fmt.Errorf("read files from %s: %w", run.files[0].Data.FilePath(), err))

					return
				}
				if !yield(rec, nil) {
					return
				}
			}
		}
	}

	return schema, rows, nil
}

func scanner(tbl *table.Table, o readOptions, run readRun) *table.Scan {
	opts := []table.ScanOption{table.WithMaxConcurrency(run.parallel)}
	if run.batchRows > 0 {
		opts = append(opts, table.WithArrowBatchSize(run.batchRows))
	}
	if o.lineage {
		opts = append(opts, table.WithRowLineage())
	}
	if len(o.fields) > 0 {
		opts = append(opts, table.WithSelectedFields(o.fields...))
	}

	return tbl.Scan(opts...)
}

// rowSchema is the Arrow schema of the batches. With lineage it carries field
// ids, without which the writer could not tell the reserved columns.
func rowSchema(tbl *table.Table, o readOptions) (*arrow.Schema, error) {
	projected, err := scanner(tbl, o, readRun{parallel: 1}).Projection()
	if err != nil {
		return nil, fmt.Errorf("project table schema: %w", err)
	}
	sc, err := table.SchemaToArrowSchemaWithOptions(projected, table.ArrowSchemaOptions{
		IncludeFieldIDs: o.lineage, TableProperties: tbl.Properties(),
	})
	if err != nil {
		return nil, fmt.Errorf("convert table schema to arrow: %w", err)
	}

	return sc, nil
}

type readRun struct {
	files     []File
	parallel  int
	batchRows int
}

// readRuns cuts files into runs of small ones and single large ones. A run is
// of one partition, so that its rows can be compared with it, and its files lack
// the same columns.
func readRuns(tbl *table.Table, files []File, o readOptions) []readRun {
	var runs []readRun
	var before string
	fixed := fixedWidth(tbl.Schema())
	for _, f := range files {
		small := f.wholeSize() <= o.batchBytes
		rows := int(min(int64(o.batchRows), max(1, o.batchBytes/f.rowWidth(fixed))))
		last := len(runs) - 1
		where := partitionOf(tbl, f.Data)
		for _, c := range f.constants() {
			where += fmt.Sprintf("/%d", c.column)
		}
		together := where == before
		before = where
		if small && together && last >= 0 && runs[last].parallel > 1 {
			runs[last].files = append(runs[last].files, f)
			runs[last].batchRows = min(runs[last].batchRows, rows)

			continue
		}
		parallel := 1
		if small {
			parallel = readAhead
		}
		runs = append(runs, readRun{files: []File{f}, parallel: parallel, batchRows: rows})
	}

	return runs
}

// tasks asks for whole files: no byte range, no residual filter. A planned task
// may carry both, and each would drop rows of a file that is then removed.
func tasks(files []File, raw bool) []table.FileScanTask {
	out := make([]table.FileScanTask, 0, len(files))
	for _, f := range files {
		seq := f.SequenceNumber
		t := table.FileScanTask{
			File: f.Data, Start: 0, Length: f.Data.FileSizeBytes(),
			FirstRowID: f.FirstRowID, DataSequenceNumber: &seq,
		}
		if !raw {
			t.DeleteFiles, t.EqualityDeleteFiles, t.DeletionVectorFiles = split(f.Deletes)
		}
		out = append(out, t)
	}

	return out
}

func split(deletes []iceberg.DataFile) (positional, equality, vectors []iceberg.DataFile) {
	for _, d := range deletes {
		switch {
		case table.IsDeletionVector(d):
			vectors = append(vectors, d)
		case d.ContentType() == iceberg.EntryContentPosDeletes:
			positional = append(positional, d)
		default:
			equality = append(equality, d)
		}
	}

	return positional, equality, vectors
}

// partitionOf is a file's spec and partition as one text.
func partitionOf(tbl *table.Table, df iceberg.DataFile) string {
	spec := tbl.Metadata().PartitionSpecByID(int(df.SpecID()))
	if spec == nil {
		return ""
	}

	return fmt.Sprintf("%d/%s", df.SpecID(), partitionKey(*spec, df.Partition()))
}

// constants are the columns that the file does not store.
func (f File) constants() []constant {
	if f.shape == nil {
		return nil
	}

	return f.shape.constants
}
