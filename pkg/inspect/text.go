package inspect

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// WriteText writes the health for people, with bar charts. It fails when w
// does.
func (h Health) WriteText(w io.Writer, o TextOptions) error {
	p := &sheet{o: o}
	p.line("location", "%s (format version %d)", h.Location, h.FormatVersion)
	d := h.Data
	p.line("data", "%s files, %s, %s rows", comma(d.Files), size(d.Bytes), comma(d.Rows))
	p.line("small", "%s files, %s (below %s); %s large", comma(d.SmallFiles), size(d.SmallBytes), size(h.MinFileSize), comma(d.LargeFiles))
	h.writeBars(p)
	h.writePartitions(p)
	x := h.Deletes
	p.line("deletes", "%d position files, %d deletion vectors, %d equality files; %s rows, %.1f %%",
		x.PositionFiles, x.Vectors, x.EqualityFiles, comma(x.Rows), 100*x.Share)
	h.writeSnapshots(p)
	m := h.Manifests
	p.line("manifests", "%d (%d of deletes), %s, %d small", m.Count, m.DeleteCount, size(m.Bytes), m.Small)
	p.line("metadata.json", "%s, %d earlier ones", knownSize(h.Metadata.Bytes), h.Metadata.Earlier)
	p.line("sort order", "%s", h.Sort.describe(d.Files))
	c := h.Compaction
	p.line("compaction", "%s -> about %s files; a full scan %s -> about %s requests",
		comma(c.FilesBefore), comma(c.FilesAfter), comma(c.RequestsBefore), comma(c.RequestsAfter))
	if h.Orphans != nil {
		p.line("orphan files", "%s", h.Orphans.describe())
	}
	for _, v := range h.Steps {
		due, tone := "nothing to do", toneQuiet
		if v.Due {
			due, tone = "due", toneWarn
		}
		p.line(v.Step, "%s: %s", due, v.Reason)
		p.rows[len(p.rows)-1].tone = tone
	}

	return p.write(w, h.Table)
}

func (h Health) writeBars(p *sheet) {
	longest := int64(0)
	for _, b := range h.Sizes {
		longest = max(longest, b.Files)
	}
	for _, b := range h.Sizes {
		r := p.bar("  "+b.label(), b.Files, longest, fmt.Sprintf("%s files, %s", comma(b.Files), size(b.Bytes)), comma(b.Files))
		r.tone = toneGood
		if b.To != 0 && b.To <= h.MinFileSize {
			r.tone = toneWarn
		}
	}
}

func (b Bar) label() string {
	if b.To == 0 {
		return ">= " + size(b.From)
	}

	return "< " + size(b.To)
}

func (h Health) writePartitions(p *sheet) {
	text := comma(int64(h.Partitions.Count))
	if h.Partitions.More > 0 {
		text = fmt.Sprintf("more than %s; the %s files of the others are not counted by partition", text, comma(h.Partitions.More))
	}
	p.line("partitions", "%s", text)
	for _, one := range h.Partitions.Worst {
		if one.Name == "" || one.SmallFiles == 0 {
			continue
		}
		p.line("  "+one.Name, "%s files, %s; %s small", comma(one.Files), size(one.Bytes), comma(one.SmallFiles))
	}
}

func (h Health) writeSnapshots(p *sheet) {
	s := h.Snapshots
	var ages []string
	for _, a := range s.Ages {
		if a.Snapshots > 0 {
			ages = append(ages, fmt.Sprintf("%d %s", a.Snapshots, a.label()))
		}
	}
	text := comma(int64(s.Count))
	if len(ages) > 0 {
		text += ": " + strings.Join(ages, ", ")
	}
	if s.Oldest != nil {
		text += "; the oldest of " + s.Oldest.Format(time.RFC3339)
	}
	p.line("snapshots", "%s", text)
	for _, r := range s.Refs {
		text := fmt.Sprintf("%s at snapshot %d", r.Type, r.SnapshotID)
		if r.At != nil {
			text += " of " + r.At.Format(time.RFC3339)
		}
		p.line("  "+r.Name, "%s", text)
	}
}

func (a AgeBar) label() string {
	if a.Under == "" {
		return "older"
	}

	return "under " + a.Under
}

func (s Sort) describe(files int64) string {
	if s.OrderID == 0 {
		return "none"
	}

	return fmt.Sprintf("%s (order %d); %s of %s files have it", s.Order, s.OrderID, comma(s.SortedFiles), comma(files))
}

// describe says what was found, or why nothing was looked for.
func (o *Orphans) describe() string {
	if o.Reason != "" {
		return "not known: " + o.Reason
	}

	return fmt.Sprintf("%s files, %s, at least %s old; %s younger; %s files, %s listed", comma(int64(o.Files)), size(o.Bytes), o.Age,
		comma(int64(o.Young)), comma(int64(o.Listed)), size(o.ListedBytes))
}

// due are the steps that a run would do.
func (h Health) due() string {
	var due []string
	for _, v := range h.Steps {
		if v.Due {
			due = append(due, v.Step)
		}
	}

	return cmp.Or(strings.Join(due, ", "), "-")
}

func size(n int64) string  { return humanize.IBytes(uint64(max(n, 0))) }
func comma(n int64) string { return humanize.Comma(n) }

func knownSize(n int64) string {
	if n == 0 {
		return "size not known"
	}

	return size(n)
}
