// Package progress shows how far long work has come: bars on a terminal, a log
// line now and then elsewhere.
package progress

import (
	"io"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/rs/zerolog"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// DefaultEvery is the distance of two log lines of one task.
const DefaultEvery = 30 * time.Second

// Options say where progress goes.
type Options struct {
	Terminal io.Writer      // bars are drawn here; nil draws none
	Log      zerolog.Logger // lines go here when there is no terminal
	Every    time.Duration  // distance of two lines; 0 is DefaultEvery
	Quiet    bool           // show nothing at all
}

// Sink shows the tasks of one run. It is safe for concurrent use. Close ends
// the drawing; a task that was not finished stays as it was.
type Sink struct {
	opts Options
	bars *mpb.Progress
}

// New starts a sink.
func New(o Options) *Sink {
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	s := &Sink{opts: o}
	if o.Terminal != nil && !o.Quiet {
		s.bars = mpb.New(mpb.WithOutput(o.Terminal), mpb.WithAutoRefresh(), mpb.WithWidth(64))
	}

	return s
}

// Close ends the drawing and waits for it.
func (s *Sink) Close() {
	if s.bars != nil {
		s.bars.Shutdown()
	}
}

// Task is one piece of work of known size in bytes. Its methods are safe for
// concurrent use.
type Task struct {
	sink    *Sink
	name    string
	mu      sync.Mutex
	done    int64
	total   int64
	started time.Time
	shown   time.Time
	bar     *mpb.Bar
}

// Start begins a task of total bytes.
func (s *Sink) Start(name string, total int64) *Task {
	now := time.Now()
	t := &Task{sink: s, name: name, total: total, started: now, shown: now}
	if s.bars != nil {
		t.bar = s.bars.AddBar(total,
			mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(name+" "), decor.CountersKibiByte("% .1f / % .1f")),
			mpb.AppendDecorators(decor.AverageSpeed(decor.SizeB1024(0), "% .1f "), decor.AverageETA(decor.ET_STYLE_GO)),
		)
	}

	return t
}

// Set says that done bytes of the task are behind us.
func (t *Task) Set(done int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = max(t.done, done)
	if t.bar != nil {
		t.bar.SetCurrent(t.done)

		return
	}
	now := time.Now()
	if t.sink.opts.Quiet || now.Sub(t.shown) < t.sink.opts.Every {
		return
	}
	t.shown = now
	t.line(now)
}

// Done ends the task.
func (t *Task) Done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bar != nil {
		t.bar.Abort(true)
	}
}

func (t *Task) line(now time.Time) {
	speed := float64(t.done) / now.Sub(t.started).Seconds()
	e := t.sink.opts.Log.Info().Str("task", t.name).
		Str("done", humanize.IBytes(uint64(t.done))).Str("total", humanize.IBytes(uint64(t.total))).
		Float64("mib_per_second", speed/(1<<20))
	if speed > 0 && t.total > t.done {
		e = e.Dur("eta", time.Duration(float64(t.total-t.done)/speed*float64(time.Second)).Round(time.Second))
	}
	e.Msg("progress")
}
