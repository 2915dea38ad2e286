package claim_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/pkg/claim"
)

// writerEnv makes the test binary a writer of its own process; it holds a writerSpec.
const writerEnv = "CLAIM_TEST_WRITER"

// writerSpec is what a writer in another process has to know.
type writerSpec struct {
	Name, DSN, Head string
	Node            int
	Key             claim.Key
	Window, Lease   time.Duration
	Pace            pace
	Seed            uint64
}

// writeFor runs a writer until in ends. It is the other process of tests that stop or kill one.
func writeFor(spec string, in io.Reader) error {
	var s writerSpec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, in) // However it ends, it ends.
		stop()
	}()
	cfg := claim.Config{Mode: claim.ModeBakery, DSN: s.DSN, Holder: s.Name, Window: s.Window,
		Timing: claim.Timing{Lease: cmp.Or(s.Lease, 30*time.Second), Probe: time.Second}}
	c, err := claim.Open(ctx, cfg)
	for err != nil { // The node may be away.
		if !pause(ctx, 100*time.Millisecond) {
			return nil
		}
		c, err = claim.Open(ctx, cfg)
	}
	defer c.Close() //nolint:errcheck // The process ends.
	w := &writer{name: s.Name, node: s.Node, claimer: c, key: s.Key, head: remoteHead(s.Head), pace: s.Pace,
		random: rand.New(rand.NewPCG(s.Seed, uint64(s.Node))), stubborn: true}
	return w.run(ctx, 1<<30)
}

// remoteHead is the address of a head in another process.
type remoteHead string

// swapRequest is a compare-and-swap on its way to another process.
type swapRequest struct {
	Commit   commit
	Way      time.Duration
	Deadline time.Time
}

// serve makes a head reachable for other processes.
func (h *head) serve(tb testing.TB) remoteHead {
	tb.Helper()
	mux := http.NewServeMux()
	handle(mux, "read", func(ctx context.Context, _ int) (int, error) { return h.read(ctx) })
	handle(mux, "granted", func(ctx context.Context, g granted) (int, error) { return 0, h.granted(ctx, g) })
	handle(mux, "settle", func(ctx context.Context, number int) (int, error) { return 0, h.settle(ctx, number) })
	handle(mux, "swap", func(ctx context.Context, r swapRequest) (int, error) {
		// A client that dies does not recall its request.
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), r.Deadline)
		defer cancel()
		return h.swap(ctx, r.Commit, r.Way)
	})
	server := httptest.NewServer(mux)
	tb.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return remoteHead(server.URL)
}

// handle answers one call, whose argument and result are JSON.
func handle[T any](mux *http.ServeMux, call string, answer func(context.Context, T) (int, error)) {
	mux.HandleFunc("/"+call, func(w http.ResponseWriter, r *http.Request) {
		var argument T
		if err := json.NewDecoder(r.Body).Decode(&argument); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		number, err := answer(r.Context(), argument)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(number) // The client may be dead.
	})
}

// call asks the other process.
func (r remoteHead) call(ctx context.Context, call string, argument any) (number int, err error) {
	body, err := json.Marshal(argument)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, string(r)+"/"+call, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close() //nolint:errcheck // Only read.
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", call, answer.Status)
	}
	return number, json.NewDecoder(answer.Body).Decode(&number)
}

func (r remoteHead) read(ctx context.Context) (int, error) { return r.call(ctx, "read", 0) }

func (r remoteHead) granted(ctx context.Context, g granted) error {
	_, err := r.call(ctx, "granted", g)
	return err
}

func (r remoteHead) settle(ctx context.Context, number int) error {
	_, err := r.call(ctx, "settle", number)
	return err
}

func (r remoteHead) swap(ctx context.Context, c commit, way time.Duration) (int, error) {
	deadline, _ := ctx.Deadline()
	return r.call(ctx, "swap", swapRequest{Commit: c, Way: way, Deadline: deadline})
}

// writerProcess is a process that runs writeFor.
type writerProcess struct {
	spec writerSpec
	cmd  *exec.Cmd
	in   io.WriteCloser
}

// startWriter starts the process; it is killed with the test.
func startWriter(tb testing.TB, spec writerSpec) *writerProcess {
	tb.Helper()
	encoded, err := json.Marshal(spec)
	require.NoError(tb, err)
	p := &writerProcess{spec: spec, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), writerEnv+"="+string(encoded))
	p.cmd.Stderr = os.Stderr
	p.in, err = p.cmd.StdinPipe()
	require.NoError(tb, err)
	require.NoError(tb, p.cmd.Start())
	tb.Cleanup(p.kill)
	return p
}

// kill ends the process at once and waits until it is gone. It may be called again.
func (p *writerProcess) kill() {
	_ = p.cmd.Process.Kill() // It may have ended.
	_ = p.cmd.Wait()
}

// finish lets the process end its round.
func (p *writerProcess) finish(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, p.in.Close())
	require.NoError(tb, p.cmd.Wait())
}
