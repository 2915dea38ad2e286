//go:build long

package main

import (
	"testing"
	"time"
)

// The long form: a quarter of an hour of traffic.
func TestTwoCompactorsAndFourWritersShareATableForLong(t *testing.T) {
	t.Parallel()
	newTraffic(t).run(t, 15*time.Minute)
}
