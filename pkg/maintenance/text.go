package maintenance

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"compactor/internal/tablename"
)

// WriteText writes the report for people: one block per table and step, and
// after several tables a list of those that want a look.
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
	if len(r.Tables) > 1 {
		return writeFleet(w, r.Tables)
	}

	return nil
}

func writeTable(w io.Writer, t TableReport) {
	line := func(label, format string, args ...any) {
		fmt.Fprintf(w, "  %s\t%s\n", label, tablename.OneLine(fmt.Sprintf(format, args...))) //nolint:errcheck // As in WriteText.
	}
	fmt.Fprintln(w, t.Table) //nolint:errcheck // As in WriteText.
	if t.Error != "" {
		line("error", "%s", t.Error)
	}
	if t.Reason != "" {
		line("left", "%s", t.Reason)
	}
	for _, s := range t.Steps {
		writeStep(line, s)
	}
}

func writeStep(line func(label, format string, args ...any), s StepReport) {
	line(s.Step, "%s: %s", s.Status, s.Reason)
	switch {
	case s.Expire != nil:
		writeExpire(line, s)
	case s.Manifests != nil:
		writeManifests(line, s)
	case s.Orphans != nil:
		writeOrphans(line, s.Orphans)
	case s.Step == StepCompact:
		writeCompact(line, s)
	}
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

func writeCompact(line func(label, format string, args ...any), s StepReport) {
	if s.Plan == nil && s.Before.Files == 0 && s.Status != StatusNothing {
		return // It ended before the table was counted.
	}
	line("live before", "%s files, %s, %s rows", humanize.Comma(int64(s.Before.Files)), size(s.Before.Bytes), humanize.Comma(s.Before.Rows))
	if s.SortedBy != "" && (s.Plan != nil || s.Rewritten.FilesIn > 0) {
		line("sorted by", "%s", s.SortedBy)
	}
	if s.Rewritten.FilesIn > 0 {
		c := s.Rewritten
		line("rewritten", "%s files, %s -> %s files, %s", humanize.Comma(int64(c.FilesIn)), size(c.BytesIn),
			humanize.Comma(int64(c.FilesOut)), size(c.BytesOut))
		line("rows", "%s in - %s deleted = %s out%s", humanize.Comma(c.RowsIn), humanize.Comma(c.RowsDeleted),
			humanize.Comma(c.RowsOut), provenText(c))
		for _, u := range s.Engines {
			line("engine", "%s", engineText(u))
		}
		line("delete files removed", "%d", s.DeletesRemoved)
		line("snapshot", "%s -> %s", snapshotText(s.SnapshotBefore), snapshotText(s.SnapshotAfter))
		writeClaim(line, s)
	}
	writePlan(line, s.Plan)
}

// engineText says which way the groups went, and why not the fast one.
func engineText(u EngineUse) string {
	pages := u.PagesMoved + u.PagesPromoted + u.PagesReindexed + u.PagesJoined + u.PagesTranscoded
	switch {
	case pages+u.ChunksDecoded > 0:
		text := fmt.Sprintf("%s, %d groups: of %s pages %s moved, %s reindexed, %s joined", u.Engine, u.Groups, humanize.Comma(pages),
			humanize.Comma(u.PagesMoved+u.PagesPromoted), humanize.Comma(u.PagesReindexed), humanize.Comma(u.PagesJoined))
		if u.ChunksDecoded > 0 {
			text += fmt.Sprintf("; %s column chunks decoded", humanize.Comma(u.ChunksDecoded))
		}

		if u.PagesTrimmed > 0 {
			text += fmt.Sprintf("; %s pages decoded that lost rows", humanize.Comma(u.PagesTrimmed))
		}

		return text + fmt.Sprintf("; %s moved, %s made", size(u.BytesMoved), size(u.BytesMade))
	case u.Reason != "":
		return fmt.Sprintf("%s, %d groups, not spliced: %s", u.Engine, u.Groups, u.Reason)
	default:
		return fmt.Sprintf("%s, %d groups", u.Engine, u.Groups)
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

func writeClaim(line func(label, format string, args ...any), s StepReport) {
	line("claim", "%d rounds, waited %s, held %s, longest %s", len(s.Rounds),
		span(s.ClaimWait), span(s.ClaimHold), span(s.LongestHold))
	line("took", "%s", span(s.Duration))
}

// maxLines bounds how many snapshots or refs the text lists; JSON has all.
const maxLines = 20

func writeExpire(line func(label, format string, args ...any), s StepReport) {
	e := s.Expire
	verb := "expired"
	if s.Status == StatusPlanned {
		verb = "expires"
	}
	for i, snap := range e.Snapshots {
		if i == maxLines {
			line("", "and %d more", len(e.Snapshots)-maxLines)

			break
		}
		line(verb, "snapshot %d of %s, %s", snap.ID, snap.Committed.Format(time.RFC3339), snap.Operation)
	}
	for _, ref := range e.Refs {
		line(verb, "ref %s", ref)
	}
	if len(e.Schemas)+len(e.Specs) > 0 {
		line(verb, "%d schemas, %d partition specs", len(e.Schemas), len(e.Specs))
	}
	if e.Resumed > 0 {
		line("resumed", "the files of %d snapshots that an earlier run expired", e.Resumed)
	}
	if f := e.Files; f.Planned > 0 {
		line("files", "%s unreachable: %d content files, %d manifests, %d manifest lists, %d statistics files",
			humanize.Comma(int64(f.Planned)), f.ContentFiles, f.Manifests, f.ManifestLists, f.Statistics)
		line("deleted", "%d, failed %d, left %d", f.Deleted, f.Failed, f.Left)
	}
	for _, f := range e.Files.Failures {
		line("failed", "%s", f)
	}
	if len(s.Rounds) > 0 {
		writeClaim(line, s)
	}
}

func writeManifests(line func(label, format string, args ...any), s StepReport) {
	m := s.Manifests
	line("manifests", "%d -> %d", m.Before, m.After)
	for _, g := range m.Groups {
		line("group", "spec %d, %s: %d manifests, %s -> about %d", g.SpecID, g.Content, len(g.Manifests), size(g.Bytes), g.Expected)
	}
	if len(s.Rounds) > 0 {
		line("snapshot", "%s -> %s", snapshotText(s.SnapshotBefore), snapshotText(s.SnapshotAfter))
		writeClaim(line, s)
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
