// Package claim lets one writer at a time commit to an Iceberg table.
//
// Commits to a table are compare-and-swaps in the catalog: of two writers that
// prepared at the same time one is rejected and has worked in vain. A claim is
// held from before a writer reads the table's head until after it has committed,
// so that nobody is rejected. The catalog's compare-and-swap stays the last
// fence: a claim can be lost, and then it is what keeps the table right.
//
// # Authority
//
// PostgreSQL decides who holds a claim and who is next; in mode file it is the
// kernel's file lock. This process never concludes from its own state that it
// holds a claim: it asks (Claim.Verify), and it treats silence as no. It does
// conclude on its own that a claim is lost, which is always safe.
//
// # Clock
//
// Only durations on this machine's monotonic clock are compared, never times of
// two machines. The clock keeps counting while the process is stopped. Every yes
// of PostgreSQL is worth one lease (30 s), counted from when the question was
// sent. PostgreSQL ends a session that has been silent for a lease, counted from
// when it had answered, which is later. So a writer that stood still stops
// believing in its claim before anybody else can get it.
//
// The times shown to people (how long a holder has had the table) are the
// holder's own word, by the server's clock, and decide nothing.
//
// # States
//
//	Acquire ──▶ waiting ──granted──▶ held ──Release──▶ released
//	               │                  │
//	               │ timeout, cancel  │ server says no, session ended,
//	               ▼                  ▼ no answer or no sign of life for a lease
//	            nothing              lost
//
// Waiting is one statement that blocks in PostgreSQL, whose queue is first come,
// first served. It has no time limit of its own; a second connection looks at who
// is in the way. Held means that one goroutine owns the connection and asks every
// 5 s; between questions it reads, so that a farewell of the server is seen at
// once. Released and lost are final: the claim's context has ended, Verify says
// ErrLost, Release does nothing.
//
// # Guarantees
//
//   - Two claims with equal keys in one mode are never held at once, as far as the
//     authority knows. A holder that the authority has given up finds out by itself
//     within a lease, and at the latest by Verify.
//   - A claim's context ends, with the cause, when the claim is lost.
//   - When Acquire returns an error nothing is held, queued or left behind.
//   - Release runs to its end whatever happened to its context, within a bound.
//   - Whoever queued before a Release goes before the releaser's next Acquire. In
//     mode file this holds for the first in the queue.
//   - A commit sent after Verify and finished before its deadline is covered by the
//     claim unless the session was ended from outside in between.
//
// # Failures
//
//	what happens                    what the writer sees           when the table is free
//	writer returns or panics        Release (deferred)             at once
//	writer is killed                -                              when the server sees the connection end
//	writer is stopped (SIGSTOP)     lost, as soon as it goes on    after a lease of silence
//	network is silent               lost after a lease             after a lease of silence
//	network resets the connection   lost at once                   at once
//	session is ended by an admin    lost at once                   at once
//	PostgreSQL restarts             lost at once                   at once
//	client dies while it queues     -                              its place is dropped within 5 s
//	client stops while it queues    -                              a lease after its turn came
//	parent context ends             the context ends; still held   with Release
//	PostgreSQL unreachable          Acquire fails                  -
//	standby, pooler, bad TLS,       *SetupError from Open          -
//	missing grant, half-set mesh
//	no majority (mode bakery)       lost after half a window       with Release, or when the time is
//	                                                              over that Verify gave to a commit
//	lock file removed (mode file)   lost within 5 s                at once
//
// # Modes
//
// coldfront calls ColdFront's own claim function in a transaction that stays open
// while the claim is held. On a mesh of several nodes a wait cannot simply be
// cancelled, because the row that announces the claim is committed before the
// wait; the type retreat says how it is given up.
//
// bakery inserts a row in schema bakery of its own node, which replication
// carries to the other nodes of the mesh, and enters when each has acked it or is
// known to be dead. Its waits are two: PostgreSQL's queue on the node, then the
// peers, in ticket order. A yes is worth half of Config.Window instead of a lease;
// a writer that has been out of contact with a majority of the nodes for that long
// has lost its claim. Package claim/bakery installs it.
//
// advisory takes a session-level advisory lock of one PostgreSQL. file takes a
// flock on a local file. none takes nothing. auto asks the database which of
// coldfront and bakery it offers and refuses to guess.
//
// # For writers in other languages
//
// A writer that is no Go program takes the same claim as mode advisory with
//
//	SET idle_session_timeout = '30s';
//	SELECT pg_advisory_lock(hashtextextended('iceberg:' || 'analytics"sales"."orders"', 0));
//	-- read the head, write, commit to the catalog; ask something every 5 s
//	SELECT pg_advisory_unlock(hashtextextended('iceberg:' || 'analytics"sales"."orders"', 0));
//
// and as mode bakery with
//
//	CALL bakery.acquire('analytics"sales"."orders"', 'who I am'); -- the ticket
//	SELECT bakery.keep(ticket);    -- every few seconds and before the commit
//	SELECT bakery.release('analytics"sales"."orders"', ticket);
//
// on a direct connection, where the text after the prefix is Key.String: the
// realm followed by the quoted names, joined by dots, as the catalog spells them.
// The claim of mode coldfront, by hand, is
//
//	BEGIN;
//	SELECT coldfront._claim_iceberg_external('"ice"."sales"."orders"');
//	-- read the head, write, commit to the catalog
//	COMMIT;
//
// and that of mode file is flock(1) on the file named by the SHA-256 of the key.
package claim
