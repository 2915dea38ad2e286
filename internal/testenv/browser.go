package testenv

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// browserProgram is Debian's Chromium without a window.
const browserProgram = "chromium-headless-shell"

// browserPatience bounds each answer of the browser. A loaded machine is slow.
const browserPatience = 2 * time.Minute

// Browser is a headless Chromium of the test's own. It has no way to the network but a proxy that answers nothing and remembers who asked.
type Browser struct {
	tb   testing.TB
	pipe *browserPipe

	mu    sync.Mutex
	asked []string
}

// NewBrowser starts the browser; it ends with the test. A missing one fails the test.
func NewBrowser(tb testing.TB) *Browser {
	tb.Helper()
	path := Program(tb, browserProgram)
	b := &Browser{tb: tb}
	proxy := httptest.NewServer(http.HandlerFunc(b.refuse))
	tb.Cleanup(proxy.Close)
	dir := tb.TempDir()
	toRead, toWrite := newPipe(tb), newPipe(tb)
	p, err := startProcess(processSpec{
		Path: path, Dir: dir, Log: filepath.Join(dir, "browser.log"), DeathSignal: syscall.SIGKILL, Files: []*os.File{toRead[0], toWrite[1]},
		Env: []string{"HOME=" + dir},
		Args: []string{
			"--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-component-update",
			"--hide-scrollbars", "--user-data-dir=" + filepath.Join(dir, "profile"),
			"--proxy-server=" + proxy.Listener.Addr().String(), "--proxy-bypass-list=<-loopback>", "--remote-debugging-pipe",
		},
	})
	for _, f := range []*os.File{toRead[0], toWrite[1]} {
		_ = f.Close() // The browser has its own copy.
	}
	if err != nil {
		tb.Fatal(err)
	}
	b.pipe = openBrowserPipe(toWrite[0], toRead[1])
	tb.Cleanup(func() {
		p.kill() // It has nothing to save, and its own end takes seconds.
		b.pipe.close()
		if tb.Failed() {
			tb.Logf("log of the browser:\n%s", p.logTail())
		}
	})
	return b
}

func newPipe(tb testing.TB) [2]*os.File {
	tb.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	return [2]*os.File{r, w}
}

func (b *Browser) refuse(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.asked = append(b.asked, r.Method+" "+r.RequestURI)
	b.mu.Unlock()
	w.WriteHeader(http.StatusBadGateway)
}

// Asked are the requests that reached the network, of all pages and of the browser itself.
func (b *Browser) Asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked)
}

// Screen is what a page is shown on.
type Screen struct {
	Width, Height int
	Phone, Dark   bool
}

// BrowserPage is an open page.
type BrowserPage struct {
	b       *Browser
	session string
}

// Open shows an address on a screen and waits until it is loaded.
func (b *Browser) Open(url string, s Screen) *BrowserPage {
	b.tb.Helper()
	var target struct{ TargetID string }
	b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p := &BrowserPage{b, attached.SessionID}
	for _, domain := range []string{"Page", "Network", "Runtime", "Log"} {
		b.call(p.session, domain+".enable", nil, nil)
	}
	b.call(p.session, "Emulation.setDeviceMetricsOverride", map[string]any{"width": s.Width, "height": s.Height, "deviceScaleFactor": 1, "mobile": s.Phone}, nil)
	scheme := "light"
	if s.Dark {
		scheme = "dark"
	}
	b.call(p.session, "Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.call(p.session, "Page.setLifecycleEventsEnabled", map[string]any{"enabled": true}, nil)
	var shown struct{ LoaderID string }
	b.call(p.session, "Page.navigate", map[string]any{"url": url}, &shown)
	if err := b.pipe.wait(p.session, "Page.lifecycleEvent", loadedBy(shown.LoaderID)); err != nil {
		b.tb.Fatalf("open %s: %v", url, err)
	}
	return p
}

// loadedBy tells the event that ends the loading of a page from that of the empty page before it.
func loadedBy(loader string) func(json.RawMessage) bool {
	return func(params json.RawMessage) bool {
		var e struct{ Name, LoaderID string }
		return json.Unmarshal(params, &e) == nil && e.Name == "load" && e.LoaderID == loader
	}
}

// Eval evaluates an expression in the page and decodes its value into out.
func (p *BrowserPage) Eval(expression string, out any) {
	p.b.tb.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	p.b.call(p.session, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &answer)
	if answer.ExceptionDetails != nil {
		p.b.tb.Fatalf("evaluate %s: %s", expression, answer.ExceptionDetails)
	}
	if err := json.Unmarshal(answer.Result.Value, out); err != nil {
		p.b.tb.Fatalf("evaluate %s: %v", expression, err)
	}
}

// Requests are the addresses that the page asked for, itself included.
func (p *BrowserPage) Requests() []string {
	p.b.tb.Helper()
	var urls []string
	for _, e := range p.b.pipe.seen(p.session, "Network.requestWillBeSent") {
		var sent struct{ Request struct{ URL string } }
		if err := json.Unmarshal(e, &sent); err != nil {
			p.b.tb.Fatal(err)
		}
		urls = append(urls, sent.Request.URL)
	}
	return urls
}

// Complaints are what the page wrote to the console, and what the browser says against it.
func (p *BrowserPage) Complaints() []string {
	var out []string
	for _, event := range []string{"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"} {
		for _, e := range p.b.pipe.seen(p.session, event) {
			out = append(out, event+" "+string(e))
		}
	}
	return out
}

// Screenshot writes the whole page as a PNG file.
func (p *BrowserPage) Screenshot(path string) {
	p.b.tb.Helper()
	var shot struct{ Data string }
	p.b.call(p.session, "Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(path, png, 0o600)
	}
	if err != nil {
		p.b.tb.Fatalf("screenshot: %v", err)
	}
}

func (b *Browser) call(session, method string, params, out any) {
	b.tb.Helper()
	raw, err := b.pipe.call(session, method, params)
	if err == nil && out != nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		b.tb.Fatal(fmt.Errorf("%s: %w", method, err))
	}
}
