package inspect

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Ranked returns the tables with most bytes in small files first.
func Ranked(tables []Health) []Health {
	sorted := slices.Clone(tables)
	slices.SortStableFunc(sorted, func(a, b Health) int { return cmp.Compare(b.Data.SmallBytes, a.Data.SmallBytes) })

	return sorted
}

// column is one of the ranking. On a narrow terminal those with the highest
// number go first; 0 stays.
type column struct {
	title string
	leave int
	left  bool // text, not a number
	cell  func(Health) string
}

func rankingColumns(orphans bool) []column {
	out := []column{
		{"TABLE", 0, true, func(h Health) string { return clean(h.Table) }},
		{"FILES", 2, false, func(h Health) string { return comma(h.Data.Files) }},
		{"SMALL", 3, false, func(h Health) string { return comma(h.Data.SmallFiles) }},
		{"SMALL BYTES", 0, false, func(h Health) string { return size(h.Data.SmallBytes) }},
		{"DELETED", 4, false, func(h Health) string { return fmt.Sprintf("%.1f %%", 100*h.Deletes.Share) }},
		{"SNAPSHOTS", 5, false, func(h Health) string { return comma(int64(h.Snapshots.Count)) }},
		{"MANIFESTS", 6, false, func(h Health) string { return comma(int64(h.Manifests.Count)) }},
	}
	if orphans {
		out = append(out, column{"ORPHANS", 4, false, func(h Health) string {
			if h.Orphans == nil || h.Orphans.Reason != "" {
				return "?"
			}

			return comma(int64(h.Orphans.Files))
		}})
	}

	return append(out, column{"DUE", 1, true, Health.due})
}

// WriteRanking lists tables for people, those with most small bytes first. A
// terminal that is too narrow for all columns shows the more important ones.
func WriteRanking(w io.Writer, tables []Health, o TextOptions) error {
	ranked := Ranked(tables)
	columns := rankingColumns(slices.ContainsFunc(tables, func(h Health) bool { return h.Orphans != nil }))
	lines := grid(columns, ranked)
	for o.Width > 0 && total(lines) > o.Width {
		leave := slices.MaxFunc(columns, func(a, b column) int { return cmp.Compare(a.leave, b.leave) })
		if leave.leave == 0 {
			break
		}
		columns = slices.DeleteFunc(columns, func(c column) bool { return c.title == leave.title })
		lines = grid(columns, ranked)
	}
	if over := total(lines) - o.Width; o.Width > 0 && over > 0 {
		room := max(leastText, widths(lines)[0]-over)
		for i := range lines {
			lines[i][0] = elide(lines[i][0], room)
		}
	}
	s := sheet{o: o}
	var b strings.Builder
	wide := widths(lines)
	for i, line := range lines {
		text := ""
		for j, cell := range line {
			if j > 0 {
				text += "  "
			}
			if columns[j].left {
				text += pad(cell, wide[j])
			} else {
				text += strings.Repeat(" ", wide[j]-utf8.RuneCountInString(cell)) + cell
			}
		}
		text = strings.TrimRight(text, " ")
		if i == 0 {
			text = s.paint(toneTitle, text)
		}
		b.WriteString(text + "\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write ranking: %w", err)
	}

	return nil
}

// grid makes the cells, the titles first.
func grid(columns []column, tables []Health) [][]string {
	lines := make([][]string, 1+len(tables))
	for _, c := range columns {
		lines[0] = append(lines[0], c.title)
		for i, h := range tables {
			lines[1+i] = append(lines[1+i], c.cell(h))
		}
	}

	return lines
}

func widths(lines [][]string) []int {
	out := make([]int, len(lines[0]))
	for _, line := range lines {
		for j, cell := range line {
			out[j] = max(out[j], utf8.RuneCountInString(cell))
		}
	}

	return out
}

func total(lines [][]string) int {
	sum := 0
	for _, w := range widths(lines) {
		sum += w + 2
	}

	return sum - 2
}
