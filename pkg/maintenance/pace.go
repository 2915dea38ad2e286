package maintenance

import (
	"time"

	"compactor/pkg/rewrite"
)

// pace learns from finished rounds how much fits under one claim.
type pace struct {
	maxHold time.Duration // 0: no limit
	bytes   int64         // rewritten so far
	busy    time.Duration // spent rewriting them
	extra   time.Duration // the longest load, plan, prove and commit of a round
}

// learn takes in a finished round: bytes rewritten in busy, out of hold.
func (p *pace) learn(bytes int64, busy, hold time.Duration) {
	p.bytes += bytes
	p.busy += busy
	p.extra = max(p.extra, hold-busy)
}

// take returns how many of groups, from the front, one round takes: all
// without a limit, one as long as nothing was measured, and otherwise as many
// as fit into the hold at the measured speed, at least one.
func (p *pace) take(groups []rewrite.Group) int {
	if p.maxHold == 0 {
		return len(groups)
	}
	if len(groups) == 0 {
		return 0
	}
	if p.bytes == 0 || p.busy <= 0 {
		return 1
	}
	perSecond := float64(p.bytes) / p.busy.Seconds()
	room := int64(perSecond * (p.maxHold - p.extra).Seconds())
	n, sum := 0, int64(0)
	for _, g := range groups {
		sum += g.Bytes
		if n > 0 && sum > room {
			break
		}
		n++
	}

	return n
}

// assumedBytesPerSecond is used only to estimate the rounds of a dry run.
const assumedBytesPerSecond = 32 << 20

// estimate says how many rounds a plan would take at an assumed speed.
func estimate(groups []rewrite.Group, maxHold time.Duration) int {
	p := pace{maxHold: maxHold}
	rounds := 0
	for len(groups) > 0 {
		n := p.take(groups)
		var bytes int64
		for _, g := range groups[:n] {
			bytes += g.Bytes
		}
		p.learn(max(bytes, 1), time.Duration(float64(max(bytes, 1))/assumedBytesPerSecond*float64(time.Second))+1, 0)
		p.extra = 0
		groups = groups[n:]
		rounds++
	}

	return rounds
}
