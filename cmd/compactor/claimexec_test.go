package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/pkg/claim/claimtest"
)

// execArgs is the command line of `claim exec` without a catalog.
func (w *world) execArgs(flags []string, command ...string) []string {
	return slices.Concat([]string{"claim", "exec", "--config", w.config, "--no-catalog"}, flags, []string{w.name(), "--"}, command)
}

// exec starts a shell script under the claim and returns once it says ready.
func (w *world) exec(script string, flags ...string) *process {
	w.t.Helper()
	p := w.start(w.execArgs(flags, "sh", "-c", script)...)
	p.says("ready")

	return p
}

// untilUSR1 is a script that ends well when it is told to. What it waits for is
// started before it says ready, so that no signal comes in between.
const untilUSR1 = `sleep 600 & trap "kill $! 2>/dev/null; exit 0" USR1; echo ready; wait`

// says waits for a line on the command's stdout.
func (p *process) says(text string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return strings.Contains(p.stdout.String(), text) }, 30*time.Second, 10*time.Millisecond,
		"stderr: %s", p.stderr)
}

// gone waits until a process is dead, be it waited for or not.
func gone(t *testing.T, pid string) {
	t.Helper()
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))

		return err != nil || strings.Contains(string(stat), ") Z ")
	}, 10*time.Second, 10*time.Millisecond, "process %s still runs", pid)
}

// holdBySQL takes the claim in a session that is no compactor.
func (w *world) holdBySQL() (release func()) {
	w.t.Helper()
	session := w.db.Conn(w.t)
	_, err := session.Exec(context.Background(), "SET application_name = 'psql'")
	require.NoError(w.t, err)
	_, err = session.Exec(context.Background(), `SELECT pg_advisory_lock(hashtextextended('iceberg:' || $1, 0))`, w.key().String())
	require.NoError(w.t, err)

	return func() {
		_, err := session.Exec(context.Background(), `SELECT pg_advisory_unlock_all()`)
		require.NoError(w.t, err)
	}
}

func TestClaimExecHoldsTheClaimWhileTheCommandRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.exec(`sleep 600 & trap "kill $! 2>/dev/null; exit 7" USR1; echo remark >&2; echo ready; wait`)
	require.False(t, w.claimFree())
	late := w.compactor(w.execArgs([]string{"--claim-timeout", "300ms", "--conflict-exit-code", "75"}, "true")...)
	require.Equal(t, 75, late.code, late.stderr)
	require.Contains(t, late.stderr, "held by compactor@")
	require.Equal(t, 1, w.compactor(w.execArgs([]string{"--claim-timeout", "300ms"}, "true")...).code)

	next := w.start(w.execArgs(nil, "echo", "my turn")...)
	w.waitQueued()
	require.Empty(t, next.stdout.String())
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGUSR1))
	require.Equal(t, 7, p.wait(30*time.Second), "the status is the command's")
	require.Equal(t, "ready\n", p.stdout.String())
	require.Equal(t, "remark\n", p.stderr.String(), "nothing is added to the command's output")
	require.Equal(t, 0, next.wait(30*time.Second), next.stderr)
	require.Equal(t, "my turn\n", next.stdout.String())
	require.True(t, w.claimFree())
}

func TestClaimExecPassesItsInputOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cmd := exec.Command(os.Args[0], w.execArgs(nil, "cat")...)
	cmd.Env, cmd.Stdin = append(os.Environ(), asProgram+"=1", "COMPACTOR_CLAIM_POSTGRES="+w.db.DSN), strings.NewReader("a row\n")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "a row\n", string(out))
}

func TestClaimExecPassesSignalsOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		p := w.exec(`sleep 600 & trap "kill $! 2>/dev/null; echo tidied; exit 42" TERM INT HUP; echo ready; wait`)
		require.NoError(t, p.cmd.Process.Signal(sig))
		require.Equal(t, 42, p.wait(30*time.Second), "%s: %s", sig, p.stderr)
		require.Contains(t, p.stdout.String(), "tidied")
	}
	p := w.exec(`echo ready; exec sleep 600`)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 143, p.wait(30*time.Second), p.stderr)
	require.True(t, w.claimFree())
}

func TestClaimExecSignalWhileWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := w.holdBySQL()
	p := w.start(w.execArgs(nil, "echo", "never")...)
	w.waitQueued()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 143, p.wait(30*time.Second), p.stderr)
	require.Empty(t, p.stdout.String())
	release()
	require.True(t, w.claimFree())
}

func TestClaimExecCommandKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.exec(`echo ready; kill -9 $$`)
	require.Equal(t, 137, p.wait(30*time.Second), p.stderr)
	require.True(t, w.claimFree(), "the claim is given back at once")
}

// Whoever kills the program must not leave a writer without a claim behind.
func TestClaimExecProgramKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.exec(`echo $$ ready; exec sleep 600`)
	pid, _, _ := strings.Cut(p.stdout.String(), " ")
	require.NoError(t, p.cmd.Process.Kill())
	require.Equal(t, -1, p.wait(10*time.Second))
	gone(t, pid)
	require.Eventually(t, w.claimFree, 40*time.Second, 100*time.Millisecond)
}

