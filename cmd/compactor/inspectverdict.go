package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/rs/zerolog"

	"compactor/pkg/inspect"
	"compactor/pkg/maintenance"
)

// verdicts say what a run would do to the table, by the figures alone.
func (s *session) verdicts(on target, h inspect.Health) []inspect.Verdict {
	enabled := map[string]bool{
		maintenance.StepCompact: on.policy.Compact.Enabled, maintenance.StepManifests: on.policy.Manifests.Enabled,
		maintenance.StepExpire: on.policy.Expire.Enabled, maintenance.StepOrphans: on.policy.Orphans.Enabled,
	}
	var out []inspect.Verdict
	for _, name := range []string{maintenance.StepCompact, maintenance.StepManifests, maintenance.StepExpire, maintenance.StepOrphans} {
		v := inspect.Verdict{Step: name}
		switch {
		case s.cfg.Disabled(on.name, on.table.Properties()):
			v.Reason = "the table is disabled"
		case !enabled[name]:
			v.Reason = "the policy disables this step"
		default:
			v.Due, v.Reason = on.verdict(name, h, s.now())
		}
		out = append(out, v)
	}

	return out
}

func (t target) verdict(step string, h inspect.Health, now time.Time) (due bool, reason string) {
	if why := t.tooSoon(step, now); why != "" {
		return false, why
	}
	switch step {
	case maintenance.StepCompact:
		saved := h.Compaction.FilesBefore - h.Compaction.FilesAfter
		if saved > 0 || h.Deletes.Share >= t.policy.Compact.DeleteRatioThreshold {
			return t.compactVerdict(h, saved)
		}

		return false, "no partition has enough files of the wrong size"
	case maintenance.StepManifests:
		if n := t.whenManifests(); h.Manifests.Count < n {
			return false, fmt.Sprintf("the policy asks for it from %d manifests on, there are %d", n, h.Manifests.Count)
		}

		return manifestVerdict(h.Manifests)
	case maintenance.StepExpire:
		p := t.policy.Expire
		n, refs, err := maintenance.Expirable(t.table.Metadata(), maintenance.ExpireOptions{OlderThan: time.Duration(p.OlderThan), RetainLast: p.RetainLast}, now)
		if err != nil {
			return false, err.Error()
		}

		return n+refs > 0, fmt.Sprintf("%d of %d snapshots and %d refs are past their age", n, h.Snapshots.Count, refs)
	default:
		return orphanVerdict(h.Orphans)
	}
}

func (t target) compactVerdict(h inspect.Health, saved int64) (due bool, reason string) {
	live := maintenance.Live{
		Files: h.Data.Files, SmallFiles: h.Data.SmallFiles, Bytes: h.Data.Bytes, SmallBytes: h.Data.SmallBytes,
		Rows: h.Data.Rows, DeletedRows: h.Deletes.Rows,
	}
	if why := t.compactWhen().NotYet(live); why != "" {
		return false, why
	}

	return true, fmt.Sprintf("about %d files fewer, %.1f %% of the rows deleted", saved, 100*h.Deletes.Share)
}

// leastManifests are so many small manifests that merging them may save two.
const leastManifests = 3

func manifestVerdict(m inspect.Manifests) (due bool, reason string) {
	reason = fmt.Sprintf("%d of %d manifests are small", m.Small, m.Count)
	if m.Small < leastManifests {
		return false, fmt.Sprintf("%s, merging begins at %d", reason, leastManifests)
	}

	return true, reason
}

// orphanVerdict goes by the estimate, where one was asked for.
func orphanVerdict(o *inspect.Orphans) (due bool, reason string) {
	switch {
	case o == nil:
		return true, "not looked at; --estimate-orphans counts them, compactor orphans --dry-run lists them"
	case o.Reason != "":
		return false, o.Reason
	default:
		return o.Files > 0, fmt.Sprintf("%d unreferenced files of at least %s, %s", o.Files, o.Age, humanize.IBytes(uint64(max(o.Bytes, 0))))
	}
}

// estimateOrphans lists the folders of the table as the step does in a dry run:
// no claim, no delete. What the step refuses has a reason instead of figures; their
// share does not count.
func (i inspector) estimateOrphans(ctx context.Context, on target) (*inspect.Orphans, error) {
	p := on.policy.Orphans
	m := on.maintainer(nil)
	m.Log = m.Log.Level(zerolog.WarnLevel) // A look is no step whose beginning wants a line.
	rep, err := m.Orphans(ctx, on.table, maintenance.OrphanOptions{
		OlderThan: time.Duration(p.OlderThan), MaxShare: 1, OverrideDeleteDisabled: i.cfg.Storage.OverrideDeleteDisabled,
		Memory: i.memory, DryRun: true,
	})
	o := &inspect.Orphans{Age: p.OlderThan.String()}
	switch {
	case errors.Is(err, maintenance.ErrRefused):
		o.Reason = err.Error()

		return o, nil
	case err != nil:
		return nil, err //nolint:wrapcheck // The caller says what was estimated.
	}
	r := rep.Orphans
	o.Files, o.Bytes, o.Young, o.Listed, o.ListedBytes = r.Found, r.FoundBytes, r.Kept.Young, r.Listed, r.ListedBytes

	return o, nil
}
