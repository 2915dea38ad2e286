// Package metrics turns the report of a run into Prometheus metrics, and hands
// them to a file for the node exporter or to a Pushgateway.
//
// A run is over when its metrics are read, so they are gauges and histograms of
// the last run, not counters. No label holds the name of a table but one, which
// is there for the tables that failed, and for a bounded number of them.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"compactor/pkg/maintenance"
)

// maxTables bounds the tables that are named.
const maxTables = 50

// Definition is one metric as it is documented.
type Definition struct {
	Name   string
	Type   string // gauge or histogram
	Labels []string
	Help   string
}

// Names of the metrics that code of the package looks at again.
const (
	nameLastSuccess = "compactor_last_success_timestamp_seconds"
	nameTableCode   = "compactor_table_exit_code"
)

// Definitions lists every metric, in the order of the documentation.
func Definitions() []Definition {
	const gauge, histogram = "gauge", "histogram"

	return []Definition{
		{"compactor_last_run_timestamp_seconds", gauge, nil, "When the last run ended, Unix time."},
		{nameLastSuccess, gauge, nil, "When the last run with exit code 0 ended, Unix time. A failed run keeps the value."},
		{"compactor_run_duration_seconds", gauge, nil, "How long the last run took."},
		{"compactor_run_exit_code", gauge, nil, "Exit code of the last run."},
		{"compactor_build_info", gauge, []string{"version"}, "1, with the version of the program."},
		{"compactor_tables", gauge, []string{"status"}, "Tables of the last run by status."},
		{nameTableCode, gauge, []string{"table"}, "Exit code of a table that did not end with 0; the first 50 of them. Without a table always 0."},
		{"compactor_steps", gauge, []string{"step", "status"}, "Steps of the last run by status."},
		{"compactor_step_duration_seconds", gauge, []string{"step"}, "Time the last run spent in a step, over all tables."},
		{"compactor_files", gauge, []string{"direction"}, "Data files the last run read (in) and wrote (out) in compactions that were committed."},
		{"compactor_bytes", gauge, []string{"direction"}, "Bytes of these files."},
		{"compactor_rows", gauge, []string{"direction"}, "Rows of these files; deleted is what the deletes took away."},
		{"compactor_small_files_left", gauge, nil, "Data files below the minimum size that the tables had after their compaction."},
		{"compactor_delete_files_removed", gauge, nil, "Delete files that the compactions of the last run made superfluous and removed."},
		{"compactor_manifests", gauge, []string{"direction"}, "Manifests the last run merged (in) and wrote in their place (out)."},
		{"compactor_groups_left", gauge, nil, "Groups that were planned and are left for the next run."},
		{"compactor_snapshots_expired", gauge, nil, "Snapshots the last run expired."},
		{"compactor_snapshots_left", gauge, nil, "Snapshots that the tables had after their expiry."},
		{"compactor_deletes", gauge, []string{"result"}, "Files of expiries and orphans: deleted, failed, left."},
		{"compactor_conflicts", gauge, nil, "Steps that ended with a conflict."},
		{"compactor_claims_lost", gauge, nil, "Steps that ended because the claim was lost."},
		{"compactor_claim_wait_seconds", histogram, nil, "How long each claim of the last run was waited for."},
		{"compactor_claim_hold_seconds", histogram, nil, "How long each claim of the last run was held."},
	}
}

// collector fills the metrics of one report.
type collector struct {
	registry   *prometheus.Registry
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]prometheus.Histogram
}

func newCollector() *collector {
	c := &collector{registry: prometheus.NewRegistry(), gauges: map[string]*prometheus.GaugeVec{}, histograms: map[string]prometheus.Histogram{}}
	for _, d := range Definitions() {
		if d.Type == "histogram" {
			h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: prometheus.ExponentialBuckets(0.01, 4, 9)})
			c.histograms[d.Name] = h
			c.registry.MustRegister(h)

			continue
		}
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels)
		c.gauges[d.Name] = g
		c.registry.MustRegister(g)
	}

	return c
}

func (c *collector) set(name string, value float64, labels ...string) {
	c.gauges[name].WithLabelValues(labels...).Set(value)
}

