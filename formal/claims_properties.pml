/*
 * What is promised in the claims model, and the probes. Included by claims.pml.
 */

#define NO_LEFTOVER(w) (!(decision[w] == ROLLED_BACK && made_snapshot[w]))
#define CLASH(x, y) ((claims[NODE(x)] & BIT(x)) && (claims[NODE(y)] & BIT(y)) && ticket[x] == ticket[y])
#if WRITERS == 3
#define SOME_CLASH (CLASH(0, 1) || CLASH(0, 2) || CLASH(1, 2))
#else
#define SOME_CLASH (CLASH(0, 1) || CLASH(0, 2) || CLASH(0, 3) || CLASH(1, 2) || CLASH(1, 3) || CLASH(2, 3))
#endif
#if NODES == 2
#define ALL_REGISTERED (registered[0] | registered[1])
#else
#define ALL_REGISTERED (registered[0] | registered[1] | registered[2])
#endif
#define DECIDED(w) (decision[w] != 0)
#define DECIDED_OR_DEAD(w) (decision[w] != 0 || crashed[w])
#define NOT_REJECTED(w) (decision[w] != REJECTED)

ltl NoCatalogConflict { [] EVERY_WRITER(NOT_REJECTED) }
ltl RollbackNoSnapshot { [] EVERY_WRITER(NO_LEFTOVER) }
ltl UniqueTickets { [] !SOME_CLASH }
ltl TicketOrderPreserved { [] !out_of_order }
ltl NoDoubleRegistration { [] ((ALL_REGISTERED & (ALL_REGISTERED - 1)) == 0) }
ltl EventualProgress { <> EVERY_WRITER(DECIDED) }
ltl SurvivorProgress { <> EVERY_WRITER(DECIDED_OR_DEAD) }

/* Probes: states that some configuration has to reach. A probe is searched like a
 * property, and its violation is the proof that the state exists. */

#define WAITS(w) (phase[w] == WAITING)
#define COMMITS(w) (decision[w] == COMMITTED)
#define DIES_HOLDING(w, n, t) (crashed[w] && phase[w] == ENTERED)
#define REAPED(w, n, t) (crashed[w] && phase[w] != DONE && (gone[NODE(w)] & BIT(w)))
#define LINGERS(w, n, t) ((gone[NODE(w)] & BIT(w)) && ALL_VIEWS & BIT(w))
#if NODES == 2
#define ALL_VIEWS (claims[0] | claims[1])
#define OWED(w, n, t) (deferred[w] || deferred[WRITERS + w])
#else
#define ALL_VIEWS (claims[0] | claims[1] | claims[2])
#define OWED(w, n, t) (deferred[w] || deferred[WRITERS + w] || deferred[2 * WRITERS + w])
#endif
#if WRITERS == 3
#define WAITERS (WAITS(0) + WAITS(1) + WAITS(2))
#else
#define WAITERS (WAITS(0) + WAITS(1) + WAITS(2) + WAITS(3))
#endif

ltl ProbeDeferral { [] !SOME(OWED, 0, 0) }
ltl ProbeTwoWaiting { [] (WAITERS < 2) }
ltl ProbeAllCommit { [] !EVERY_WRITER(COMMITS) }
ltl ProbeLateDelete { [] !SOME(LINGERS, 0, 0) }
ltl ProbeDiesHolding { [] !SOME(DIES_HOLDING, 0, 0) }
ltl ProbeReaped { [] !SOME(REAPED, 0, 0) }
ltl ProbeRegistered { [] (ALL_REGISTERED == 0) }
