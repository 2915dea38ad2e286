/*
 * The claim protocol of one Iceberg table while connections fail: the gate,
 * resync, skipping of silent peers, majority, agreement, the lease, holder-defers
 * and receipt-refresh. Every node has one writer at most.
 *
 * Time is an order. A tick is half a window: it makes every interrupted contact
 * one step older. At age 1 a node no longer counts the peer as a contact (the
 * lease), at age 2 it may suspect the peer. All clocks tick together; real ones
 * differ by less than the half window that lies between the two.
 *
 * Rows: a node's rows reach a peer in the order of their writing, one at a time,
 * and only while the stream to that peer flows. rows[n] counts what node n wrote
 * about its own claims: INSERT, DELETE, INSERT, DELETE.
 */

#ifndef NODES
#define NODES 3
#endif
#ifndef IDLE_NODES /* Mask of nodes that have no writer. */
#define IDLE_NODES 0
#endif

/* Which streams stop, all at one moment. */
#define LINK 1     /* Both ways between node 0 and node 1. */
#define ISOLATED 2 /* All of node 0. */
#define SPLIT 3    /* Both ways between nodes {0, 1} and {2, 3}. */
#define DEAF 4     /* Rows of others no longer reach node 0. */
#define MUTE 5     /* Rows of node 0 no longer reach others. */
#define ONE_WAY 6  /* Rows of node 1 no longer reach node 0. */
#ifndef FAULT
#define FAULT ISOLATED
#endif
#ifndef HEAL /* 1: the fault ends at any later time, but it ends. */
#define HEAL 1
#endif
#ifndef CRASHES /* 1: one session may die at any time, its client with it. */
#define CRASHES 0
#endif

#ifndef MAJORITY_AT_SKIP
#define MAJORITY_AT_SKIP 1
#endif
#ifndef AGREEMENT
#define AGREEMENT 1
#endif
#ifndef FRESH_ANSWERS
#define FRESH_ANSWERS AGREEMENT
#endif
#ifndef HEARD_VOUCHES /* A peer that heard the suspect again speaks for it. */
#define HEARD_VOUCHES 1
#endif
#ifndef LEASE
#define LEASE 1
#endif
#ifndef STICKY_LEASE
#define STICKY_LEASE 1
#endif
#ifndef HOLDER_DEFERS
#define HOLDER_DEFERS 1
#endif
#ifndef RECEIPT_REFRESH
#define RECEIPT_REFRESH 1
#endif
#ifndef RESYNC
#define RESYNC 1
#endif
#ifndef RESYNC_FLOOR /* A peer that is in contact again also tells its floor. */
#define RESYNC_FLOOR RESYNC
#endif
#ifndef TWO_WAY_CONTACT /* 0: a peer that answers on our own stream is a contact. */
#define TWO_WAY_CONTACT 1
#endif
#ifndef CAS_TICKS /* Ticks that may pass between the check and the CAS. */
#define CAS_TICKS 1
#endif

#define IDLE 0
#define WAITING 1
#define ENTERED 2
#define CHECKED 3
#define DONE 4

#define COMMITTED 1
#define ROLLED_BACK 2
#define REJECTED 3

#define AT(n, p) ((n) * NODES + (p))

bit cut;                     /* The fault is on. */
byte age[NODES * NODES];     /* AT(n, p): age of n's contact with p. */
byte agreed[NODES];          /* Suspects for whom no peer of n vouched. */
byte target[NODES * NODES];  /* AT(n, p): claims of p that n must apply before it draws. */
byte phase[NODES];
byte decision[NODES];
bit made_snapshot[NODES];
bit lost[NODES];             /* The lease ran out under the present claim. */
bit crashed[NODES];
byte elapsed[NODES];         /* Ticks since the check before the CAS. */
byte rows[NODES];
byte applied[NODES * NODES]; /* AT(n, w): rows of w that n has applied. */
byte ticket[NODES * 2];      /* Of the first and the second claim of a node. */
byte floor[NODES];
byte deferred[NODES * NODES]; /* AT(n, w): claim of w whose ack n owes, or 0. */
byte sent[NODES * NODES];    /* AT(n, w): latest claim of w that n acked. */
byte got[NODES * NODES];     /* AT(w, n): the same as w knows it. */
byte head, last_ticket;
bit out_of_order;
hidden byte i, j;

