// Package rewrite turns many data files of an Apache Iceberg table into few,
// and proves that no row was lost or brought back on the way.
//
// It knows Parquet and Iceberg. It knows no claims and makes no commits: the
// caller holds the table, loads it, and commits what Stage put on its
// transaction.
//
// The work has five parts, always in this order:
//
//	NewPlan   reads manifests only and decides which whole files go together.
//	          It is deterministic: the same snapshot gives the same groups in
//	          the same order.
//	Rewrite   reads each group with its deletes applied and writes its outputs.
//	          Nothing in the table refers to an output yet, so a crash leaves
//	          orphans and no damage.
//	Prove     counts the deleted rows again by a way of its own, compares
//	          rows in, deleted and out, and finds the delete files that no
//	          remaining data file needs.
//	Verify    (optional) reads inputs and outputs again and compares a hash of
//	          every row.
//	Stage     puts the exchange of files on a transaction.
//
// Inputs are never removed here. Outputs are removed when their group fails,
// when the context is cancelled, or through RemoveOutputs.
//
// # The fixed point
//
// A plan of a table that was just compacted is empty. Three rules give that:
// output sizes are chosen inside [MinFileSize, MaxFileSize] where the total
// allows it; a group is kept only when it makes progress (fewer files, fewer
// oversized files, deletes applied, or an old partition spec left behind); and
// a remainder smaller than MinFileSize stays alone until others join it.
//
// # Failure classes
//
// ErrIntegrity means that a count or a hash did not agree: nothing may be
// committed and a person has to look. Every other error leaves the table as it
// was, and the same call may be made again.
package rewrite
