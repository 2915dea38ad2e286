/*
 * What is promised in the partition model, and the probes. Included by partition.pml.
 */

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
