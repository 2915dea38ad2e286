package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"
)

const (
	fullBar   = 24 // columns of a bar where there is room
	leastBar  = 8
	columns80 = 80
	rows24    = 24
)

// sizeOf asks a terminal for its size, each time, because people change it.
func sizeOf(w io.Writer) func() (columns, rows int) {
	f, ok := w.(*os.File)
	if !ok {
		return func() (int, int) { return columns80, rows24 }
	}

	return func() (int, int) {
		c, r, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return columns80, rows24
		}

		return c, r
	}
}

// redraw puts text where the tasks were, and the tasks below it, in one write. It
// is called with the lock held.
func (s *Sink) redraw(text []byte) error {
	if s.opts.Terminal == nil || s.opts.Quiet && len(text) == 0 || len(s.tasks)+s.drawn+len(text) == 0 {
		return nil
	}
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r\x1b[J", s.drawn) // Up, and clear all below.
	}
	b.Write(text)
	s.drawn = 0
	if !s.opts.Quiet {
		for _, line := range s.picture() {
			b.WriteString(line + "\n")
			s.drawn++
		}
	}
	if _, err := io.WriteString(s.opts.Terminal, b.String()); err != nil {
		return fmt.Errorf("write to the terminal: %w", err)
	}

	return nil
}

// picture has one line for each task, none wider than the terminal, and fewer
// than it has rows: a line that wraps, or scrolls away, could not be cleared.
func (s *Sink) picture() []string {
	columns, rows := s.opts.Size()
	if columns <= 0 {
		columns = columns80
	}
	if rows <= 0 {
		rows = rows24
	}
	now := time.Now()
	room := max(1, rows-1)
	shown := s.tasks
	if len(shown) > room {
		shown = shown[:room-1]
	}
	var out []string
	for _, t := range shown {
		out = append(out, cut(t.line(now, columns-1), columns-1))
	}
	if more := len(s.tasks) - len(shown); more > 0 {
		out = append(out, cut(fmt.Sprintf("and %d more", more), columns-1))
	}

	return out
}

// line is name, bar where there is room for one, and figures. On a narrow
// terminal the name is shortened first, because the figures are what changes.
func (t *Task) line(now time.Time, columns int) string {
	figures := t.figures(now)
	bar := ""
	if room := columns - width(t.name) - width(figures) - 4; t.unit != unitNone && t.total > 0 && room >= leastBar {
		size := min(room, fullBar)
		full := int(float64(size) * min(1, float64(t.done)/float64(t.total)))
		bar = "[" + strings.Repeat("#", full) + strings.Repeat(".", size-full) + "] "
	}
	name := cut(t.name, max(leastBar, columns-width(bar)-width(figures)-1))

	return name + " " + bar + figures
}

// cut shortens a text to so many columns.
func cut(text string, columns int) string {
	if width(text) <= columns {
		return text
	}
	used := 0
	for i, r := range text {
		if used += runeWidth(r); used > columns {
			return text[:i]
		}
	}

	return text
}

func width(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}

	return n
}

// runeWidth errs to the wide side: a line that is too short does no harm.
func runeWidth(r rune) int {
	const firstWide = 0x1100
	switch {
	case unicode.Is(unicode.Mn, r):
		return 0
	case r >= firstWide:
		return 2
	default:
		return 1
	}
}
