package testenv

import (
	"os/exec"
	"testing"
)

// Tool returns the path of a program or folder in the cache, where scripts/setup.sh puts what tests need. A missing one ends the test
// with a hint.
func Tool(tb testing.TB, elem ...string) string {
	tb.Helper()
	path, err := cached(elem...)
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Program returns the path of a program that a Debian package brings. A missing one ends the test with a hint.
func Program(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		tb.Fatalf("%v; scripts/setup.sh installs it", err)
	}
	return path
}

// AtEnd has a function called when all tests of the package are over, before Main looks for goroutines that were left. It is for
// processes that several tests share.
func AtEnd(end func()) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.owned = append(shared.owned, end)
}
