/*
 * The claim protocol of one Iceberg table while every node reaches every other:
 * tickets, acks, deferrals, the node-local lock, reaping, poking, registration.
 *
 * One step of the model is one SQL statement (a d_step), one client decision or
 * one call to the catalog. A configuration is a set of -D switches; the defaults
 * below are the protocol as it is meant to run. formal/configurations lists every
 * combination that is searched, docs/formal.md explains them.
 *
 * Rows: a node's own claims are visible there at once. A peer applies the INSERT
 * and, later, the DELETE of each claim, in the order in which they were written.
 * An ack counts as delivered when it is written: it only ever lets a waiter go
 * on, and the waiter may take any time before it looks.
 */

#ifndef WRITERS
#define WRITERS 3
#endif
#ifdef SHARED_NODES /* Writers 2k and 2k+1 share node k. */
#define NODES ((WRITERS + 1) / 2)
#define NODE(w) ((w) / 2)
#else
#define NODES WRITERS
#define NODE(w) (w)
#endif
#ifndef NODE_LOCK /* One writer per node and table between insert and release. */
#define NODE_LOCK 1
#endif
#ifndef SAFE_ACKS /* Decide and write an answer in one step. */
#define SAFE_ACKS 1
#endif
#ifndef HOLDER_DEFERS /* An entered claim defers whatever the tickets. */
#define HOLDER_DEFERS 1
#endif
#ifndef REAP_INSERT /* The next claimant of a node deletes its orphans. */
#define REAP_INSERT 1
#endif
#ifndef REAP_APPLY /* So does the node when it is about to defer. */
#define REAP_APPLY 1
#endif
#ifndef POKE
#define POKE 1
#endif
#ifndef CRASHES /* 0 or 1: sessions that may die, and their clients with them. */
#define CRASHES 0
#endif
#ifndef LATE_DELETES /* 0: a DELETE reaches every node at once. */
#define LATE_DELETES 1
#endif

/* Where the parent of the compare-and-swap is captured. */
#define UNDER_CLAIM 0
#define BEFORE_CLAIM 1
#define RESTAMPED 2
#ifndef PARENT
#define PARENT UNDER_CLAIM
#endif

/* What a ticket is made from; the node number is always its last digit. */
#define LAMPORT 0        /* The floor alone. */
#define CLOCK_ONLY 1     /* A clock that may show anything, no floor. */
#define CLOCK_PRESENT 2  /* The clock, above the claims that are present. */
#define CLOCK_FLOOR 3    /* The clock, above the persistent floor. */
#ifndef TICKETS
#define TICKETS LAMPORT
#endif
#ifndef CLOCK_RANGE
#define CLOCK_RANGE 2
#endif

/* claim adopt: whether and when the registry is read. */
#define NO_ADOPTION 0
#define READ_BEFORE_CLAIM 1
#define READ_UNDER_CLAIM 2
#ifndef ADOPTION
#define ADOPTION NO_ADOPTION
#endif

/* Phases of a writer, in order. */
#define IDLE 0
#define WAITING 1
#define ENTERED 2
#define DONE 3

/* Decisions. */
#define COMMITTED 1
#define ROLLED_BACK 2
#define REJECTED 3

#define BIT(x) (1 << (x))

byte phase[WRITERS];
byte decision[WRITERS];
byte ticket[WRITERS];
bit crashed[WRITERS];           /* The session is gone, and with it the lock. */
bit made_snapshot[WRITERS];          /* The catalog holds a snapshot of this writer. */
byte claims[NODES];             /* Claims present in the node's own view. */
byte gone[NODES];               /* Claims whose DELETE the node has applied. */
byte acks[WRITERS];             /* Nodes that let this claim pass. */
byte deferred[NODES * WRITERS]; /* 1 + the own claim behind which an ack waits. */
byte floor[NODES];              /* Largest ticket ever seen, without its digit. */
byte registered[NODES];         /* Registrations the node can see. */
byte head;                      /* Number of the snapshot a CAS asserts. */
byte last_ticket;               /* Ticket of the last commit. */
bit out_of_order;               /* A commit carried a smaller ticket. */

hidden byte i, j, smallest; /* Scratch inside one step, no part of a state. */

