package main

import (
	"fmt"
	"time"

	"compactor/pkg/maintenance"
)

// compactWhen are the thresholds of compaction, none when it was asked for by
// name.
func (t target) compactWhen() maintenance.CompactWhen {
	if t.asked {
		return maintenance.CompactWhen{}
	}
	p := t.policy.Compact

	return maintenance.CompactWhen{SmallFiles: p.WhenSmallFiles, SmallShare: p.WhenSmallShare, DeleteShare: p.WhenDeleteShare}
}

func (t target) whenManifests() int {
	if t.asked {
		return 0
	}

	return t.policy.Manifests.WhenManifests
}

// tooSoon says why a step of a run does not begin yet, by what the table's
// metadata alone tells; empty when it does.
func (t target) tooSoon(step string, now time.Time) string {
	if t.asked {
		return ""
	}
	md := t.table.Metadata()
	interval := time.Duration(0)
	switch step {
	case maintenance.StepExpire:
		if n := t.policy.Expire.WhenSnapshots; len(md.Snapshots()) < n {
			return fmt.Sprintf("the policy asks for it from %d snapshots on, there are %d", n, len(md.Snapshots()))
		}
	case maintenance.StepCompact:
		interval = time.Duration(t.policy.Compact.Interval)
	case maintenance.StepManifests:
		interval = time.Duration(t.policy.Manifests.Interval)
	}
	last := maintenance.LastRun(md, step)
	if interval == 0 || last.IsZero() || now.Sub(last) >= interval {
		return ""
	}

	return fmt.Sprintf("the policy asks for it every %s, the last was at %s", interval, last.UTC().Format(time.RFC3339))
}
