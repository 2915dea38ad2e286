package claim_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"compactor/pkg/claim"
	"compactor/pkg/claim/claimtest"
)

// lockPath is where the lock of a key is documented to be.
func lockPath(dir string, key claim.Key) string {
	sum := sha256.Sum256([]byte(key.String()))
	return filepath.Join(dir, hex.EncodeToString(sum[:])+".lock")
}

// severFile removes a held lock file, after which its lock excludes nobody.
func severFile(dir string) func(testing.TB, *claim.Claim) {
	return func(tb testing.TB, c *claim.Claim) {
		tb.Helper()
		require.NoError(tb, os.Remove(lockPath(dir, c.Key())))
	}
}

func openFile(t *testing.T, dir, holder string) claim.Claimer {
	t.Helper()
	c, err := claim.Open(context.Background(), claim.Config{Mode: claim.ModeFile, Dir: dir, Holder: holder})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestFileLockIsWhereOtherProgramsCanTakeIt(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	dir, key := t.TempDir(), claimtest.Key("orders")
	c := openFile(t, dir, "compactor@here 1 run-a")
	held, err := c.Acquire(context.Background(), key, claim.AcquireOptions{})
	require.NoError(t, err)

	path := lockPath(dir, key)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o660), info.Mode().Perm(), "the umask does not decide who may claim")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var holder struct {
		Holder string    `json:"holder"`
		Since  time.Time `json:"since"`
	}
	require.NoError(t, json.Unmarshal(text, &holder))
	require.Equal(t, "compactor@here 1 run-a", holder.Holder)
	require.WithinDuration(t, time.Now(), holder.Since, time.Minute)

	// flock(1) from util-linux stands for any other program.
	require.Error(t, exec.Command("flock", "--nonblock", path, "true").Run())
	require.NoError(t, held.Release(context.Background()))
	require.NoError(t, exec.Command("flock", "--nonblock", path, "true").Run())
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.True(t, os.SameFile(info, after), "the file stays, or two writers lock two files of one name")
	require.Zero(t, after.Size(), "nobody is told of a holder that is gone")
}

func TestFileWaitsForAnotherProgram(t *testing.T) {
	dir, key := t.TempDir(), claimtest.Key("orders")
	c := openFile(t, dir, "first")
	held, err := c.Acquire(context.Background(), key, claim.AcquireOptions{})
	require.NoError(t, err)
	require.NoError(t, held.Release(context.Background()))

	other, err := os.OpenFile(lockPath(dir, key), os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))
	_, err = c.Acquire(context.Background(), key, claim.AcquireOptions{Timeout: 50 * time.Millisecond})
	require.ErrorIs(t, err, claim.ErrHeld)
	require.NoError(t, other.Close())
	held, err = c.Acquire(context.Background(), key, claim.AcquireOptions{Timeout: time.Minute})
	require.NoError(t, err)
	require.NoError(t, held.Release(context.Background()))
}

func TestFileSetupProblemsAreNamed(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	for name, dir := range map[string]string{
		"not given": "", "not there": filepath.Join(t.TempDir(), "missing"), "not a directory": plain,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := claim.Open(context.Background(), claim.Config{Mode: claim.ModeFile, Dir: dir})
			var setup *claim.SetupError
			require.ErrorAs(t, err, &setup)
			require.NotEmpty(t, setup.Hint)
		})
	}
}

// TestFileReleaserGoesBehindWhoQueued releases and claims again without a pause,
// which would win every time if a waiter had no place of its own.
func TestFileReleaserGoesBehindWhoQueued(t *testing.T) {
	dir, key := t.TempDir(), claimtest.Key("orders")
	rounds, writer := openFile(t, dir, "rounds"), openFile(t, dir, "writer")
	held, err := rounds.Acquire(context.Background(), key, claim.AcquireOptions{})
	require.NoError(t, err)
	for round := range 20 {
		queued := make(chan struct{})
		var once sync.Once
		order := make(chan string, 2)
		go func() {
			got, err := writer.Acquire(context.Background(), key, claim.AcquireOptions{
				Timeout: time.Minute, OnWait: func(claim.Waiting) { once.Do(func() { close(queued) }) },
			})
			if err != nil {
				t.Error(err)
				return
			}
			order <- "writer"
			if err := got.Release(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		<-queued
		require.NoError(t, held.Release(context.Background()))
		held, err = rounds.Acquire(context.Background(), key, claim.AcquireOptions{Timeout: time.Minute})
		require.NoError(t, err)
		order <- "rounds"
		require.Equal(t, "writer", <-order, "round %d", round)
		require.Equal(t, "rounds", <-order, "round %d", round)
	}
	require.NoError(t, held.Release(context.Background()))
}