func (c *collector) add(name string, value float64, labels ...string) {
	c.gauges[name].WithLabelValues(labels...).Add(value)
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// collect fills the metrics from a report. lastSuccess is when a run was last
// successful before this one, zero if it never was or nobody knows.
func collect(rep maintenance.Report, lastSuccess time.Time) *collector {
	c := newCollector()
	c.set("compactor_last_run_timestamp_seconds", unix(rep.FinishedAt))
	c.set("compactor_run_duration_seconds", rep.FinishedAt.Sub(rep.StartedAt).Seconds())
	c.set("compactor_run_exit_code", float64(rep.ExitCode))
	c.set("compactor_build_info", 1, rep.Version)
	switch {
	case rep.ExitCode == 0:
		c.set(nameLastSuccess, unix(rep.FinishedAt))
	case !lastSuccess.IsZero():
		c.set(nameLastSuccess, unix(lastSuccess))
	}
	c.zero()
	named := 0
	for _, t := range rep.Tables {
		c.add("compactor_tables", 1, string(t.Status))
		if t.ExitCode != 0 && named < maxTables {
			named++
			c.set(nameTableCode, float64(t.ExitCode), t.Table)
		}
		for _, s := range t.Steps {
			c.step(s)
		}
	}

	return c
}

// zero sets what a run may have nothing of. A metric that is not there would
// stay as it was on a Pushgateway, and tells a query nothing.
func (c *collector) zero() {
	labels := map[string][]string{
		"compactor_files": {"in", "out"}, "compactor_bytes": {"in", "out"}, "compactor_rows": {"in", "out", "deleted"},
		"compactor_manifests": {"in", "out"}, "compactor_deletes": {"deleted", "failed", "left"}, nameTableCode: {""},
	}
	for _, status := range maintenance.Statuses() {
		labels["compactor_tables"] = append(labels["compactor_tables"], string(status))
	}
	for name, values := range labels {
		for _, v := range values {
			c.set(name, 0, v)
		}
	}
	for _, step := range []string{maintenance.StepCompact, maintenance.StepManifests, maintenance.StepExpire, maintenance.StepOrphans} {
		c.set("compactor_steps", 0, step, string(maintenance.StatusDone))
		c.set("compactor_step_duration_seconds", 0, step)
	}
	for _, name := range []string{
		"compactor_small_files_left", "compactor_delete_files_removed", "compactor_groups_left", "compactor_snapshots_expired",
		"compactor_snapshots_left", "compactor_conflicts", "compactor_claims_lost",
	} {
		c.set(name, 0)
	}
}

// step adds one step of one table.
func (c *collector) step(s maintenance.StepReport) {
	c.add("compactor_steps", 1, s.Step, string(s.Status))
	c.add("compactor_step_duration_seconds", time.Duration(s.Duration).Seconds(), s.Step)
	c.add("compactor_files", float64(s.Rewritten.FilesIn), "in")
	c.add("compactor_files", float64(s.Rewritten.FilesOut), "out")
	c.add("compactor_bytes", float64(s.Rewritten.BytesIn), "in")
	c.add("compactor_bytes", float64(s.Rewritten.BytesOut), "out")
	c.add("compactor_rows", float64(s.Rewritten.RowsIn), "in")
	c.add("compactor_rows", float64(s.Rewritten.RowsOut), "out")
	c.add("compactor_rows", float64(s.Rewritten.RowsDeleted), "deleted")
	c.add("compactor_groups_left", float64(s.GroupsLeft))
	c.add("compactor_delete_files_removed", float64(s.DeletesRemoved))
	if s.SmallFilesLeft != nil {
		c.add("compactor_small_files_left", float64(*s.SmallFilesLeft))
	}
	if m := s.Manifests; m != nil && s.Status == maintenance.StatusDone {
		c.add("compactor_manifests", float64(m.Rewritten), "in")
		c.add("compactor_manifests", float64(m.Created), "out")
	}
	if e := s.Expire; e != nil {
		if s.Status == maintenance.StatusDone || s.Status == maintenance.StatusPartial {
			c.add("compactor_snapshots_expired", float64(len(e.Snapshots)))
		}
		c.add("compactor_snapshots_left", float64(e.Retained))
		c.deletes(e.Files.Deleted, e.Files.Failed, e.Files.Left)
	}
	if o := s.Orphans; o != nil {
		c.deletes(o.Deleted, o.Failed, o.Left)
	}
	switch s.Status {
	case maintenance.StatusConflict:
		c.add("compactor_conflicts", 1)
	case maintenance.StatusLost:
		c.add("compactor_claims_lost", 1)
	}
	for _, r := range s.Rounds {
		c.histograms["compactor_claim_wait_seconds"].Observe(time.Duration(r.ClaimWait).Seconds())
		c.histograms["compactor_claim_hold_seconds"].Observe(time.Duration(r.ClaimHold).Seconds())
	}
}

func (c *collector) deletes(deleted, failed, left int) {
	c.add("compactor_deletes", float64(deleted), "deleted")
	c.add("compactor_deletes", float64(failed), "failed")
	c.add("compactor_deletes", float64(left), "left")
}
