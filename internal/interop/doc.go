// Package interop shows that other engines and compactor agree about a table.
//
// Its tests have the build tag "interop", because they need Python with
// PyIceberg, DuckDB and Spark (scripts/setup.sh interop). Each engine writes
// tables to the real S3 server and REST catalog, the program maintains them, and
// every engine that could read a table before reads the same rows after, whole
// and through predicates that use bounds and partitions.
//
// The engines run in two Python processes for all tests: one for PyIceberg and
// DuckDB, one for Spark with its JVM. They are asked in lines of JSON.
package interop
