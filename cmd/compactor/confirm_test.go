package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"compactor/internal/testenv"
	"compactor/pkg/claim/bakery"
)

// openTerminal makes a pseudo-terminal and returns both of its ends.
func openTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = ours.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	theirs, err = os.OpenFile(filepath.Join("/dev/pts", fmt.Sprint(n)), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = theirs.Close() })

	return ours, theirs
}

// TestClaimReleaseAsksOnATerminal: only the word yes takes a claim away.
func TestClaimReleaseAsksOnATerminal(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	node := bakery.Node{Name: "n1", DSN: db.DSN}
	_, err := bakery.Install(t.Context(), bakery.Plan{Nodes: []bakery.Node{node}})
	require.NoError(t, err)
	holder := db.Conn(t)
	var ticket int64
	require.NoError(t, holder.QueryRow(t.Context(), "CALL bakery.acquire('lake\"s\".\"t\"', 'hangs')").Scan(&ticket))
	env := map[string]string{"COMPACTOR_CLAIM_POSTGRES": db.DSN}
	for _, c := range []struct {
		answer string
		code   int
		left   int
	}{{"y\n", 2, 1}, {"no\n", 2, 1}, {"\n", 2, 1}, {"yes\n", 0, 0}} {
		ours, theirs := openTerminal(t)
		stdout, stderr := &lockedBuffer{}, &lockedBuffer{}
		done := make(chan error, 1)
		go func() {
			done <- run(t.Context(), environment{
				args:   []string{"compactor", "claim", "release", "--force", fmt.Sprint(ticket), "--claim-mode", "bakery"},
				getenv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
				stdin:  theirs, stdout: stdout, stderr: stderr,
			})
		}()
		until(t, "it asks", func() bool {
			select {
			case err := <-done:
				t.Fatalf("it ended without asking: %v", err)
			default:
			}

			return strings.Contains(stderr.String(), "Type yes to go on: ")
		})
		require.Contains(t, stderr.String(), `hangs (node n1, server process `+fmt.Sprint(holder.PgConn().PID())+`) holds lake"s"."t"`)
		_, err := ours.WriteString(c.answer)
		require.NoError(t, err)
		select {
		case err = <-done:
		case <-time.After(time.Minute):
			t.Fatal("no end after an answer")
		}
		require.Equal(t, c.code, exitCode(err), "%q: %v", c.answer, err)
		var left int
		require.NoError(t, holder.QueryRow(t.Context(), "SELECT count(*)::int FROM bakery.claims").Scan(&left))
		require.Equal(t, c.left, left, "%q", c.answer)
	}
}