// A lost claim ends the command and everything it started, whatever they do about it.
func TestClaimExecClaimLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script  string
		flags   []string
		says    string
		atLeast time.Duration
	}{
		"the command tidies up":       {`trap "echo tidied; exit 0" TERM; sleep 600 & echo $! ready; wait`, nil, "tidied", 0},
		"the command ignores it":      {`trap "" TERM; sleep 600 & echo $! ready; wait; wait`, []string{"--grace", "1s"}, "", time.Second},
		"a child of it ignores it":    {`(trap "" TERM; exec sleep 600) & echo $! ready; trap "exit 0" TERM; wait`, nil, "", 0},
		"the command is stopped":      {`sleep 600 & echo $! ready; kill -STOP $$; wait`, []string{"--grace", "1m"}, "", 0},
		"there is no patience at all": {`trap "" TERM; sleep 600 & echo $! ready; wait; wait`, []string{"--grace", "0s"}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.exec(c.script, c.flags...)
			child, _, _ := strings.Cut(p.stdout.String(), " ")
			lost := time.Now()
			w.db.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
			require.Equal(t, 125, p.wait(30*time.Second), p.stderr)
			require.GreaterOrEqual(t, time.Since(lost), c.atLeast)
			require.Contains(t, p.stderr.String(), "lost")
			require.Contains(t, p.stdout.String(), c.says)
			gone(t, child)
		})
	}
}

// A command that ended well on a claim that was gone has not been protected.
func TestClaimExecClaimLostUnseen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	link := w.throughLink()
	p := w.exec(untilUSR1)
	link.Stall()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGUSR1))
	require.Equal(t, 125, p.wait(time.Minute), p.stderr)
	require.Contains(t, p.stderr.String(), "the claim did not last")
}

func TestClaimExecOwnFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nobody := filepath.Join(t.TempDir(), "no-program")
	require.NoError(t, os.WriteFile(nobody, []byte("no program"), 0o600))
	garbage := filepath.Join(t.TempDir(), "garbage")
	require.NoError(t, os.WriteFile(garbage, []byte("\x01\x02"), 0o700)) //nolint:gosec // It has to look executable.
	base := []string{"claim", "exec", "--config", w.config}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no command":         {append(slices.Clone(base), w.name()), 125, "TABLE -- COMMAND"},
		"no dashes":          {append(slices.Clone(base), w.name(), "true"), 125, "TABLE -- COMMAND"},
		"no table":           {append(slices.Clone(base), "--", "true"), 125, "TABLE -- COMMAND"},
		"unknown flag":       {append(slices.Clone(base), "--nice", w.name(), "--", "true"), 125, "nice"},
		"status too large":   {w.execArgs([]string{"--conflict-exit-code", "256"}, "true"), 125, "0 to 255"},
		"negative grace":     {w.execArgs([]string{"--grace", "-1s"}, "true"), 125, "0s or more"},
		"unknown claim mode": {w.execArgs([]string{"--claim-mode", "flock"}, "true"), 125, "claim.mode"},
		"command not found":  {w.execArgs(nil, "no-such-program-anywhere"), 127, "no-such-program-anywhere"},
		"path not found":     {w.execArgs(nil, nobody+"/x"), 126, nobody},
		"not executable":     {w.execArgs(nil, nobody), 126, "permission denied"},
		"no program":         {w.execArgs(nil, garbage), 126, "exec format error"},
		"no such table":      {append(slices.Clone(base), w.name()+"_none", "--", "true"), 125, "--no-catalog takes the names"},
	} {
		r := w.compactor(c.args...)
		require.Equal(t, c.code, r.code, "%s: %s", name, r.stderr)
		require.Contains(t, r.stderr, c.says, name)
	}
	failed := w.compactor(append(slices.Clone(base), w.name(), "--", "no-such-program-anywhere", "-o", "json")...)
	require.Empty(t, failed.stdout, "the command's flags are its own")
	w.env["COMPACTOR_CLAIM_POSTGRES"] = "postgres://nobody@127.0.0.1:1/none"
	require.Equal(t, 125, w.compactor(w.execArgs(nil, "true")...).code)
	require.Equal(t, 127, w.compactor(w.execArgs(nil, "no-such-program-anywhere")...).code, "found out before anything is connected to")
}

func TestClaimExecNamesOfTheTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create()
	asked := w.compactor("claim", "exec", "--config", w.config, w.name(), "--", "echo", "done")
	require.Equal(t, 0, asked.code, asked.stderr)
	require.NotEmpty(t, w.catalog.Requests())

	before := len(w.catalog.Requests())
	typed := w.compactor(w.execArgs([]string{"--log-level", "info"}, "echo", "done")...)
	require.Equal(t, 0, typed.code, typed.stderr)
	require.Contains(t, typed.stderr, "as they are typed")
	require.Len(t, w.catalog.Requests(), before)

	// Without any configuration of a catalog there is nobody to ask, which is said.
	none := w.compactor("claim", "exec", "--claim-mode", "advisory", "--claim-realm", "test", w.name(), "--", "echo", "done")
	require.Equal(t, 0, none.code, none.stderr)
	require.Contains(t, none.stderr, "no catalog is configured")
	require.Equal(t, "done\n", none.stdout)
}

