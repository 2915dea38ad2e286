package inspect

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// TextOptions say what the text is written on.
type TextOptions struct {
	Width int  // columns of the terminal; 0: no limit
	Plain bool // charts are made of #, for terminals without block characters
	Color bool
}

// tone is how a text is set off on a terminal with colours.
type tone string

const (
	toneNone  tone = ""
	toneTitle tone = "1"    // bold
	toneWarn  tone = "33"   // yellow
	toneGood  tone = "32"   // green
	toneQuiet tone = "2;39" // dim
)

const (
	// barWidth is the length of the longest bar of a chart, in characters;
	// leastBar is what a narrow terminal leaves of it.
	barWidth, leastBar = 40, 4
	// leastText is the width below which text is not broken any more.
	leastText = 16
)

// row is one line of a report: a label, then a bar or not, then text.
type row struct {
	label string
	text  string
	short string // instead of text, where a bar would have no room
	share float64
	bar   bool
	tone  tone
}

// sheet collects rows and writes them in two columns.
type sheet struct {
	o    TextOptions
	rows []row
}

func (s *sheet) line(label, format string, args ...any) {
	s.rows = append(s.rows, row{label: label, text: fmt.Sprintf(format, args...)})
}

// bar adds a row of a chart. n of most is the length of the bar.
func (s *sheet) bar(label string, n, most int64, text, short string) *row {
	share := float64(0)
	if most > 0 {
		share = float64(n) / float64(most)
	}
	s.rows = append(s.rows, row{label: label, text: text, short: short, share: share, bar: true})

	return &s.rows[len(s.rows)-1]
}

// write puts the rows on w, below a title.
func (s *sheet) write(w io.Writer, title string) error {
	var b strings.Builder
	b.WriteString(s.paint(toneTitle, clean(title)) + "\n")
	labels := s.labelWidth()
	for _, r := range s.rows {
		label := pad(elide(clean(r.label), labels), labels)
		room := 0
		if s.o.Width > 0 {
			room = max(leastText, s.o.Width-labels-4)
		}
		indent := strings.Repeat(" ", labels+4)
		for i, part := range s.content(r, room) {
			if i == 0 {
				b.WriteString("  " + label + "  " + part + "\n")
			} else {
				b.WriteString(indent + part + "\n")
			}
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write health: %w", err)
	}

	return nil
}

// labelWidth is the widest label, but a third of a terminal at most.
func (s *sheet) labelWidth() int {
	widest := 0
	for _, r := range s.rows {
		widest = max(widest, utf8.RuneCountInString(clean(r.label)))
	}
	if s.o.Width > 0 {
		widest = min(widest, max(12, s.o.Width/3))
	}

	return widest
}

// content are the lines of the second column, of room characters where it is
// not 0.
func (s *sheet) content(r row, room int) []string {
	if !r.bar {
		lines := wrap(clean(r.text), room)
		for i := range lines {
			lines[i] = s.paint(r.tone, lines[i])
		}

		return lines
	}
	text, length := clean(r.text), barWidth
	if room > 0 {
		if room-utf8.RuneCountInString(text)-1 < 2*leastBar {
			text = clean(r.short)
		}
		length = min(barWidth, max(leastBar, room-utf8.RuneCountInString(text)-1))
	}
	drawn := s.draw(r.share, length)
	if drawn != "" {
		drawn = s.paint(r.tone, drawn) + " "
	}

	return []string{drawn + text}
}

// draw makes a bar. Whatever is there at all has one character of it.
func (s *sheet) draw(share float64, length int) string {
	if share <= 0 {
		return ""
	}
	eighths := max(1, int(min(share, 1)*float64(8*length)+0.5))
	if s.o.Plain {
		return strings.Repeat("#", max(1, eighths/8))
	}
	out := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		out += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}

	return out
}

func (s *sheet) paint(t tone, text string) string {
	if !s.o.Color || t == toneNone || text == "" {
		return text
	}

	return "\x1b[" + string(t) + "m" + text + "\x1b[0m"
}

// clean writes what a terminal would obey as an escape. Names come from
// catalogs and files.
func clean(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	quoted := strconv.Quote(text)

	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// elide takes the middle out of a text that is too wide.
func elide(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width || width < 2 {
		return text
	}
	head := (width - 1) / 2

	return string(runes[:head]) + "…" + string(runes[len(runes)-(width-1-head):])
}

// wrap breaks a text at blanks. A word that is too wide stays whole, so that it
// can be copied.
func wrap(text string, width int) []string {
	if width <= 0 {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}

	return append(lines, line)
}
