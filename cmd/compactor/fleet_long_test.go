//go:build long

package main

import "testing"

// The size that a catalog of a company has.
func TestOneCommandMaintains200Tables(t *testing.T) {
	t.Parallel()
	testFleet(t, 200)
}
