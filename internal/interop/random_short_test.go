//go:build interop && !long

package interop

// randomTables is how many random tables a run makes.
const randomTables = 20
