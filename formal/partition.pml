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

/* Node n receives something of peer p: the belief that p is dead ends. While the
 * fault lasts the belief would only be put off by a window, so that is left out. */
inline receipt(to, from) {
#if RECEIPT_REFRESH
	if
	:: UNHEARD(to, from) && !cut && age[AT(to, from)] != FRESH -> age[AT(to, from)] = HEARD; agreed[to] = agreed[to] & ~(1 << from)
	:: else
	fi
#else
	skip
#endif
}

#define OWN_TICKET(n) ticket[2 * (n) + CLAIM_NO(n) - 1]
#if HOLDER_DEFERS
#define BLOCKS(n, t) (PRESENT(n) && (OWN_TICKET(n) < (t) || phase[n] >= ENTERED))
#else
#define BLOCKS(n, t) (PRESENT(n) && OWN_TICKET(n) < (t))
#endif

/* Node n applies the next claim of w, and the DELETE of the one before. */
inline apply_claim(n, w) {
	receipt(n, w);
	i = ticket[2 * w + applied[AT(n, w)]];
	applied[AT(n, w)]++;
	if
	:: target[AT(n, w)] <= applied[AT(n, w)] -> target[AT(n, w)] = 0
	:: else
	fi;
	if
	:: i / NODES > floor[n] -> floor[n] = i / NODES
	:: else
	fi;
#if CRASHES
	if
	:: crashed[n] && BLOCKS(n, i) -> delete_claim(n)
	:: else
	fi;
#endif
	if
	:: BLOCKS(n, i) -> deferred[AT(n, w)] = applied[AT(n, w)]
	:: else -> sent[AT(n, w)] = applied[AT(n, w)]; deferred[AT(n, w)] = 0
	fi;
	i = 0
}

/* Peer p answers a poke of n, which it has therefore received. The answer carries
 * the number of claims p has written and, with RESYNC_FLOOR, its floor. */
inline answer_of(me, peer) {
	receipt(peer, me);
	age[AT(me, peer)] = FRESH;
	agreed[me] = agreed[me] & ~(1 << peer);
#if RESYNC
	if
	:: applied[AT(me, peer)] < CLAIM_NO(peer) -> target[AT(me, peer)] = CLAIM_NO(peer)
	:: else
	fi;
#endif
#if RESYNC_FLOOR
	if
	:: floor[peer] > floor[me] -> floor[me] = floor[peer]
	:: else
	fi
#endif
}

#define CLAIM_DUE(n, w) ((w) != (n) && FLOWS(w, n) && applied[AT(n, w)] < CLAIM_NO(w))
#define ACK_DUE(n, w) ((w) != (n) && CUTS(w, n) && FLOWS(w, n) && got[AT(n, w)] < sent[AT(w, n)])
#define ANSWER_DUE(n, p) (!cut && UNHEARD(n, p) && age[AT(n, p)] != FRESH)
#define VERDICT_DUE(n, p) (phase[n] == WAITING && SUSPECTED(n, p) && !(agreed[n] & (1 << (p))) && MAJORITY(n) && !ANY3(VOUCHES, n, p))
/* A poke of w at a node whose own claim is ownerless. */
#define POKE_DUE(n, w) ((w) != (n) && FLOWS(w, n) && crashed[n] && PRESENT(n) && LIVE(w) && PRESENT(w) && applied[AT(n, w)] == CLAIM_NO(w) && deferred[AT(n, w)] == CLAIM_NO(w))

#define APPLY(w) d_step { CLAIM_DUE(n, w) -> apply_claim(n, w) }
#define DELIVER(w) d_step { ACK_DUE(n, w) -> receipt(n, w); got[AT(n, w)] = sent[AT(w, n)] }
#if FAULT == SPLIT
/* The two contacts of a node on the other side come back together. */
#define ANSWER(p) d_step { ANSWER_DUE(n, p) -> answer_of(n, p); answer_of(n, ((p) ^ 1)) }
#else
#define ANSWER(p) d_step { ANSWER_DUE(n, p) -> answer_of(n, p) }
#endif
#define VERDICT(p) d_step { VERDICT_DUE(n, p) -> agreed[n] = agreed[n] | (1 << p) }
#define POKED(w) d_step { POKE_DUE(n, w) -> delete_claim(n) }

/* What reaches node n. */
proctype Net(byte n) {
end:	do
	:: APPLY(0)
	:: APPLY(1)
	:: APPLY(2)
	:: DELIVER(0)
	:: DELIVER(1)
	:: DELIVER(2)
	:: ANSWER(0)
	:: ANSWER(1)
	:: ANSWER(2)
#if FRESH_ANSWERS
	:: VERDICT(0)
	:: VERDICT(1)
	:: VERDICT(2)
#endif
#if CRASHES
	:: POKED(0)
	:: POKED(1)
	:: POKED(2)
#endif
#if NODES == 4
	:: APPLY(3)
	:: DELIVER(3)
	:: ANSWER(3)
#if FRESH_ANSWERS
	:: VERDICT(3)
#endif
#if CRASHES
	:: POKED(3)
#endif
#endif
	od
}

