package rewrite

import (
	"context"
	"fmt"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// Stage puts the exchange of files on a transaction that stands on the proven
// snapshot: inputs and dead deletes out, outputs in, operation replace. Outputs
// get the data sequence number of that snapshot (format version 2 and up), so
// that a delete committed since still applies to them. props become part of the
// snapshot summary.
//
// Results that failed are left out. Stage writes manifests, and commits nothing;
// after an error, or when the transaction is not committed, those manifests are
// orphans. It may not be called twice on one transaction.
func Stage(ctx context.Context, tx *table.Transaction, results []Result, proof Proof, props iceberg.Properties) error {
	staged, err := tx.StagedTable()
	if err != nil {
		return fmt.Errorf("look at transaction: %w", err)
	}
	if snap := staged.CurrentSnapshot(); snap == nil || snap.SnapshotID != proof.SnapshotID {
		return fmt.Errorf("stage rewrite: the transaction does not stand on snapshot %d, which was proven", proof.SnapshotID)
	}
	rewrite := tx.NewRewrite(props)
	if staged.Metadata().Version() >= 2 {
		rewrite.DataSequenceNumber(proof.SequenceNumber)
	}
	for _, res := range results {
		if res.Err != nil {
			continue
		}
		for _, f := range res.Group.Files {
			rewrite.DeleteFile(f.Data)
		}
		for _, df := range res.Outputs {
			rewrite.AddDataFile(df)
		}
	}
	for _, df := range proof.DeadDeletes {
		rewrite.DeleteFile(df)
	}
	if err := rewrite.Commit(ctx); err != nil {
		return fmt.Errorf("stage rewrite of snapshot %d: %w", proof.SnapshotID, err)
	}

	return nil
}
