package testenv

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// browserPipe speaks Chromium's DevTools protocol: JSON messages with a zero byte at the end of each.
type browserPipe struct {
	in, out *os.File
	done    chan struct{} // Closed when no more will come.

	mu      sync.Mutex
	next    int
	answers map[int]browserMessage
	events  []browserMessage
	news    chan struct{} // Closed and replaced with each message.
}

type browserMessage struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`

	raw json.RawMessage // Params of an event.
}

func openBrowserPipe(in, out *os.File) *browserPipe {
	p := &browserPipe{in: in, out: out, done: make(chan struct{}), answers: map[int]browserMessage{}, news: make(chan struct{})}
	go p.read()
	return p
}

func (p *browserPipe) read() {
	defer close(p.done)
	r := bufio.NewReader(p.in)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var params json.RawMessage
		m := browserMessage{Params: &params}
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue // Not of the protocol; whoever waits for it will say so.
		}
		m.raw = params
		p.mu.Lock()
		if m.ID != 0 {
			p.answers[m.ID] = m
		} else {
			p.events = append(p.events, m)
		}
		close(p.news)
		p.news = make(chan struct{})
		p.mu.Unlock()
	}
}

// close ends the reader. The browser has ended before.
func (p *browserPipe) close() {
	_ = p.out.Close() // Nobody reads it any more.
	<-p.done
	_ = p.in.Close() // All of it was read.
}

// call sends a command and returns its result.
func (p *browserPipe) call(session, method string, params any) (json.RawMessage, error) {
	p.mu.Lock()
	p.next++
	id := p.next
	p.mu.Unlock()
	text, err := json.Marshal(browserMessage{ID: id, SessionID: session, Method: method, Params: params})
	if err != nil {
		return nil, err
	}
	if _, err := p.out.Write(append(text, 0)); err != nil {
		return nil, err
	}
	var answer browserMessage
	err = p.until(func() bool {
		var ok bool
		answer, ok = p.answers[id]
		return ok
	})
	if err == nil && answer.Error != nil {
		err = fmt.Errorf("the browser says: %s", answer.Error)
	}
	return answer.Result, err
}

// wait returns when an event that matches was seen, before now or not.
func (p *browserPipe) wait(session, event string, match func(json.RawMessage) bool) error {
	return p.until(func() bool {
		return slices.ContainsFunc(p.events, func(m browserMessage) bool {
			return m.SessionID == session && m.Method == event && match(m.raw)
		})
	})
}

// seen are the events of a kind so far.
func (p *browserPipe) seen(session, event string) []json.RawMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []json.RawMessage
	for _, m := range p.events {
		if m.SessionID == session && m.Method == event {
			out = append(out, m.raw)
		}
	}
	return out
}

var errBrowserEnded = errors.New("the browser has ended")

// until waits for a condition, which is asked under the lock after each message.
func (p *browserPipe) until(ready func() bool) error {
	limit := time.NewTimer(browserPatience)
	defer limit.Stop()
	for {
		p.mu.Lock()
		ok, news := ready(), p.news
		p.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-news:
		case <-p.done:
			p.mu.Lock()
			defer p.mu.Unlock()
			if ready() {
				return nil
			}
			return errBrowserEnded
		case <-limit.C:
			return fmt.Errorf("no answer of the browser in %s", browserPatience)
		}
	}
}
