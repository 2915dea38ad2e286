//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
)

// engineLimit bounds one request: a JVM on a busy machine takes its time.
const engineLimit = 5 * time.Minute

// engine is a Python process that runs what it is asked to. Requests of several
// tests go one after the other.
type engine struct {
	script string
	home   string // folder of the cache with its Python; scripts/setup.sh has the same name
	env    func(testing.TB) []string

	mu      sync.Mutex
	started bool
	input   io.WriteCloser
	answers chan []byte
	log     *lockedLog
}

// python has PyIceberg and DuckDB. The process serves all tests of the package,
// because starting it takes seconds.
var python = &engine{script: "engines/python.py", home: "engines-python"}

// ask runs Python source in the engine and returns what it assigned to result.
func (e *engine) ask(tb testing.TB, source string, result any) error {
	tb.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.started {
		e.start(tb)
	}
	request, err := json.Marshal(map[string]string{"run": source})
	require.NoError(tb, err)
	_, err = e.input.Write(append(request, '\n'))
	require.NoError(tb, err, "%s: %s", e.script, e.log)
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  string          `json:"error"`
	}
	require.NoError(tb, json.Unmarshal(e.receive(tb), &answer))
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	if result == nil {
		return nil
	}

	return json.Unmarshal(answer.Result, result)
}

func (e *engine) receive(tb testing.TB) []byte {
	tb.Helper()
	select {
	case line, ok := <-e.answers:
		require.True(tb, ok, "%s ended: %s", e.script, e.log)

		return line
	case <-time.After(engineLimit):
		require.FailNow(tb, "no answer", "%s after %s: %s", e.script, engineLimit, e.log)

		return nil
	}
}

func (e *engine) start(tb testing.TB) {
	tb.Helper()
	lake, err := json.Marshal(testenv.SharedLake(tb))
	require.NoError(tb, err)
	cmd := exec.Command(testenv.Tool(tb, e.home, "bin", "python"), e.script)
	cmd.Env = append(os.Environ(), "INTEROP_LAKE="+string(lake), "PYTHONDONTWRITEBYTECODE=1", "TZ=UTC")
	if e.env != nil {
		cmd.Env = append(cmd.Env, e.env(tb)...)
	}
	e.log = &lockedLog{}
	cmd.Stderr = e.log
	output, err := cmd.StdoutPipe()
	require.NoError(tb, err)
	e.input, err = cmd.StdinPipe()
	require.NoError(tb, err)
	require.NoError(tb, cmd.Start())
	e.answers = make(chan []byte)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(e.answers)
		lines := bufio.NewReader(output)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				_ = cmd.Wait() // How it ended is in its log.

				return
			}
			e.answers <- line
		}
	}()
	testenv.AtEnd(func() {
		_ = e.input.Close() // The end of its input ends the process.
		<-ended
	})
	e.started = true
	e.receive(tb)
}

// lockedLog keeps what an engine prints, for the message of a failed test.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.b.Write(p)
}

// String returns the end of the log.
func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 4 << 10
	text := l.b.String()

	return text[max(0, len(text)-most):]
}

// reader is one engine's way to read a table.
type reader struct {
	name   string
	engine *engine
	// call is the Python expression for the rows, with %q for table and condition.
	call string
}

var (
	byDuckDB    = reader{"DuckDB", python, "duck_rows(%q, %q)"}
	byPyIceberg = reader{"PyIceberg", python, "pyiceberg_rows(%q, %q)"}
)

// rows reads the table, whole or where a condition holds, as sorted text.
func (r reader) rows(tb testing.TB, table, where string) ([]string, error) {
	tb.Helper()
	var rows []string
	err := r.engine.ask(tb, "result = "+fmt.Sprintf(r.call, table, where), &rows)
	if err != nil {
		return nil, fmt.Errorf("read %s where %q with %s: %w", table, where, r.name, err)
	}

	return rows, nil
}