func TestClaimExecInModeColdFront(t *testing.T) {
	t.Parallel()
	for name, mesh := range map[string]bool{"single node": false, "mesh": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var double *claimtest.ColdFront
			if mesh {
				double = claimtest.InstallColdFrontMesh(t, w.db.DSN)
			} else {
				double = claimtest.InstallColdFront(t, w.db.DSN)
			}
			w.writeConfig("coldfront", "")
			ref := w.key().ColdFront("")
			p := w.exec(untilUSR1)
			if mesh {
				require.Len(t, double.Claims(t, ref), 1)
			}
			doc := w.status(t, "--no-catalog")
			require.Equal(t, ref, doc.Key)
			require.Contains(t, doc.Holder.Name, "compactor@")
			busy := w.compactor(w.execArgs([]string{"--claim-timeout", "500ms"}, "true")...)
			require.Equal(t, 1, busy.code, busy.stderr)
			require.NoError(t, p.cmd.Process.Signal(syscall.SIGUSR1))
			require.Equal(t, 0, p.wait(30*time.Second), p.stderr)
			require.Eventually(t, func() bool { return len(double.Claims(t, ref)) == 0 }, 10*time.Second, 20*time.Millisecond)
			require.Nil(t, w.status(t, "--no-catalog").Holder)
		})
	}
}

// In mode file the claim is a lock that flock(1) can take too.
func TestClaimExecInModeFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	w.writeConfig("file", "  dir: "+dir+"\n")
	p := w.exec(untilUSR1)
	locks, err := filepath.Glob(filepath.Join(dir, "*.lock"))
	require.NoError(t, err)
	require.Len(t, locks, 1)
	require.Error(t, exec.Command("flock", "--nonblock", locks[0], "true").Run())
	require.Contains(t, w.status(t, "--no-catalog").Holder.Name, "compactor@")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGUSR1))
	require.Equal(t, 0, p.wait(30*time.Second), p.stderr)
	require.NoError(t, exec.Command("flock", "--nonblock", locks[0], "true").Run())
	require.Nil(t, w.status(t, "--no-catalog").Holder)
}

// status runs `claim status` and returns what it says about the world's table.
func (w *world) status(t *testing.T, flags ...string) statusDoc {
	t.Helper()
	r := w.compactor(slices.Concat([]string{"claim", "status", "--config", w.config, "--output", "json"}, flags, []string{w.name()})...)
	require.Equal(t, 0, r.code, r.stderr)
	var doc struct {
		Tables []statusDoc `json:"tables"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &doc), r.stdout)
	require.Len(t, doc.Tables, 1)

	return doc.Tables[0]
}

// statusDoc is the part of the JSON of `claim status` that tests look at.
type statusDoc struct {
	Table, Mode, Key string
	NamesFrom        string `json:"names_from"`
	Holder           *partyDoc
	Waiters          []partyDoc
	Notes            []string
}

type partyDoc struct {
	Name, Role string
	PID        int64 `json:"server_process"`
	Seconds    float64
	AtLeast    bool `json:"at_least"`
}

func TestClaimStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create()
	doc := w.status(t)
	require.Equal(t, statusDoc{Table: w.name(), Mode: "advisory", Key: w.key().String(), NamesFrom: "catalog", Waiters: []partyDoc{}}, doc)

	release := w.holdBySQL()
	waiter := w.start(w.execArgs(nil, "true")...)
	w.waitQueued()
	var text string
	require.Eventually(t, func() bool {
		doc = w.status(t, "--no-catalog")

		return doc.Holder.Seconds > 0 && len(doc.Waiters) == 1 && doc.Waiters[0].Seconds > 0
	}, 10*time.Second, 50*time.Millisecond)
	require.Equal(t, "command line", doc.NamesFrom)
	require.Equal(t, "psql", doc.Holder.Name)
	require.True(t, doc.Holder.AtLeast)
	require.Contains(t, doc.Waiters[0].Name, fmt.Sprintf("compactor@%s %d ", host(t), waiter.cmd.Process.Pid))
	text = w.compactor("claim", "status", "--config", w.config, w.name()).stdout
	require.Regexp(t, `(?m)^  holder +psql \(role \S+, server process \d+\), for at least `, text)
	require.Regexp(t, `(?m)^  waiting +compactor@\S+ `, text)
	release()
	require.Equal(t, 0, waiter.wait(30*time.Second), waiter.stderr)
	text = w.compactor("claim", "status", "--config", w.config, w.name()).stdout
	require.Regexp(t, `(?m)^  holder +nobody$`, text)

	require.Equal(t, 1, w.compactor("claim", "status", "--config", w.config, w.name()+"_none").code)
	require.Equal(t, 2, w.compactor("claim", "status", "--config", w.config).code)
	require.Equal(t, 2, w.compactor("claim", "stat", w.name()).code)
	require.Equal(t, 2, w.compactor("claim").code)
}

func host(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	require.NoError(t, err)

	return name
}
