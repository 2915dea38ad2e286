/*
 * What reaches a node in the claims model: rows of peers, pokes, and the end of a
 * session. Included by claims.pml.
 */

/* Row x of its home node is still to be applied at node n. */
#define INSERT_DUE(x, n) (NODE(x) != n && !((claims[n] | gone[n]) & BIT(x)) && ((claims[NODE(x)] | gone[NODE(x)]) & BIT(x)))
#define DELETE_DUE(x, n) (NODE(x) != n && (claims[n] & BIT(x)) && (gone[NODE(x)] & BIT(x)))

inline raise_floor(n, t) {
#if TICKETS == LAMPORT || TICKETS == CLOCK_FLOOR
	if
	:: t / NODES > floor[n] -> floor[n] = t / NODES
	:: else
	fi
#else
	skip
#endif
}

inline answer(n, x, behind) {
	if
	:: behind -> deferred[n * WRITERS + x] = behind
	:: else -> ack(n, x)
	fi;
	behind = 0
}

/* The apply-claim trigger on INSERT. */
inline apply_insert(n, x) {
	claims[n] = claims[n] | BIT(x);
	raise_floor(n, ticket[x]);
#if REAP_APPLY
	if
	:: BLOCKED(n, ticket[x]) && !LOCKED(n) -> reap(n)
	:: else
	fi;
#endif
	choose_behind(n, ticket[x], behind)
}

/* The apply-claim trigger on DELETE. */
inline apply_delete(n, x) {
	claims[n] = claims[n] & ~BIT(x);
	gone[n] = gone[n] | BIT(x);
	deferred[n * WRITERS + x] = 0
}

#define IDLE_WORKER (UP(n) && pending == 0)
#if SAFE_ACKS
#define APPLY_INSERT(x) d_step { IDLE_WORKER && INSERT_DUE(x, n) -> apply_insert(n, x); answer(n, x, behind) }
#else
#define APPLY_INSERT(x) d_step { IDLE_WORKER && INSERT_DUE(x, n) -> apply_insert(n, x); pending = x + 1 }
#endif
#define APPLY_DELETE(x) d_step { IDLE_WORKER && DELETE_DUE(x, n) -> apply_delete(n, x) }

/* The apply worker of node n. */
proctype Applier(byte n) {
	byte pending = 0; /* 1 + the claim whose answer is decided and not yet written. */
	byte behind = 0;

end:	do
	:: APPLY_INSERT(0)
	:: APPLY_INSERT(1)
#if WRITERS > 2
	:: APPLY_INSERT(2)
#endif
#if WRITERS > 3
	:: APPLY_INSERT(3)
#endif
#if !SAFE_ACKS
	:: d_step { pending > 0 -> answer(n, (pending - 1), behind); pending = 0 }
#endif
#if LATE_DELETES
	:: APPLY_DELETE(0)
	:: APPLY_DELETE(1)
#if WRITERS > 2
	:: APPLY_DELETE(2)
#endif
#if WRITERS > 3
	:: APPLY_DELETE(3)
#endif
#endif
	od
}

#if POKE
/* A poke of waiter w is felt at node n: its claim is there without an ack, and
 * either nothing stands before it, or what does is ownerless. Pokes that would
 * change nothing are left out, so that every run ends. */
#if REAP_APPLY
#define NOTHING_OWNED_BEFORE(w, n) (!BLOCKED(n, ticket[w]) || !LOCKED(n))
#else
#define NOTHING_OWNED_BEFORE(w, n) (!BLOCKED(n, ticket[w]))
#endif
#define FELT(w, n) (NODE(w) != n && UP(n) && !crashed[w] && phase[w] == WAITING && (claims[n] & BIT(w)) && !(acks[w] & BIT(n)) && NOTHING_OWNED_BEFORE(w, n))
#define POKE_OF(w) d_step { FELT(w, n) -> if :: BLOCKED(n, ticket[w]) -> reap(n) :: else fi; ack(n, w) }

/* Pokes that arrive at node n: the apply-claim trigger on UPDATE. */
proctype Poked(byte n) {
end:	do
	:: POKE_OF(0)
	:: POKE_OF(1)
#if WRITERS > 2
	:: POKE_OF(2)
#endif
#if WRITERS > 3
	:: POKE_OF(3)
#endif
	od
}
#endif

#if CRASHES
/* With NODE_USED_AGAIN only a writer dies whose node has another one to come. */
#ifdef NODE_USED_AGAIN
#define YET_TO_COME(x, n, t) (NODE(x) == n && !crashed[x] && phase[x] == IDLE && x != t)
#define MAY_DIE(w) (!crashed[w] && phase[w] != DONE && SOME(YET_TO_COME, NODE(w), w))
#else
#define MAY_DIE(w) (!crashed[w] && phase[w] != DONE)
#endif

/* One session may die at any point between two statements, or none. */
active proctype Crash() {
	if
	:: d_step { MAY_DIE(0) -> crashed[0] = 1 }
	:: d_step { MAY_DIE(1) -> crashed[1] = 1 }
#if WRITERS > 2
	:: d_step { MAY_DIE(2) -> crashed[2] = 1 }
#endif
#if WRITERS > 3
	:: d_step { MAY_DIE(3) -> crashed[3] = 1 }
#endif
	:: skip
	fi
}
#endif