#if WRITERS == 2
#define SOME(F, n, t) (F(0, n, t) || F(1, n, t))
#define EVERY_WRITER(F) (F(0) && F(1))
#elif WRITERS == 3
#define SOME(F, n, t) (F(0, n, t) || F(1, n, t) || F(2, n, t))
#define EVERY_WRITER(F) (F(0) && F(1) && F(2))
#else
#define SOME(F, n, t) (F(0, n, t) || F(1, n, t) || F(2, n, t) || F(3, n, t))
#define EVERY_WRITER(F) (F(0) && F(1) && F(2) && F(3))
#endif

/* Claim x of node n stands before a claim with ticket t. */
#if HOLDER_DEFERS
#define BLOCKS(x, n, t) (NODE(x) == n && (claims[n] & BIT(x)) && (ticket[x] < (t) || phase[x] == ENTERED))
#else
#define BLOCKS(x, n, t) (NODE(x) == n && (claims[n] & BIT(x)) && ticket[x] < (t))
#endif
#define BLOCKED(n, t) SOME(BLOCKS, n, t)
#define SMALLER(x, n, t) (NODE(x) == n && (claims[n] & BIT(x)) && ticket[x] < (t))
#define LOCKS(x, n, t) (NODE(x) == n && !crashed[x] && (phase[x] == WAITING || phase[x] == ENTERED))
#define LOCKED(n) SOME(LOCKS, n, 0)
#if NODE_LOCK
#define LOCK_FREE(n) (!LOCKED(n))
#else
#define LOCK_FREE(n) true
#endif

/* With NODE_DIES a node dies with its only writer and everybody knows at once;
 * otherwise a crash is the end of a session and the node lives on. */
#ifdef NODE_DIES
#define UP(n) (!crashed[n])
#else
#define UP(n) true
#endif
#if NODES == 2
#define GATE (UP(0) && UP(1))
#define ALL_ACKED(w) (PASSES(w, 0) && PASSES(w, 1))
#else
#define GATE (UP(0) + UP(1) + UP(2) >= 2)
#define ALL_ACKED(w) (PASSES(w, 0) && PASSES(w, 1) && PASSES(w, 2))
#endif
#define PASSES(w, n) (NODE(w) == n || !UP(n) || (acks[w] & BIT(n)))

#ifdef SHARED_NODES
#define REGISTERED_AT(n) (3 << (2 * (n)))
#else
#define REGISTERED_AT(n) BIT(n)
#endif

/* Node n acks claim w. What n has registered travels in the same stream, before. */
inline ack(n, w) {
	acks[w] = acks[w] | BIT(n);
#if ADOPTION
	registered[NODE(w)] = registered[NODE(w)] | (registered[n] & REGISTERED_AT(n));
#endif
	deferred[n * WRITERS + w] = 0
}

/* Delete claim x at its node n and pay the acks owed behind it. */
inline delete_claim(x, n) {
	claims[n] = claims[n] & ~BIT(x);
	gone[n] = gone[n] | BIT(x);
#if !LATE_DELETES
	for (j : 0 .. NODES - 1) {
		claims[j] = claims[j] & ~BIT(x);
		gone[j] = gone[j] | BIT(x);
		deferred[j * WRITERS + x] = 0
	}
#endif
	for (j : 0 .. WRITERS - 1) {
		if
		:: deferred[n * WRITERS + j] == x + 1 -> ack(n, j)
		:: else
		fi
	}
	j = 0
}

/* Delete every ownerless claim of node n. Only while no live writer but the
 * caller holds the node-local lock. */
inline reap(n) {
	for (i : 0 .. WRITERS - 1) {
		if
		:: NODE(i) == n && (claims[n] & BIT(i)) && crashed[i] ->
			delete_claim(i, n);
			acks[i] = 0
		:: else
		fi
	}
	i = 0
}

/* behind = 1 + the smallest claim of node n that stands before ticket t, or 0. */
inline choose_behind(n, t, behind) {
	behind = 0;
	smallest = 255;
	for (i : 0 .. WRITERS - 1) {
		if
		:: BLOCKS(i, n, t) && ticket[i] < smallest -> smallest = ticket[i]; behind = i + 1
		:: else
		fi
	}
	i = 0;
	smallest = 0
}

