package testenv

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serve runs Serve and returns its state, a function that ends it, and the channel of its result.
func serve(t *testing.T, path string, owner int) (*State, context.CancelFunc, <-chan error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, path, owner) }()
	var state *State
	require.NoError(t, waitUntil(startLimit, "state file", func() (err error) {
		state, err = ReadState(path)
		return err
	}))
	return state, stop, ended
}

// portOf returns host:port of a URL or DSN.
func portOf(t *testing.T, text string) string {
	t.Helper()
	parsed, err := url.Parse(text)
	require.NoError(t, err)
	return parsed.Host
}

func TestServersOfTheStateFileAreShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "servers.json")
	state, stop, ended := serve(t, path, 0)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())

	t.Setenv(StateVariable, path)
	users := []*sharedServers{{}, {}}
	for _, user := range users {
		server, err := user.postgresServer()
		require.NoError(t, err)
		require.Equal(t, state.PostgresDSN, server.DSN("postgres"))
		t.Run("database on the shared server", func(t *testing.T) {
			db := server.Database(t)
			require.Equal(t, db.Name, ask(t, db.DSN, "SELECT current_database()::text"))
		})
		lake, err := user.lakeOfAll()
		require.NoError(t, err)
		require.Equal(t, state.Lake.CatalogURI, lake.CatalogURI)
		own := lake.forTest()
		createTable(t, openCatalog(t, own, ""), own)
		user.stop() // Ends nothing: the servers belong to another.
	}
	require.NoError(t, ping(state.PostgresDSN))

	stop()
	require.NoError(t, <-ended)
	require.NoFileExists(t, path)
	pid := os.Getpid() // The owner here; only the addresses can be gone.
	require.Equal(t, pid, state.Pid)
	requireGone(t, nil, []string{portOf(t, state.PostgresDSN), portOf(t, state.Lake.CatalogURI), portOf(t, state.Lake.S3Endpoint)})

	_, err = (&sharedServers{}).postgresServer()
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "scripts/dev-up.sh")
}

func TestServersStopWhenTheirOwnerIsGone(t *testing.T) {
	owner := exec.Command("cat")
	input, err := owner.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	state, _, ended := serve(t, filepath.Join(t.TempDir(), "servers.json"), owner.Process.Pid)
	require.NoError(t, input.Close())
	require.NoError(t, owner.Wait())
	require.NoError(t, <-ended)
	requireGone(t, nil, []string{portOf(t, state.PostgresDSN), portOf(t, state.Lake.CatalogURI)})
}

func TestServeReportsAServerThatEndsByItself(t *testing.T) {
	state, _, ended := serve(t, filepath.Join(t.TempDir(), "servers.json"), 0)
	require.NoError(t, syscall.Kill(pidOfPort(t, state), syscall.SIGINT))
	require.ErrorContains(t, <-ended, "PostgreSQL ended by itself")
}

// pidOfPort asks the server for its postmaster.
func pidOfPort(t *testing.T, state *State) int {
	t.Helper()
	pid := ask(t, state.PostgresDSN, "SELECT split_part(pg_read_file('postmaster.pid'), chr(10), 1)")
	n, err := strconv.Atoi(pid)
	require.NoError(t, err)
	return n
}

func TestStaleStateFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "servers.json")
	gone := exec.Command("true")
	require.NoError(t, gone.Run())
	require.NoError(t, writeState(path, State{Pid: gone.Process.Pid}))
	t.Setenv(StateVariable, path)
	_, err := (&sharedServers{}).lakeOfAll()
	require.ErrorIs(t, err, ErrStale)
}

func TestServersDieWithAKilledTestBinary(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=1")
	_, err := child.StdinPipe() // Stays open, so that the child waits.
	require.NoError(t, err)
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	var postgres, lake, port int
	var postgresDir, lakeDir string
	_, err = fmt.Sscan(line, &postgres, &lake, &port, &postgresDir, &lakeDir)
	require.NoError(t, err, line)
	family := append([]int{postgres, lake}, descendants(postgres)...)

	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	require.NoError(t, waitUntil(20*time.Second, "end of the servers", func() error {
		for _, pid := range family {
			if alive(pid) {
				return fmt.Errorf("process %d is alive", pid)
			}
		}
		return nil
	}))
	requireGone(t, family, []string{loopback(port)})
	sweepDirs()
	require.NoDirExists(t, postgresDir)
	require.NoDirExists(t, lakeDir)
}
