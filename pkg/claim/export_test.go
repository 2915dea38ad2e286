package claim

import "testing"

// WithoutProtection takes a protection of mode bakery away from a claimer.
func WithoutProtection(tb testing.TB, c Claimer, name string) {
	tb.Helper()
	off, known := map[string]protection{
		"majority": protectMajority, "agreement": protectAgreement, "lease": protectLease, "resync": protectResync, "commit in flight": protectFlight,
	}[name]
	if !known {
		tb.Fatalf("no protection is called %q", name)
	}
	c.(*bakery).off = off
}