/* Draw a ticket for writer w at node n. clock is the reading of the node's clock. */
inline draw(w, n, clock) {
#if TICKETS == LAMPORT
	floor[n] = floor[n] + 1;
	ticket[w] = floor[n] * NODES + n
#elif TICKETS == CLOCK_ONLY
	ticket[w] = clock * NODES + n
#elif TICKETS == CLOCK_PRESENT
	j = 0;
	for (i : 0 .. WRITERS - 1) {
		if
		:: (claims[n] & BIT(i)) && ticket[i] / NODES > j -> j = ticket[i] / NODES
		:: else
		fi
	}
	if
	:: j >= clock -> ticket[w] = (j + 1) * NODES + n
	:: else -> ticket[w] = clock * NODES + n
	fi;
	i = 0;
	j = 0
#else
	if
	:: floor[n] >= clock -> floor[n] = floor[n] + 1
	:: else -> floor[n] = clock
	fi;
	ticket[w] = floor[n] * NODES + n
#endif
}

proctype Writer(byte w) {
	byte parent = 0;
	byte clock = 0;
	bit may_register = 0;

#if PARENT != UNDER_CLAIM
	/* The work is staged before the claim is asked for. */
	atomic { !crashed[w] -> parent = head }
#endif
#if ADOPTION == READ_BEFORE_CLAIM
	atomic { !crashed[w] -> may_register = (registered[NODE(w)] == 0) }
#endif
#if TICKETS != LAMPORT
	select (clock : 1 .. CLOCK_RANGE);
#endif

	/* claim: gate, lock, reap, draw, insert. */
	atomic {
		!crashed[w] && GATE && LOCK_FREE(NODE(w)) -> d_step {
#if REAP_INSERT
			reap(NODE(w));
#endif
			draw(w, NODE(w), clock);
			clock = 0;
			claims[NODE(w)] = claims[NODE(w)] | BIT(w);
			phase[w] = WAITING
		}
	}

	/* enter: the check and the mark are one step. */
	atomic {
		!crashed[w] && !SOME(SMALLER, NODE(w), ticket[w]) && ALL_ACKED(w) ->
		phase[w] = ENTERED;
#if ADOPTION == READ_UNDER_CLAIM
		may_register = (registered[NODE(w)] == 0)
#endif
	}

	/* prepare: load the table. */
#if PARENT != BEFORE_CLAIM
	atomic { !crashed[w] -> parent = head };
#endif
#ifdef SESSION_LOSS
	/* holding: the client asks whether the claim is still its own. From here on
	 * the loss of its session no longer stops it. */
	if
	:: !crashed[w]
	:: d_step { crashed[w] -> decision[w] = ROLLED_BACK; parent = 0 }; goto out
	fi;
#endif

	/* decide: one compare-and-swap, or none. */
	atomic {
#ifndef SESSION_LOSS
		!crashed[w];
#endif
		if
		:: d_step {
			head == parent ->
			head++;
			made_snapshot[w] = 1;
			decision[w] = COMMITTED;
			out_of_order = out_of_order || ticket[w] <= last_ticket;
			last_ticket = ticket[w];
			parent = 0 }
		:: d_step { head != parent -> decision[w] = REJECTED; parent = 0 }
		:: d_step { decision[w] = ROLLED_BACK; parent = 0 }
		fi
	}

	/* release: delete, forward, forget, in one transaction. */
	atomic {
		!crashed[w] -> d_step {
#if ADOPTION
			if
			:: may_register && decision[w] == COMMITTED ->
				registered[NODE(w)] = registered[NODE(w)] | BIT(w)
			:: else
			fi;
			may_register = 0;
#endif
			delete_claim(w, NODE(w));
			phase[w] = DONE
		}
	}
out:	skip
}

#include "claims_network.pml"

init {
	atomic {
		for (i : 0 .. NODES - 1) {
			run Applier(i);
#if POKE
			run Poked(i)
#endif
		}
		for (i : 0 .. WRITERS - 1) {
			run Writer(i)
		}
		i = 0
	}
}

#include "claims_properties.pml"
