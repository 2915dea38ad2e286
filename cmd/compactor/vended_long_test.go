//go:build long

package main

import (
	"testing"
	"time"
)

// Three minutes of work with keys of one minute.
func TestAJobOfThreeMinutesWithKeysOfOne(t *testing.T) {
	t.Parallel()
	jobOutlivesItsCredentials(t, time.Minute, 6200*time.Millisecond, true)
}
