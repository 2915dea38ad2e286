package inspect

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
)

// barWidth is the length of the longest bar of a chart, in characters.
const barWidth = 40

// page writes lines; tabwriter keeps the first error for Flush.
type page struct{ w *tabwriter.Writer }

func (p page) line(label, format string, args ...any) {
	fmt.Fprintf(p.w, "  %s\t%s\n", label, fmt.Sprintf(format, args...)) //nolint:errcheck // See page.
}

// WriteText writes the health for people, with bar charts. Charts are made of
// # where plain is set, of blocks otherwise.
func (h Health) WriteText(w io.Writer, plain bool) error {
	p := page{tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)}
	fmt.Fprintln(p.w, h.Table) //nolint:errcheck // See page.
	p.line("location", "%s (format version %d)", h.Location, h.FormatVersion)
	d := h.Data
	p.line("data", "%s files, %s, %s rows", comma(d.Files), size(d.Bytes), comma(d.Rows))
	p.line("small", "%s files, %s (below %s); %s large", comma(d.SmallFiles), size(d.SmallBytes), size(h.MinFileSize), comma(d.LargeFiles))
	h.writeBars(p, plain)
	h.writePartitions(p)
	x := h.Deletes
	p.line("deletes", "%d position files, %d deletion vectors, %d equality files; %s rows, %.1f %%",
		x.PositionFiles, x.Vectors, x.EqualityFiles, comma(x.Rows), 100*x.Share)
	h.writeSnapshots(p)
	m := h.Manifests
	p.line("manifests", "%d (%d of deletes), %s, %d small", m.Count, m.DeleteCount, size(m.Bytes), m.Small)
	p.line("metadata.json", "%s, %d earlier ones", size(h.Metadata.Bytes), h.Metadata.Earlier)
	if h.Sort.OrderID != 0 {
		p.line("sort order", "%d; %s of %s files have it", h.Sort.OrderID, comma(h.Sort.SortedFiles), comma(d.Files))
	}
	c := h.Compaction
	p.line("compaction", "%s -> about %s files; a full scan %s -> about %s requests",
		comma(c.FilesBefore), comma(c.FilesAfter), comma(c.RequestsBefore), comma(c.RequestsAfter))
	for _, v := range h.Steps {
		due := "nothing to do"
		if v.Due {
			due = "due"
		}
		p.line(v.Step, "%s: %s", due, v.Reason)
	}
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("write health: %w", err)
	}

	return nil
}

func (h Health) writeBars(p page, plain bool) {
	longest := int64(1)
	for _, b := range h.Sizes {
		longest = max(longest, b.Files)
	}
	sign := "█"
	if plain {
		sign = "#"
	}
	for _, b := range h.Sizes {
		label := "< " + size(b.To)
		if b.To == 0 {
			label = ">= " + size(b.From)
		}
		n := int(b.Files * barWidth / longest)
		if b.Files > 0 {
			n = max(1, n)
		}
		p.line("  "+label, "%s %s files, %s", strings.Repeat(sign, n), comma(b.Files), size(b.Bytes))
	}
}

func (h Health) writePartitions(p page) {
	p.line("partitions", "%s", comma(int64(h.Partitions.Count)))
	for _, one := range h.Partitions.Worst {
		if one.Name == "" || one.SmallFiles == 0 {
			continue
		}
		p.line("  "+one.Name, "%s files, %s; %s small", comma(one.Files), size(one.Bytes), comma(one.SmallFiles))
	}
}

func (h Health) writeSnapshots(p page) {
	s := h.Snapshots
	var ages []string
	for _, a := range s.Ages {
		if a.Snapshots > 0 {
			ages = append(ages, fmt.Sprintf("%d under %s", a.Snapshots, cmp.Or(a.Under, "older")))
		}
	}
	text := strings.ReplaceAll(strings.Join(ages, ", "), "under older", "older")
	if s.Oldest != nil {
		text += "; the oldest of " + s.Oldest.Format(time.RFC3339)
	}
	p.line("snapshots", "%d: %s", s.Count, text)
	for _, r := range s.Refs {
		p.line("  "+r.Name, "%s at snapshot %d", r.Type, r.SnapshotID)
	}
}

// WriteRanking lists tables for people, those with most small bytes first.
func WriteRanking(w io.Writer, tables []Health) error {
	sorted := slices.Clone(tables)
	slices.SortStableFunc(sorted, func(a, b Health) int { return cmp.Compare(b.Data.SmallBytes, a.Data.SmallBytes) })
	p := page{tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)}
	fmt.Fprintln(p.w, "\nTABLE\tFILES\tSMALL\tSMALL BYTES\tDELETED\tSNAPSHOTS\tMANIFESTS\tDUE") //nolint:errcheck // See page.
	for _, h := range sorted {
		var due []string
		for _, v := range h.Steps {
			if v.Due {
				due = append(due, v.Step)
			}
		}
		fmt.Fprintf(p.w, "%s\t%s\t%s\t%s\t%.1f %%\t%d\t%d\t%s\n", h.Table, comma(h.Data.Files), comma(h.Data.SmallFiles), size(h.Data.SmallBytes), //nolint:errcheck // See page.
			100*h.Deletes.Share, h.Snapshots.Count, h.Manifests.Count, cmp.Or(strings.Join(due, ", "), "-"))
	}
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("write ranking: %w", err)
	}

	return nil
}

func size(n int64) string  { return humanize.IBytes(uint64(max(n, 0))) }
func comma(n int64) string { return humanize.Comma(n) }
