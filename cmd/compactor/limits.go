package main

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/urfave/cli/v2"

	"compactor/internal/config"
	"compactor/internal/store"
	"compactor/pkg/maintenance"
)

// tableMemory is the least that each of several tables gets of the budget.
const tableMemory = 128 << 20

// errTimeUp ends work that may be left for the next run.
var errTimeUp = errors.New("the time of the run (--max-duration) was up")

// configureFleet reads how many tables and groups are worked on at a time, and
// for how long.
func (s *session) configureFleet(c *cli.Context) error {
	for _, name := range []string{"parallel", "parallel-groups", "rate-limit", "max-deletes"} {
		if _, given := lookup(c, name); given && number(c, name) < 1 {
			return usagef("--%s %d: use 1 or more", name, number(c, name))
		}
	}
	if n := number(c, "max-deletes"); n > 0 {
		s.deletes = maintenance.NewDeleteBudget(n)
	}
	s.tables, s.parallel, s.rateLimit = max(1, number(c, "parallel")), number(c, "parallel-groups"), number(c, "rate-limit")
	if s.parallel == 0 {
		s.parallel = runtime.GOMAXPROCS(0)
	}
	if text, given := lookup(c, "bandwidth"); given {
		size, err := config.ParseSize(text)
		if err != nil {
			return usagef("--bandwidth %q: %w", text, err)
		}
		if s.bandwidth = int64(size); s.bandwidth < store.MinBytesPerSecond {
			return usagef("--bandwidth %q: use 1MiB or more", text)
		}
	}
	text, given := lookup(c, "max-duration")
	if !given {
		return nil
	}
	d, err := config.ParseDuration(text)
	if err != nil {
		return usagef("--max-duration %q: %w", text, err)
	}
	if d <= 0 {
		return usagef("--max-duration %q: use more than nothing", text)
	}
	s.until = s.now().Add(time.Duration(d))

	return nil
}

// split shares the budgets among the tables that are worked on at a time: each
// has the same part of the memory, and together they have all of it. The pages
// of the program are counted once.
func (s *session) split(tables int) {
	room := s.memory - programMemory
	within := max(1, min(s.tables, tables, int(room/tableMemory)))
	if within < min(s.tables, tables) {
		s.log.Warn().Int("tables_at_a_time", within).Int64("memory", s.memory).
			Msg("--parallel is lowered: the memory budget has no room for more")
	}
	s.tables = within
	s.memory = room/int64(within) + programMemory
	s.parallel = parallelWithin(s.memory, s.parallel)
}

// timeUp says that no further work may begin.
func (s *session) timeUp() bool { return !s.until.IsZero() && !s.now().Before(s.until) }

// claimTimeout is how long a claim may be waited for, and whether the end of
// the run makes that shorter than the configuration does.
func (s *session) claimTimeout() (timeout time.Duration, cut bool) {
	timeout = time.Duration(s.cfg.Claim.Timeout)
	if s.until.IsZero() {
		return timeout, false
	}
	left := max(time.Millisecond, s.until.Sub(s.now()))
	if timeout == 0 || left < timeout {
		return left, true
	}

	return timeout, false
}

// leftForLater turns the end of the run's time into what it is: no failure.
// What was committed before stays done, and what was refused stays refused.
func leftForLater(rep maintenance.StepReport, err error) (maintenance.StepReport, error) {
	if !errors.Is(err, errTimeUp) {
		return rep, err
	}
	rep.Status, rep.Reason = maintenance.StatusLeft, err.Error()
	if len(rep.Rounds) > 0 {
		rep.Status = maintenance.StatusDone
		rep.Reason = fmt.Sprintf("%d rounds; the rest is left: %v", len(rep.Rounds), errTimeUp)
	}
	if bad := len(rep.Refused) + len(rep.Failed); bad > 0 {
		rep.Status = maintenance.StatusPartial
		rep.Reason += fmt.Sprintf("; %d refused or failed", bad)

		return rep, fmt.Errorf("%s: %w", rep.Reason, maintenance.ErrPartial)
	}

	return rep, nil
}
