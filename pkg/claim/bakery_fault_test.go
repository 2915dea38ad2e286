package claim_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fault is something that happens to a mesh while its writers work.
type fault struct {
	name string
	// strike brings the fault about and returns when it is over.
	strike func(t *testing.T, s *siege)
	// hit lists the nodes whose writers may stand still while it lasts; the others go on within twice the window.
	hit []int
	// pace is how long the writers take.
	pace pace
}

// quickly and slowly are writers with short and long holds; a long one lasts for longer than a window.
func quickly() pace { return pace{Hold: 2 * time.Millisecond, Rest: 100 * time.Millisecond} }
func slowly() pace {
	return pace{Hold: faultWindow + faultWindow/2, Way: 300 * time.Millisecond, Rest: 100 * time.Millisecond}
}
func flying() pace {
	return pace{Hold: 2 * time.Millisecond, Way: 300 * time.Millisecond, Rest: 100 * time.Millisecond}
}

// everybody is hit by what no node is spared.
func everybody() []int { return []int{0, 1, 2} }

func faults() []fault {
	return []fault{
		{name: "terminated backends", strike: terminateBackends, pace: pace{Hold: 2 * time.Millisecond, Way: 20 * time.Millisecond}},
		{name: "killed backend", strike: killBackends, hit: []int{1}, pace: quickly()},
		{name: "killed clients", strike: killClients, pace: quickly()},
		{name: "stopped client", strike: stopClient(3 * time.Second), pace: quickly()},
		{name: "client cut off from its server", strike: stallClient(3 * time.Second), pace: quickly()},
		{name: "killed node that returns", strike: struckBy(killNode(2)), hit: []int{2}, pace: quickly()},
		{name: "stopped node", strike: struckBy(stopNode(2)), hit: []int{2}, pace: flying()},
		{name: "stopped apply worker", strike: struckBy(stopApplyWorker(0, 1)), hit: []int{0, 1}, pace: quickly()},
		{name: "isolated node", strike: struckBy(isolate(0)), hit: []int{0}, pace: flying()},
		{name: "isolated node, long holds", strike: struckBy(isolate(0)), hit: everybody(), pace: slowly()},
		{name: "one broken link", strike: struckBy(breakLink(0, 1)), hit: []int{0, 1}, pace: quickly()},
		{name: "one-way stall", strike: struckBy(stallStream(1, 0)), hit: []int{0, 1}, pace: flying()},
		{name: "node that hears nobody", strike: struckBy(deafen(0)), hit: everybody(), pace: flying()},
		{name: "node that nobody hears", strike: struckBy(mute(0)), hit: everybody(), pace: flying()},
		{name: "clocks five minutes apart", strike: skewClocks, pace: quickly()},
	}
}

// TestBakerySurvives: one fault at a time. Nothing is rejected, those who are not hit go on, nobody waits for ever, and nothing is left.
func TestBakerySurvives(t *testing.T) {
	t.Parallel()
	for _, major := range []int{15, 18} {
		t.Run(fmt.Sprintf("PostgreSQL %d", major), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 3, major)
			for i, f := range faults() {
				t.Run(f.name, func(t *testing.T) {
					s := c.besiege(t, "t"+strconv.Itoa(i), faultWindow, f.pace, f.hit...)
					f.strike(t, s)
					waited := s.lift(t)
					if len(s.survivors()) > 0 {
						require.Less(t, waited, 5*faultWindow, "survivors go on; twice the window on a machine that is not busy")
					}
				})
			}
		})
	}
}
