// Package demo makes a fragmented table, so that a newcomer can watch the real
// job mend it, and counts its rows in a way that does not depend on the job.
package demo

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	icebergcatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
)

// Shape of the demo table.
const (
	Files       = 500
	Commits     = 20
	RowsPerFile = 400
	seed        = 20260101 // the same table on every machine
	deleted     = 2        // rows with this id modulo deleteEvery are deleted
	deleteEvery = 97
)

// Regions are the partitions.
func Regions() []string { return []string{"eu", "us", "apac"} }

// Ident is the name of the demo table.
func Ident() table.Identifier { return table.Identifier{"demo", "events"} }

func schema() *iceberg.Schema {
	return iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true},
		iceberg.NestedField{ID: 2, Name: "region", Type: iceberg.PrimitiveTypes.String},
		iceberg.NestedField{ID: 3, Name: "at", Type: iceberg.PrimitiveTypes.TimestampTz},
		iceberg.NestedField{ID: 4, Name: "amount", Type: iceberg.PrimitiveTypes.Float64},
		iceberg.NestedField{ID: 5, Name: "note", Type: iceberg.PrimitiveTypes.String},
	)
}

// Tag is the name of the tag that Build makes.
const Tag = "half-way"

// Build creates the table and fragments it: Files small files in three
// partitions over Commits snapshots, a tag in the middle, and position deletes
// at the end. Neither the table nor its namespace may exist. ctx carries what the
// catalog needs to reach its store. After an error or a cancelled context a part
// of it stays.
func Build(ctx context.Context, cat icebergcatalog.Catalog, ident table.Identifier) error {
	if err := cat.CreateNamespace(ctx, ident[:len(ident)-1], nil); err != nil {
		return fmt.Errorf("create namespace of %v: %w", ident, err)
	}
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{
		SourceIDs: []int{2}, FieldID: 1000, Name: "region", Transform: iceberg.IdentityTransform{},
	})
	tbl, err := cat.CreateTable(ctx, ident, schema(), icebergcatalog.WithPartitionSpec(&spec),
		icebergcatalog.WithProperties(iceberg.Properties{table.WriteDeleteModeKey: table.WriteModeMergeOnRead}))
	if err != nil {
		return fmt.Errorf("create table %v: %w", ident, err)
	}
	for commit := range Commits {
		if tbl, err = appendFiles(ctx, tbl, commit); err != nil {
			return err
		}
		if commit == Commits/2 {
			if tbl, err = tagHead(ctx, tbl, cat, Tag); err != nil {
				return err
			}
		}
	}

	_, err = deleteSome(ctx, tbl)

	return err
}

// appendFiles commits one share of the files as one snapshot.
func appendFiles(ctx context.Context, tbl *table.Table, commit int) (*table.Table, error) {
	sc, err := table.SchemaToArrowSchema(tbl.Schema(), nil, true, false)
	if err != nil {
		return nil, fmt.Errorf("arrow schema: %w", err)
	}
	var added []iceberg.DataFile
	for i := range Files / Commits {
		file := commit*Files/Commits + i
		one := func(yield func(arrow.RecordBatch, error) bool) { yield(batch(sc, file), nil) }
		for df, err := range table.WriteRecords(ctx, tbl, sc, one) {
			if err != nil {
				return nil, fmt.Errorf("write file %d: %w", file, err)
			}
			added = append(added, df)
		}
	}
	tx := tbl.NewTransaction()
	if err := tx.AddDataFiles(ctx, added, nil); err != nil {
		return nil, fmt.Errorf("add files of commit %d: %w", commit, err)
	}
	next, err := tx.Commit(ctx)
	if err != nil {
		return nil, fmt.Errorf("commit %d: %w", commit, err)
	}

	return next, nil
}

// batch makes the rows of one file. All of them are in one region.
func batch(sc *arrow.Schema, file int) arrow.RecordBatch {
	rng := rand.New(rand.NewPCG(seed, uint64(file))) //nolint:gosec // Sample data, not secrets.
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc)
	defer b.Release()
	region := Regions()[file%len(Regions())]
	words := []string{"late", "paid", "open", "returned", "gift", "express"}
	for i := range RowsPerFile {
		id := int64(file*RowsPerFile + i)
		b.Field(0).(*array.Int64Builder).Append(id)      //nolint:forcetypeassert // The schema is ours.
		b.Field(1).(*array.StringBuilder).Append(region) //nolint:forcetypeassert // The schema is ours.
		ts := arrow.Timestamp(1_767_225_600_000_000 + id*1_000_000)
		b.Field(2).(*array.TimestampBuilder).Append(ts) //nolint:forcetypeassert // The schema is ours.
		b.Field(3).(*array.Float64Builder).Append(float64(rng.IntN(100_000)) / 100)
		if rng.IntN(5) == 0 {
			b.Field(4).AppendNull()

			continue
		}
		b.Field(4).(*array.StringBuilder).Append(words[rng.IntN(len(words))])
	}

	return b.NewRecordBatch()
}

func tagHead(ctx context.Context, tbl *table.Table, cat icebergcatalog.Catalog, tag string) (*table.Table, error) {
	update := table.NewSetSnapshotRefUpdate(tag, tbl.CurrentSnapshot().SnapshotID, table.TagRef, 0, 0, 0)
	if _, _, err := cat.CommitTable(ctx, tbl.Identifier(), nil, []table.Update{update}); err != nil {
		return nil, fmt.Errorf("tag %s: %w", tag, err)
	}
	next, err := cat.LoadTable(ctx, tbl.Identifier())
	if err != nil {
		return nil, fmt.Errorf("load %v: %w", tbl.Identifier(), err)
	}

	return next, nil
}

// deleteSome deletes about one row in a hundred, by position, spread over many
// files.
func deleteSome(ctx context.Context, tbl *table.Table) (*table.Table, error) {
	var ids []int64
	for id := int64(deleted); id < Files*RowsPerFile; id += deleteEvery {
		ids = append(ids, id)
	}
	next, err := tbl.Delete(ctx, iceberg.IsIn(iceberg.Reference("id"), ids...), nil)
	if err != nil {
		return nil, fmt.Errorf("delete %d rows: %w", len(ids), err)
	}

	return next, nil
}
