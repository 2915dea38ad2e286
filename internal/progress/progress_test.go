package progress

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.b.String()
}

// eventually asks again until it is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	require.Eventually(t, so, time.Minute, time.Millisecond, what)
}

// Every open task has its lines, also one that makes no progress.
func TestLinesComeAtTheirDistance(t *testing.T) {
	var buf buffer
	s := New(Options{Log: zerolog.New(&buf), Every: time.Millisecond})
	task := s.Start("rewrite", 100)
	task.Set(40)
	waiting := s.Phase("sales.orders compact", "waiting for the claim")
	deleting := s.Phase("sales.orders expire", "planning")
	deleting.Files("deleting", 3, 12)
	for _, name := range []string{"rewrite", "sales.orders compact", "sales.orders expire"} {
		eventually(t, name, func() bool { return strings.Contains(buf.String(), fmt.Sprintf("%q", name)) })
	}
	task.Done()
	waiting.Done()
	deleting.Done()
	s.Close()
	s.Close()

	found := map[string]map[string]any{}
	for text := range strings.Lines(buf.String()) {
		var line map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &line), "lines of JSON: %s", text)
		require.Equal(t, "progress", line["message"])
		found[line["task"].(string)] = line
	}
	require.Equal(t, "40 B", found["rewrite"]["done"])
	require.Equal(t, "100 B", found["rewrite"]["total"])
	require.Equal(t, "waiting for the claim", found["sales.orders compact"]["doing"])
	require.Equal(t, "deleting", found["sales.orders expire"]["doing"])
	require.EqualValues(t, 12, found["sales.orders expire"]["total"])
}

func TestQuietShowsNothing(t *testing.T) {
	for _, screen := range []*buffer{nil, {}} {
		var log buffer
		o := Options{Log: zerolog.New(&log), Every: time.Nanosecond, Quiet: true}
		if screen != nil {
			o.Terminal = screen
		}
		s := New(o)
		task := s.Start("rewrite", 100)
		task.Set(40)
		task.Done()
		if screen != nil {
			_, err := s.Writer().Write([]byte("a warning\n"))
			require.NoError(t, err)
			require.Equal(t, "a warning\n", screen.String(), "log lines pass")
		}
		s.Close()
		require.Empty(t, log.String())
	}
}

func TestConcurrentUseNeverGoesBack(t *testing.T) {
	s := New(Options{Terminal: &buffer{}})
	defer s.Close()
	task := s.Start("rewrite", 1000)
	var wg sync.WaitGroup
	for i := range int64(100) {
		wg.Go(func() { task.Set(i * 10) })
	}
	wg.Wait()
	require.EqualValues(t, 990, task.done)
	task.Done()
	var none *Task
	none.Set(1)
	none.Doing("nothing")
	none.Done()
}

// Nothing that is drawn is wider or higher than the terminal, whatever its size and the names.
func TestPicturesFitTheTerminal(t *testing.T) {
	for _, columns := range []int{1, 10, 20, 40, 79, 200} {
		for _, rows := range []int{1, 2, 5, 50} {
			s := New(Options{Terminal: &buffer{}, Every: time.Hour, Size: func() (int, int) { return columns, rows }})
			s.Start("sales.a_table_with_a_name_that_is_longer_than_most group-0001", 5<<30).Set(1 << 30)
			s.Start("日本語.テーブル group-0002", 5<<30).Set(1 << 20)
			s.Phase("sales.orders expire", "planning").Files("deleting", 1200, 400000)
			s.Phase("sales.orders compact", "waiting for the claim held by writer@somewhere")
			s.mu.Lock()
			picture := s.picture()
			s.mu.Unlock()
			require.LessOrEqual(t, len(picture), max(1, rows-1))
			for _, line := range picture {
				require.Less(t, width(line), max(columns, 2), "%q on %d columns", line, columns)
			}
			if columns == 200 && rows == 50 {
				require.Contains(t, picture[0], "[####....................] 1.0 GiB/5.0 GiB ")
				require.Contains(t, picture[2], "deleting 1,200/400,000 files")
				require.Contains(t, picture[3], "waiting for the claim held by writer@somewhere, 0s")
			}
			s.Close()
		}
	}
}

// Log lines stand above the tasks, and the end leaves nothing of the tasks.
func TestLogLinesStandAboveTheTasks(t *testing.T) {
	screen := &buffer{}
	s := New(Options{Terminal: screen})
	task := s.Phase("sales.orders", "planning")
	_, err := s.Writer().Write([]byte("first\n"))
	require.NoError(t, err)
	_, err = s.Writer().Write([]byte("second\n"))
	require.NoError(t, err)
	eventually(t, "drawn", func() bool { return strings.Contains(screen.String(), "planning") })
	task.Done()
	s.Close()
	require.Equal(t, []string{"first", "second"}, rendered(screen.String()))
}

// rendered is what a terminal shows after all of a text.
func rendered(text string) []string {
	var lines []string
	row := 0
	put := func(s string) {
		for len(lines) <= row {
			lines = append(lines, "")
		}
		lines[row] += s
	}
	for text != "" {
		var up int
		switch {
		case strings.HasPrefix(text, "\x1b[J"):
			lines, text = lines[:min(row, len(lines))], text[3:]
		case strings.HasPrefix(text, "\x1b["):
			if n, _ := fmt.Sscanf(text, "\x1b[%dA", &up); n == 1 {
				row = max(0, row-up)
			}
			text = text[strings.IndexByte(text, 'A')+1:]
		case text[0] == '\r':
			text = text[1:]
		case text[0] == '\n':
			put("")
			row++
			text = text[1:]
		default:
			end := strings.IndexAny(text, "\x1b\r\n")
			if end < 0 {
				end = len(text)
			}
			put(text[:end])
			text = text[end:]
		}
	}

	return lines
}
