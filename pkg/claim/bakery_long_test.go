//go:build long

package claim_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fullWindow is the window that a mesh has by default.
const fullWindow = 20 * time.Second

// TestBakerySurvivesInFull: the faults with a window and durations as in production.
func TestBakerySurvivesInFull(t *testing.T) {
	t.Parallel()
	hold := func(d time.Duration) pace {
		return pace{Hold: d, Way: 300 * time.Millisecond, Rest: 100 * time.Millisecond}
	}
	for _, major := range []int{15, 18} {
		t.Run(fmt.Sprintf("PostgreSQL %d", major), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 3, major)
			full := []fault{{name: "client stopped for a minute", strike: stopClient(30 * time.Second), pace: hold(2 * time.Millisecond)}}
			for _, lasts := range []time.Duration{10 * time.Second, 30 * time.Second} {
				for name, p := range map[string]pace{"short holds": hold(2 * time.Millisecond), "long holds": hold(6 * time.Second)} {
					full = append(full,
						fault{name: fmt.Sprintf("link stalled for %s, %s", lasts, name), strike: struckFor(breakLink(0, 1), lasts), hit: []int{0, 1}, pace: p},
						fault{name: fmt.Sprintf("node isolated for %s, %s", lasts, name), strike: struckFor(isolate(0), lasts), hit: []int{0}, pace: p},
						fault{name: fmt.Sprintf("one way stalled for %s, %s", lasts, name), strike: struckFor(stallStream(1, 0), lasts), hit: []int{0, 1}, pace: p})
				}
			}
			for i, f := range full {
				t.Run(f.name, func(t *testing.T) {
					s := c.besiege(t, "full"+strconv.Itoa(i), fullWindow, f.pace, f.hit...)
					f.strike(t, s)
					require.Less(t, s.lift(t), 2*fullWindow, "survivors go on")
				})
			}
		})
	}
}

// struckFor is a fault that lasts for a time.
func struckFor(b blow, lasts time.Duration) func(t *testing.T, s *siege) {
	return func(t *testing.T, s *siege) {
		mend := b(t, s)
		defer mend()
		pause(t.Context(), lasts)
	}
}

// TestBakerySurvivesTenMinutesOfMixedFaults is the long form of the test with mixed faults.
func TestBakerySurvivesTenMinutesOfMixedFaults(t *testing.T) {
	t.Parallel()
	newCluster(t, 3, 15).mix(t, 10*time.Minute, faultWindow)
}
