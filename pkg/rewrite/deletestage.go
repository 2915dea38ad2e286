package rewrite

import (
	"context"
	"fmt"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// StageDeletes puts a change of delete files on a transaction that stands on the
// snapshot it was prepared for, operation replace. A new file gets the highest
// data sequence number of those it replaces: it names only data files that one of
// them applied to, none of which is newer. props become part of the snapshot
// summary.
//
// It writes manifests, and commits nothing; after an error, or when the
// transaction is not committed, those are orphans. It may not be called twice on
// one transaction.
func StageDeletes(ctx context.Context, tx *table.Transaction, d Deletes, props iceberg.Properties) error {
	staged, err := tx.StagedTable()
	if err != nil {
		return fmt.Errorf("look at transaction: %w", err)
	}
	if snap := staged.CurrentSnapshot(); snap == nil || snap.SnapshotID != d.SnapshotID {
		return fmt.Errorf("stage deletes: the transaction does not stand on snapshot %d", d.SnapshotID)
	}
	change := tx.NewRewrite(props)
	// iceberg-go takes what is removed by name for the sources of what is added,
	// and they have to be of one kind; dangling files are removed beside that.
	var beside table.CompactionGroupResult
	for _, df := range d.Dangling {
		if table.IsDeletionVector(df) {
			beside.SafeDeletionVectors = append(beside.SafeDeletionVectors, df)
		} else {
			beside.SafePosDeletes = append(beside.SafePosDeletes, df)
		}
	}
	change.ApplyResult(beside)
	for _, df := range d.Merged {
		change.DeleteFile(df)
	}
	for _, df := range d.Added {
		change.AddDeleteFileWithDataSequenceNumber(df, d.sequence[df.FilePath()])
	}
	if err := change.Commit(ctx); err != nil {
		return fmt.Errorf("stage deletes of snapshot %d: %w", d.SnapshotID, err)
	}

	return nil
}
