// Package testenv starts the real servers that the tests need and puts faults between them and the program.
//
// Servers are PostgreSQL nodes, a PgBouncer, and a lake: one SeaweedFS process that is both the S3 server and the Iceberg REST
// catalog. They listen on free loopback ports, keep their data in temporary folders, and are gone when the test or the package
// that started them is done. The kernel kills them as well when the test binary itself is killed.
//
// A package whose tests use servers has
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
// Postgres and SharedLake give each test a database and a namespace of its own on servers that are shared: those named in the
// state file $COMPACTOR_TESTENV when it is set (scripts/dev-up.sh writes it), else those that the test binary starts at first use.
// NewPostgres and NewLake start servers that a test may stop, kill and change.
//
// Proxy stands before an HTTP server (catalog or S3) and counts, delays, blocks, drops and falsifies; TCPProxy stands before
// PostgreSQL and stalls and cuts the link.
//
// All functions that take a testing.TB end the test on an error and clean up after it. They are safe for use from several tests
// at once.
package testenv
