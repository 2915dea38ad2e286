package testenv

import (
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Rule says what happens to the requests that it matches.
type Rule struct {
	// Match selects requests; nil selects all. It must not read the body. It may run at once for several requests.
	Match func(*http.Request) bool
	// Before runs ahead of the action, in the request's own goroutine. It may read the body, send requests of its own and block.
	Before func(*http.Request)
	// Action answers the request; the zero value forwards.
	Action Action
	// OnForwarded runs after the server's answer arrived and before the client sees anything of it.
	OnForwarded func(r *http.Request, status int)
	// Times is how many requests the rule serves before it is ignored; 0 has no limit.
	Times int
}

// activeRule is a rule with its count of uses.
type activeRule struct {
	Rule
	used int
}

// Action is a way to treat a request. It is made by the functions below.
type Action struct {
	run func(x *exchange, forwarded func(*http.Request, int))
}

// serve runs the action; the zero value forwards.
func (a Action) serve(x *exchange, forwarded func(*http.Request, int)) {
	if a.run == nil {
		a = Forward()
	}
	a.run(x, forwarded)
}

// Forward passes the request on and the answer back, both as streams.
func Forward() Action {
	return Action{run: func(x *exchange, forwarded func(*http.Request, int)) { x.forward(forwarded) }}
}

// AnswerWithoutForward answers in the server's place; the server never sees the request.
func AnswerWithoutForward(status int, body string) Action {
	return Action{run: func(x *exchange, _ func(*http.Request, int)) {
		_, _ = io.Copy(io.Discard, x.r.Body) // A client that is still sending would see a broken pipe, not the answer.
		x.answer(status, nil, []byte(body))
	}}
}

// ForwardThenAnswer lets the server carry out the request and gives the client another answer.
func ForwardThenAnswer(status int, body string) Action {
	return RewriteAnswer(func(int, http.Header, []byte) (int, []byte) { return status, []byte(body) })
}

// RewriteAnswer lets the server carry out the request and changes its answer. The function may change the header in place.
func RewriteAnswer(change func(status int, header http.Header, body []byte) (int, []byte)) Action {
	return Action{run: func(x *exchange, forwarded func(*http.Request, int)) {
		whole, ok := x.exchangeAll(forwarded)
		if !ok {
			return
		}
		status, changed := change(whole.status, whole.header, whole.body)
		x.answer(status, whole.header, changed)
	}}
}

// ForwardThenClose lets the server carry out the request and closes the client's connection without an answer.
func ForwardThenClose() Action {
	return Action{run: func(x *exchange, forwarded func(*http.Request, int)) {
		if _, ok := x.exchangeAll(forwarded); ok {
			x.hangUp()
		}
	}}
}

// DropWithoutForward closes the client's connection; the server never sees the request.
func DropWithoutForward() Action {
	return Action{run: func(x *exchange, _ func(*http.Request, int)) {
		_, _ = io.Copy(io.Discard, x.r.Body) // As in AnswerWithoutForward.
		x.hangUp()
	}}
}

// Delay waits and then does what the next action says; without one it forwards. A client that gives up meanwhile does not recall
// its request.
func Delay(d time.Duration, then ...Action) Action {
	return Action{run: func(x *exchange, forwarded func(*http.Request, int)) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		x.hold(timer.C, func() { next(then).serve(x, forwarded) })
	}}
}

// BlockUntil waits until the channel is closed (or gives a value) and then does what the next action says; without one it forwards.
// With one channel for each request, a test chooses the order in which requests reach the server. A client that gives up meanwhile
// does not recall its request: it lands late.
func BlockUntil(release <-chan struct{}, then ...Action) Action {
	return Action{run: func(x *exchange, forwarded func(*http.Request, int)) {
		gate := make(chan time.Time)
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			select {
			case <-release:
				close(gate)
			case <-stop:
			}
		}()
		x.hold(gate, func() { next(then).serve(x, forwarded) })
	}}
}

// next is the action after a wait.
func next(then []Action) Action {
	if len(then) == 0 {
		return Forward()
	}
	return then[0]
}

// MethodPath matches a method ("" for any) and a path. In the pattern a star stands for one whole segment, and two stars at the end
// for the rest: "/v1/*/namespaces/*/tables/*" or "/analytics/**".
func MethodPath(method, pattern string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return (method == "" || r.Method == method) && pathMatches(r.URL.Path, pattern)
	}
}

// Is is MethodPath for records: p.Count(testenv.Is("POST", "/v1/*/namespaces/*/tables/*")).
func Is(method, pattern string) func(Request) bool {
	return func(r Request) bool {
		return (method == "" || r.Method == method) && pathMatches(r.Path, pattern)
	}
}

// pathMatches compares segment by segment.
func pathMatches(path, pattern string) bool {
	have, want := strings.Split(path, "/"), strings.Split(pattern, "/")
	for i, segment := range want {
		if segment == "**" && i == len(want)-1 {
			return len(have) > i
		}
		if i >= len(have) || segment != "*" && segment != have[i] {
			return false
		}
	}
	return len(have) == len(want)
}

// forward streams the answer through.
func (x *exchange) forward(forwarded func(*http.Request, int)) {
	answer, err := x.roundTrip()
	if err != nil {
		x.hangUp() // A client must see what it would see without the proxy: no answer.
		return
	}
	defer func() { _ = answer.Body.Close() }() // Only read.
	if forwarded != nil {
		forwarded(x.r, answer.StatusCode)
	}
	maps.Copy(x.w.Header(), answer.Header)
	x.proxy.update(func() { x.record.Status = answer.StatusCode })
	x.w.WriteHeader(answer.StatusCode)
	n, err := io.Copy(x.w, answer.Body)
	x.proxy.update(func() { x.record.AnswerBytes = n })
	if err != nil {
		x.hangUp()
	}
}

// wholeAnswer is an answer of the server with its body read.
type wholeAnswer struct {
	status int
	header http.Header
	body   []byte
}

// exchangeAll forwards and reads the whole answer, which is then known to have been made.
func (x *exchange) exchangeAll(forwarded func(*http.Request, int)) (wholeAnswer, bool) {
	answer, err := x.roundTrip()
	if err != nil {
		x.hangUp()
		return wholeAnswer{}, false
	}
	defer func() { _ = answer.Body.Close() }() // Only read.
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		x.hangUp()
		return wholeAnswer{}, false
	}
	if forwarded != nil {
		forwarded(x.r, answer.StatusCode)
	}
	return wholeAnswer{status: answer.StatusCode, header: answer.Header, body: body}, true
}

// answer writes a whole answer. Without a header of the server the body is called JSON, as catalogs speak it.
func (x *exchange) answer(status int, header http.Header, body []byte) {
	if header != nil {
		maps.Copy(x.w.Header(), header)
	} else {
		x.w.Header().Set("Content-Type", "application/json")
	}
	if x.r.Method != http.MethodHead {
		x.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	x.proxy.update(func() { x.record.Status, x.record.AnswerBytes = status, int64(len(body)) })
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body) // The client may have gone.
}

// hangUp closes the client's connection.
func (x *exchange) hangUp() {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err == nil {
		_ = conn.Close() // The client may have gone.
	}
}

// hold waits for the gate and then goes on. The request is in flight by then: a client that gives up does not recall it, as on a
// slow network. Only the end of the proxy drops it.
func (x *exchange) hold(gate <-chan time.Time, then func()) {
	if !x.buffer() {
		return
	}
	select {
	case <-gate:
		then()
	case <-x.proxy.ctx.Done():
		x.hangUp()
	}
}