#define IN_TIME(n) (!(phase[n] == CHECKED && decision[n] == 0 && elapsed[n] >= CAS_TICKS && LIVE(n)))
#define AGES(n, p) (UNHEARD(n, p) && age[AT(n, p)] < SUSPECT && (cut || age[AT(n, p)] != FRESH))
#define SOME_AGES(n) (COUNT(AGES, n) > 0)
#define NONE_AGES(n) (COUNT(AGES, n) == 0)

/* Half a window passes. A contact that has come back no longer ages. */
active proctype Clock() {
end:	do
	:: d_step {
		!EVERY(NONE_AGES) && EVERY(IN_TIME) ->
		for (i : 0 .. NODES - 1) {
			if
			:: phase[i] == CHECKED && decision[i] == 0 -> elapsed[i]++
			:: else
			fi;
			for (j : 0 .. NODES - 1) {
				if
				:: AGES(i, j) -> age[AT(i, j)]++
				:: else
				fi
			}
			if
			:: LEASE && STICKY_LEASE && PRESENT(i) && !MAJORITY(i) -> lost[i] = 1
			:: else
			fi
		}
		i = 0;
		j = 0
	}
	od
}

active proctype Fault() {
	cut = 1;
#if HEAL
	cut = 0
#endif
}

#if CRASHES
#define MAY_DIE(n) (!crashed[n] && phase[n] != DONE)
active proctype Crash() {
	if
	:: d_step { MAY_DIE(0) -> crashed[0] = 1 }
	:: d_step { MAY_DIE(1) -> crashed[1] = 1 }
	:: d_step { MAY_DIE(2) -> crashed[2] = 1 }
#if NODES == 4
	:: d_step { MAY_DIE(3) -> crashed[3] = 1 }
#endif
	:: skip
	fi
}
#endif

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

#define NO_LEFTOVER(w) (!(decision[w] == ROLLED_BACK && made_snapshot[w]))
#define NOT_REJECTED(w) (decision[w] != REJECTED)
#define CLASH(x, y) (PRESENT(x) && PRESENT(y) && OWN_TICKET(x) == OWN_TICKET(y))
#if NODES == 3
#define SOME_CLASH (CLASH(0, 1) || CLASH(0, 2) || CLASH(1, 2))
#else
#define SOME_CLASH (CLASH(0, 1) || CLASH(0, 2) || CLASH(0, 3) || CLASH(1, 2) || CLASH(1, 3) || CLASH(2, 3))
#endif

#define FINISHED(n) (decision[n] != 0 || ((IDLE_NODES >> n) & 1) || !LIVE(n))
#define FINISHED_OR_CUT_OFF(n) (FINISHED(n) || n == 0)

/* Progress is checked where a run ends: no step is left, so whoever is not done
 * by then never will be. That is progress under weak fairness, because every run
 * ends; RunsEnd shows that by a search for cycles. */
#ifdef END_EventualProgress
active proctype Monitor() { timeout -> assert(EVERY(FINISHED)) }
#elif defined(END_MajorityProgress)
active proctype Monitor() { timeout -> assert(EVERY(FINISHED_OR_CUT_OFF)) }
#elif !defined(END_RunsEnd)
ltl NoCatalogConflict { [] EVERY(NOT_REJECTED) }
ltl RollbackNoSnapshot { [] EVERY(NO_LEFTOVER) }
ltl UniqueTickets { [] !SOME_CLASH }
ltl TicketOrderPreserved { [] !out_of_order }

/* Probes. */
#define LET_PASS(n, p) (p == n || ACKED(n, p))
#define WENT_WITHOUT_ACK(n) (phase[n] == ENTERED && !ALL(LET_PASS, n))
#define WITHDREW(n) (rows[n] == 2 && decision[n] == 0)
#define COMMITS_LATER(n) (rows[n] >= 3 && decision[n] == COMMITTED)
#define IN_FLIGHT(n) (phase[n] == CHECKED && elapsed[n] > 0)
#define OWES_SMALLER(n, w) (phase[n] >= ENTERED && PRESENT(n) && PRESENT(w) && deferred[AT(n, w)] == CLAIM_NO(w) && OWN_TICKET(w) < OWN_TICKET(n))
#define HOLDER_DEFERRED(n) (COUNT(OWES_SMALLER, n) > 0)
#define WRONGLY_SUSPECTS(n, p) (!cut && SUSPECTED(n, p))
#define LAGS(n) (COUNT(WRONGLY_SUSPECTS, n) > 0)
#define APPLIES_LATE(n, w) (w != n && rows[w] >= 2 && applied[AT(n, w)] == 0)
#define LATE(n) (COUNT(APPLIES_LATE, n) > 0)
#define REAPED(n) (crashed[n] && rows[n] == 2 && phase[n] != DONE && phase[n] != IDLE)
#define NONE(F) (!(F(0)) && !(F(1)) && !(F(2)))
ltl ProbeSkipped { [] NONE(WENT_WITHOUT_ACK) }
ltl ProbeWithdrawn { [] NONE(WITHDREW) }
ltl ProbeCommitsLater { [] NONE(COMMITS_LATER) }
ltl ProbeInFlight { [] NONE(IN_FLIGHT) }
ltl ProbeHolderDefers { [] NONE(HOLDER_DEFERRED) }
ltl ProbeBeliefLags { [] NONE(LAGS) }
ltl ProbeLateInsert { [] NONE(LATE) }
ltl ProbeReaped { [] NONE(REAPED) }
#endif
