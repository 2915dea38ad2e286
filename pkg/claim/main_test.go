package claim_test

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
	"compactor/pkg/claim"
	"compactor/pkg/claim/claimtest"
)

// participantEnv makes the test binary a participant of its own process.
const participantEnv = "CLAIM_TEST_PARTICIPANT_DSN"

// participantModeEnv names the participant's claim mode; advisory when it is not set.
const participantModeEnv = "CLAIM_TEST_PARTICIPANT_MODE"

func TestMain(m *testing.M) {
	if dsn := os.Getenv(participantEnv); dsn != "" {
		participate(dsn, os.Stdin, os.Stdout)
		return
	}
	if spec := os.Getenv(writerEnv); spec != "" {
		if err := writeFor(spec, os.Stdin); err != nil {
			panic(err) // The test that started the process sees how it ended.
		}
		return
	}
	severalAtOnce()
	testenv.Main(m)
}

// severalAtOnce lets more tests run side by side than there are processors, unless the command line says how many: most of them wait for
// windows and leases to pass.
func severalAtOnce() {
	flag.Parse()
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "test.parallel" })
	if !told {
		_ = flag.Set("test.parallel", "4") // A number is a valid value.
	}
}

// quick are lease times that a test can wait for.
func quick() claim.Timing {
	return claim.Timing{
		Lease: 1500 * time.Millisecond, Probe: 300 * time.Millisecond,
		ConnectionCheck: 300 * time.Millisecond, Look: 100 * time.Millisecond,
	}
}

// participate claims, says "held", and answers each input line with what Verify
// says. It is the other process of tests that stop or kill one.
func participate(dsn string, in io.Reader, out io.Writer) {
	say := func(args ...any) { fmt.Fprintln(out, args...) } //nolint:errcheck // Without a reader nobody misses it.
	mode := claim.Mode(cmp.Or(os.Getenv(participantModeEnv), string(claim.ModeAdvisory)))
	claimer, err := claim.Open(context.Background(), claim.Config{Mode: mode, DSN: dsn, Holder: "participant", Window: 4 * time.Second, Timing: quick()})
	if err != nil {
		say("open:", err)
		return
	}
	held, err := claimer.Acquire(context.Background(), claimtest.Key("process"), claim.AcquireOptions{
		OnWait: func(claim.Waiting) { say("waiting") },
	})
	if err != nil {
		say("acquire:", err)
		return
	}
	say("held")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if _, err := held.Verify(context.Background()); err != nil {
			say("verify:", err)
			continue
		}
		say("ours")
	}
}

// participant is a process that runs participate.
type participant struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

// startParticipant starts the process; it is killed with the test. The mode is advisory unless another is named.
func startParticipant(t *testing.T, dsn string, mode ...claim.Mode) *participant {
	t.Helper()
	p := &participant{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), participantEnv+"="+dsn)
	for _, m := range mode {
		p.cmd.Env = append(p.cmd.Env, participantModeEnv+"="+string(m))
	}
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.in, p.lines = in, bufio.NewScanner(out)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// expect reads lines until one is want; any other than "waiting" fails.
func (p *participant) expect(t *testing.T, want string) {
	t.Helper()
	require.Equal(t, want, p.next(t, want))
}

// next reads the first line that is not a mere "waiting", unless that is wanted.
func (p *participant) next(t *testing.T, want string) string {
	t.Helper()
	for p.lines.Scan() {
		if line := p.lines.Text(); line == want || line != "waiting" {
			return line
		}
	}
	t.Fatalf("the process ended: %v", p.lines.Err())
	return ""
}
