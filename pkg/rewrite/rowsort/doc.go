// Package rowsort puts the rows of Arrow batches in an Iceberg sort order, in
// bounded memory.
//
// An Order is a list of keys: a column, which may lie inside structs, a
// transform, a direction, and the place of nulls. It comes from a table's
// metadata (FromTable) or from text (Parse). Every row has one key of bytes that
// compare as the order says, so that sorting, merging and checking need one
// comparison.
//
// A Sorter takes batches and gives the same rows back in order. Each batch is
// sorted on its own as it arrives. When the batches fill the memory they are
// merged into one run, which is written to a file; at the end the runs are
// merged. The sort is stable: rows with equal keys keep the order in which they
// came. Files are written in Arrow's own format, compressed; they have lost their
// name before the first byte is written, so that the system frees them however
// the process ends.
//
// A Checker looks at finished batches and finds rows that are out of order. It
// makes the keys anew and trusts nothing that the Sorter did.
//
// # How values compare
//
// Numbers by value; floats by IEEE 754 total order, which puts -NaN before
// -infinity, -0 before +0, and NaN after +infinity; texts by their UTF-8 bytes;
// binary, fixed and uuid by unsigned bytes; false before true. A null comes first
// or last whatever the direction. A field of a missing struct is null.
package rowsort
