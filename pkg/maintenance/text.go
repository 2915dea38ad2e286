package maintenance

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
)

// WriteText writes the report for people: one block per table and step.
func (r Report) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for i, t := range r.Tables {
		if i > 0 {
			fmt.Fprintln(tw) //nolint:errcheck // tabwriter keeps the first error for Flush.
		}
		writeTable(tw, t)
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}

	return nil
}

func writeTable(w io.Writer, t TableReport) {
	line := func(label, format string, args ...any) {
		fmt.Fprintf(w, "  %s\t%s\n", label, fmt.Sprintf(format, args...)) //nolint:errcheck // As in WriteText.
	}
	fmt.Fprintln(w, t.Table) //nolint:errcheck // As in WriteText.
	if t.Error != "" {
		line("error", "%s", t.Error)
	}
	for _, s := range t.Steps {
		writeStep(line, s)
	}
}

func writeStep(line func(label, format string, args ...any), s StepReport) {
	line(s.Step, "%s: %s", s.Status, s.Reason)
	line("live before", "%s files, %s, %s rows", humanize.Comma(int64(s.Before.Files)), size(s.Before.Bytes), humanize.Comma(s.Before.Rows))
	if s.Rewritten.FilesIn > 0 {
		c := s.Rewritten
		line("rewritten", "%s files, %s -> %s files, %s", humanize.Comma(int64(c.FilesIn)), size(c.BytesIn),
			humanize.Comma(int64(c.FilesOut)), size(c.BytesOut))
		line("rows", "%s in - %s deleted = %s out%s", humanize.Comma(c.RowsIn), humanize.Comma(c.RowsDeleted),
			humanize.Comma(c.RowsOut), provenText(c))
		line("delete files removed", "%d", s.DeletesRemoved)
		line("snapshot", "%s -> %s", snapshotText(s.SnapshotBefore), snapshotText(s.SnapshotAfter))
		line("claim", "%d rounds, waited %s, held %s, longest %s", len(s.Rounds),
			span(s.ClaimWait), span(s.ClaimHold), span(s.LongestHold))
		line("took", "%s", span(s.Duration))
	}
	writePlan(line, s.Plan)
	writeOrphans(line, s.Orphans)
	for _, r := range s.Refused {
		line("refused", "%s: %s", r.What, r.Reason)
	}
	for _, r := range s.Failed {
		line("failed", "%s: %s", r.What, r.Reason)
	}
	for _, p := range s.Kept {
		line("kept", "%s", p)
	}
}

func writePlan(line func(label, format string, args ...any), p *PlanReport) {
	if p == nil {
		return
	}
	line("plan", "snapshot %d, %d groups, about %d rounds", p.SnapshotID, len(p.Groups), p.EstimatedRounds)
	for i, g := range p.Groups {
		where := g.Partition
		if where == "" {
			where = "unpartitioned"
		}
		line(fmt.Sprintf("group %d", i+1), "%s: %d files, %s, %s rows -> %d files", where, len(g.Files),
			size(g.Bytes), humanize.Comma(g.Rows), g.Outputs)
	}
}

func provenText(c Change) string {
	if c.IndependentlyProven {
		return ", proven"
	}

	return ", not independently proven (equality deletes), verified by re-reading"
}

func size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

func span(s Seconds) string { return time.Duration(s).Round(time.Millisecond).String() }

func snapshotText(id *int64) string {
	if id == nil {
		return "none"
	}

	return fmt.Sprint(*id)
}
