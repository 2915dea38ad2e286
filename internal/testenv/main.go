package testenv

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, ends every server that they started, and fails the package when a goroutine is left.
// It ends the process and does not return. The developer's settings for PostgreSQL, AWS and the program itself are removed from the
// environment first, so that tests see only what they set.
//
// The ignored goroutines belong to libraries that start them and offer no way to end them.
func Main(m *testing.M) {
	goleak.VerifyTestMain(stopAfter{m},
		// iceberg-go reaches OpenCensus through its Google clients; its statistics worker starts with the import.
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
		// iceberg-go's REST catalog has a transport of its own whose idle connections stay open as long as the server does.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	)
}

// stopAfter ends the shared servers between the tests and the check for goroutines.
type stopAfter struct{ tests *testing.M }

// Run runs the tests and returns their exit code.
func (s stopAfter) Run() int {
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if personal(name) {
			_ = os.Unsetenv(name) // Fails only for a name that no environment can hold.
		}
	}
	code := s.tests.Run()
	shared.stop()
	if transport, ok := http.DefaultTransport.(*http.Transport); ok {
		transport.CloseIdleConnections()
	}
	return code
}

// personal tells whether an environment variable changes what the servers, their clients or the program do.
func personal(name string) bool {
	if name == StateVariable || name == cacheVariable {
		return false
	}
	for _, prefix := range []string{"PG", "AWS_", "S3_", "COMPACTOR_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