#if FAULT == LINK
#define CUTS(n, p) ((n) + (p) == 1)
#elif FAULT == ISOLATED
#define CUTS(n, p) ((n) != (p) && ((n) == 0 || (p) == 0))
#elif FAULT == SPLIT
#define CUTS(n, p) ((n) / 2 != (p) / 2)
#elif FAULT == DEAF
#define CUTS(n, p) ((n) != (p) && (p) == 0)
#elif FAULT == MUTE
#define CUTS(n, p) ((n) != (p) && (n) == 0)
#else
#define CUTS(n, p) ((n) == 1 && (p) == 0)
#endif
#define FLOWS(n, p) (!(cut && CUTS(n, p)))

/* Contact of n with p is interrupted by the fault. A node sees the heartbeat of
 * a peer on the stream it sends to that peer. */
#if TWO_WAY_CONTACT
#define UNHEARD(n, p) (CUTS(n, p) || CUTS(p, n))
#else
#define UNHEARD(n, p) (CUTS(n, p))
#endif

#if NODES == 3
#define COUNT(F, n) (F(n, 0) + F(n, 1) + F(n, 2))
#define ALL(F, n) (F(n, 0) && F(n, 1) && F(n, 2))
#define EVERY(F) (F(0) && F(1) && F(2))
#define ANY3(F, n, p) (F(n, p, 0) || F(n, p, 1) || F(n, p, 2))
#else
#define COUNT(F, n) (F(n, 0) + F(n, 1) + F(n, 2) + F(n, 3))
#define ALL(F, n) (F(n, 0) && F(n, 1) && F(n, 2) && F(n, 3))
#define EVERY(F) (F(0) && F(1) && F(2) && F(3))
#define ANY3(F, n, p) (F(n, p, 0) || F(n, p, 1) || F(n, p, 2) || F(n, p, 3))
#endif

/* Ages. HEARD: rows of the peer arrive again, so it is not suspected, and is no
 * contact either before it has answered. */
#define FRESH 0
#define SUSPECT 2
#define HEARD 3
#define IN_CONTACT(n, p) (!UNHEARD(n, p) || age[AT(n, p)] == FRESH)
#define SUSPECTED(n, p) (UNHEARD(n, p) && age[AT(n, p)] == SUSPECT)
#define MAJORITY(n) (2 * COUNT(IN_CONTACT, n) > NODES)

/* A peer q that n reaches says that it reaches p. With FRESH_ANSWERS it was asked
 * by a poke of the present claim, after the suspicion arose, and the verdict is
 * kept in agreed. Without, the answer may be older than the suspicion: all that
 * counts is whether the fault touched q at all. */
#if HEARD_VOUCHES
#define REACHES(q, p) (!SUSPECTED(q, p))
#else
#define REACHES(q, p) IN_CONTACT(q, p)
#endif
#if FRESH_ANSWERS
#define VOUCHES(n, p, q) ((q) != (n) && (q) != (p) && IN_CONTACT(n, q) && (REACHES(q, p) || applied[AT(q, n)] != CLAIM_NO(n)))
#define NOBODY_VOUCHED(n, p) (agreed[n] & (1 << (p)))
#else
#define VOUCHES(n, p, q) ((q) != (n) && (q) != (p) && !UNHEARD(n, q) && !UNHEARD(q, p))
#define NOBODY_VOUCHED(n, p) (!ANY3(VOUCHES, n, p))
#endif
#if MAJORITY_AT_SKIP
#define MAJORITY_ALLOWS(n) MAJORITY(n)
#else
#define MAJORITY_ALLOWS(n) true
#endif
#if AGREEMENT
#define PEERS_AGREE(n, p) NOBODY_VOUCHED(n, p)
#else
#define PEERS_AGREE(n, p) true
#endif
#define SKIPS(n, p) (SUSPECTED(n, p) && MAJORITY_ALLOWS(n) && PEERS_AGREE(n, p))

