/*
 * What reaches a node in the partition model, the clock, the fault and the end of a
 * session. Included by partition.pml.
 */

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
