package progress

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/rs/zerolog"
)

// unit is what a task counts.
type unit int

const (
	unitNone unit = iota
	unitBytes
	unitFiles
)

// Task is one piece of work. Its methods are safe for concurrent use, and do
// nothing on a nil task.
type Task struct {
	sink *Sink
	name string

	// The sink's lock guards what follows.
	doing   string
	unit    unit
	done    int64
	total   int64
	started time.Time
	since   time.Time // of what it is doing
}

// Set says that done bytes of the task are behind us. It never goes back.
func (t *Task) Set(done int64) {
	t.change(func() { t.done = max(t.done, done) })
}

// Doing says what the task does from now on, without a count.
func (t *Task) Doing(what string) {
	t.change(func() {
		if t.doing != what {
			t.since = time.Now()
		}
		t.doing, t.unit = what, unitNone
	})
}

// Files says how many files of how many the task has dealt with, and how.
func (t *Task) Files(what string, done, total int) {
	t.change(func() {
		if t.doing != what || t.unit != unitFiles {
			t.since = time.Now()
		}
		t.doing, t.unit, t.done, t.total = what, unitFiles, int64(done), int64(total)
	})
}

func (t *Task) change(f func()) {
	if t == nil {
		return
	}
	t.sink.mu.Lock()
	defer t.sink.mu.Unlock()
	f()
}

// Done ends the task.
func (t *Task) Done() {
	if t != nil {
		t.sink.end(t)
	}
}

// left estimates the time to the end by the speed so far; zero when nothing can
// be said.
func (t *Task) left(now time.Time) time.Duration {
	if t.done <= 0 || t.total <= t.done {
		return 0
	}

	return time.Duration(float64(now.Sub(t.since)) / float64(t.done) * float64(t.total-t.done)).Round(time.Second)
}

func (t *Task) speed(now time.Time) float64 {
	if s := now.Sub(t.since).Seconds(); s > 0 {
		return float64(t.done) / s
	}

	return 0
}

func (t *Task) log(log zerolog.Logger, now time.Time) {
	e := log.Info().Str("task", t.name)
	if t.doing != "" {
		e = e.Str("doing", t.doing)
	}
	switch t.unit {
	case unitBytes:
		e = e.Str("done", humanize.IBytes(uint64(t.done))).Str("total", humanize.IBytes(uint64(t.total))).
			Float64("mib_per_second", t.speed(now)/(1<<20))
	case unitFiles:
		e = e.Int64("done", t.done).Int64("total", t.total)
	case unitNone:
		e = e.Dur("for", now.Sub(t.since).Round(time.Second))
	}
	if eta := t.left(now); t.unit != unitNone && eta > 0 {
		e = e.Dur("eta", eta)
	}
	e.Msg("progress")
}

// figures are the numbers of a task, for a line on a terminal.
func (t *Task) figures(now time.Time) string {
	text := ""
	switch t.unit {
	case unitBytes:
		text = fmt.Sprintf("%s/%s %s/s", humanize.IBytes(uint64(t.done)), humanize.IBytes(uint64(t.total)), humanize.IBytes(uint64(t.speed(now))))
	case unitFiles:
		text = fmt.Sprintf("%s %s/%s files", t.doing, humanize.Comma(t.done), humanize.Comma(t.total))
	case unitNone:
		return fmt.Sprintf("%s, %s", t.doing, now.Sub(t.since).Round(time.Second))
	}
	if eta := t.left(now); eta > 0 {
		text += " ETA " + eta.String()
	}

	return text
}
