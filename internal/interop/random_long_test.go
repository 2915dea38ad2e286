//go:build interop && long

package interop

// randomTables is how many random tables a long run makes.
const randomTables = 200
