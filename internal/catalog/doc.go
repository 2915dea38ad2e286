// Package catalog opens Iceberg catalogs from configuration and commits to
// them in a way that can be reasoned about.
//
// REST, SQL (SQLite embedded) and Glue are served. Hive and Hadoop are refused:
// neither swaps a table's metadata only if it is still the expected one, so that
// a commit could silently undo another.
//
// # What a loaded table is
//
// LoadTable asks the catalog every time. The table's FileIO comes from the
// store package and is made anew for each call, with the caller's
// context; where credentials are vended, they are renewed a few minutes before they end.
// Plans are made here, never by the server, and all snapshots are loaded, whatever
// the server prefers.
//
// # What a commit is
//
// CommitTable sends one request on a connection of its own and never repeats
// it: net/http does not, redirects are not followed, and the AWS SDK's retries
// are off for Glue's UpdateTable. The context's deadline bounds it. The
// error tells which of these it was:
//
//	Committed  the catalog said yes
//	Rejected   a clean no: 400, 401, 403, 404, or the request never left
//	Conflict   409, or a requirement that no longer holds
//	Unknown    everything else; the commit may have happened, or still may
//
// A 419 or 429 counts as Unknown: a gateway may answer it for a request that
// it has passed on. Unknown is resolved by loading the table, not here.
//
// # Concurrency
//
// A Catalog may be used by many goroutines.
package catalog
