package testenv

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a package, ends every server that they started, and fails the package when a goroutine is left.
// It ends the process and does not return.
//
// The ignored goroutines belong to libraries that start them once per process and offer no way to end them.
func Main(m *testing.M) {
	goleak.VerifyTestMain(stopAfter{m},
		// iceberg-go reaches OpenCensus through its Google clients; its statistics worker starts with the import.
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
	)
}

// stopAfter ends the shared servers between the tests and the check for goroutines.
type stopAfter struct{ tests *testing.M }

// Run runs the tests and returns their exit code.
func (s stopAfter) Run() int {
	code := s.tests.Run()
	shared.stop()
	if transport, ok := http.DefaultTransport.(*http.Transport); ok {
		transport.CloseIdleConnections()
	}
	return code
}
