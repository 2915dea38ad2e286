// Package progress shows how far long work has come: lines that are redrawn in
// place on a terminal, a log line now and then elsewhere.
package progress

import (
	"io"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// DefaultEvery is the distance of two log lines of one task.
const DefaultEvery = 30 * time.Second

// redrawEvery is how often a terminal is redrawn.
const redrawEvery = 200 * time.Millisecond

// Options say where progress goes.
type Options struct {
	Terminal io.Writer      // tasks are drawn here; nil draws none
	Log      zerolog.Logger // lines go here when there is no terminal
	Every    time.Duration  // distance of two lines; 0 is DefaultEvery
	Quiet    bool           // show nothing at all
	// Size is the terminal's number of columns and rows; nil asks it when it is a
	// file. Zeros are taken for 80 and 24.
	Size func() (columns, rows int)
}

// Sink shows the tasks of one run. It is safe for concurrent use. Close ends
// it; a task that was not finished stays as it was.
type Sink struct {
	opts Options

	mu    sync.Mutex
	tasks []*Task // that are not done, in the order of their start
	drawn int     // lines on the terminal
	ended bool

	stop chan struct{}
	done chan struct{}
}

// New starts a sink. Close has to be called.
func New(o Options) *Sink {
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	if o.Size == nil {
		o.Size = sizeOf(o.Terminal)
	}
	s := &Sink{opts: o, stop: make(chan struct{}), done: make(chan struct{})}
	go s.run()

	return s
}

// run redraws, or writes lines, until Close.
func (s *Sink) run() {
	defer close(s.done)
	if s.opts.Quiet {
		return
	}
	every := s.opts.Every
	if s.opts.Terminal != nil {
		every = redrawEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			s.show()
		}
	}
}

func (s *Sink) show() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opts.Terminal != nil {
		_ = s.redraw(nil) // A terminal that is gone ends nothing.

		return
	}
	now := time.Now()
	for _, t := range s.tasks {
		if now.Sub(t.started) >= s.opts.Every {
			t.log(s.opts.Log, now)
		}
	}
}

// Close clears the terminal of what was drawn and waits for the end of it. It
// may be called twice.
func (s *Sink) Close() {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()

		return
	}
	s.ended, s.tasks = true, nil
	if s.opts.Terminal != nil && !s.opts.Quiet {
		_ = s.redraw(nil) // As above.
	}
	s.mu.Unlock()
	close(s.stop)
	<-s.done
}

// Writer is for log lines on the terminal that is drawn on: what is written
// appears above the tasks. Lines have to be written whole.
func (s *Sink) Writer() io.Writer { return lines{s} }

type lines struct{ sink *Sink }

// Write writes whole lines.
func (l lines) Write(p []byte) (int, error) {
	l.sink.mu.Lock()
	defer l.sink.mu.Unlock()

	return len(p), l.sink.redraw(p)
}

// Start begins a task of total bytes.
func (s *Sink) Start(name string, total int64) *Task {
	return s.begin(&Task{name: name, total: total, unit: unitBytes})
}

// Phase begins a task without a size of its own: a step, of which is told what it
// is doing.
func (s *Sink) Phase(name, doing string) *Task { return s.begin(&Task{name: name, doing: doing}) }

func (s *Sink) begin(t *Task) *Task {
	t.sink, t.started = s, time.Now()
	t.since = t.started
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.tasks = append(s.tasks, t)
	}

	return t
}

func (s *Sink) end(t *Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks = slices.DeleteFunc(s.tasks, func(o *Task) bool { return o == t })
}