#define CLAIM_NO(w) ((rows[w] + 1) / 2)
#define PRESENT(w) (rows[w] & 1)
/* An ack counts as delivered when sent, unless its stream is one that can stop. */
#define ACKED(w, n) ((CUTS(n, w) && got[AT(w, n)] == CLAIM_NO(w)) || (!CUTS(n, w) && sent[AT(n, w)] == CLAIM_NO(w)))
#define PASSES(w, n) ((w) == (n) || ACKED(w, n) || SKIPS(w, n))

#if RESYNC
#define CAUGHT_UP(n, p) (!IN_CONTACT(n, p) || target[AT(n, p)] <= applied[AT(n, p)])
#else
#define CAUGHT_UP(n, p) true
#endif

#if LEASE
#if STICKY_LEASE
#define LOST(n) (lost[n])
#else
#define LOST(n) (!MAJORITY(n))
#endif
#else
#define LOST(n) false
#endif

#if CRASHES
#define LIVE(n) (!crashed[n])
#else
#define LIVE(n) true
#endif

/* Delete the claim of node n and pay the acks owed behind it. */
inline delete_claim(n) {
	rows[n]++;
	for (j : 0 .. NODES - 1) {
		if
		:: deferred[AT(n, j)] > 0 -> sent[AT(n, j)] = deferred[AT(n, j)]; deferred[AT(n, j)] = 0
		:: else
		fi
	}
	j = 0
}

/* Give the claim back and start again. */
inline withdraw(n) {
	delete_claim(n);
	phase[n] = IDLE;
	lost[n] = 0;
	elapsed[n] = 0;
	parent = 0
}

proctype Writer(byte n) {
	byte parent = 0;

	/* claim: gate, resync, draw, insert. */
again:	atomic {
		LIVE(n) && MAJORITY(n) && ALL(CAUGHT_UP, n) -> d_step {
			assert(rows[n] < 3);
			floor[n]++;
			ticket[2 * n + rows[n] / 2] = floor[n] * NODES + n;
			rows[n]++;
			agreed[n] = 0;
			phase[n] = WAITING
		}
	}
	/* enter, and prepare: the table is loaded as early as it can be. A later load
	 * would only hide what comes in between. */
	if
	:: atomic { LIVE(n) && ALL(PASSES, n) && !LOST(n) -> phase[n] = ENTERED; agreed[n] = 0; parent = head }
	:: d_step { LIVE(n) && LOST(n) -> withdraw(n) }; goto again
	fi;
	/* holding: the check before the CAS. */
	if
	:: atomic { LIVE(n) && !LOST(n) -> phase[n] = CHECKED }
	:: d_step { LIVE(n) && LOST(n) -> withdraw(n) }; goto again
	fi;
	/* decide. */
	if
	:: d_step {
		LIVE(n) && head == parent ->
		head++;
		made_snapshot[n] = 1;
		decision[n] = COMMITTED;
		out_of_order = out_of_order || ticket[2 * n + rows[n] / 2] <= last_ticket;
		last_ticket = ticket[2 * n + rows[n] / 2];
		elapsed[n] = 0;
		parent = 0 }
	:: d_step { LIVE(n) && head != parent -> decision[n] = REJECTED; parent = 0 }
#ifdef ABORTS
	:: d_step { LIVE(n) -> decision[n] = ROLLED_BACK; parent = 0 }
#endif
	fi;
	/* release. */
	d_step { LIVE(n) -> delete_claim(n); phase[n] = DONE; lost[n] = 0; elapsed[n] = 0 }
}

#include "partition_network.pml"

init {
	atomic {
		for (i : 0 .. NODES - 1) {
			run Net(i);
			if
			:: !((IDLE_NODES >> i) & 1) -> run Writer(i)
			:: else
			fi
		}
		i = 0
	}
}

#include "partition_properties.pml"
