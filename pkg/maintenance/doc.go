// Package maintenance decides what a table needs and does it, under the
// table's claim.
//
// # Order of effects
//
// One round of a step that commits has this order, and each line says why a
// crash there loses nothing:
//
//	claim    wait for the table's claim          nothing written yet
//	load     load the table: the CAS parent      nothing written yet
//	plan     manifest entries to groups          nothing written yet
//	rewrite  write new data files                unreferenced files; orphans at worst
//	prove    rows in - deleted = rows out        unreferenced files; orphans at worst
//	stage    write manifests, manifest list      unreferenced files; orphans at worst
//	verify   ask for the claim once more         the claim is lost: nothing is committed
//	commit   one compare-and-swap, never again   the catalog decides, see below
//	release  give the claim back                 the commit is already durable
//	clean up remove what is certainly unreferenced
//
// Nothing that is live before the commit is deleted by a round, and nothing
// that a round wrote is deleted unless it is certain that the commit did not
// happen.
//
// # Unknown answers
//
// A commit request has three classes of answer: yes; a clean no, after which
// nothing was committed; and everything else, a conflict included, because a
// conflict can be the second answer to a request whose first answer was lost.
// After the third class the table is loaded again while the claim is still
// held, and only what the table shows is believed (see resolve.go).
//
// The package owns the small interfaces it needs. It knows no PostgreSQL and
// no configuration file.
package maintenance
