// Command devenv keeps a PostgreSQL server and a lake running for tests and for people. It is called by scripts/dev-up.sh and
// scripts/dev-down.sh:
//
//	devenv up STATE OWNER     start the servers in the background, or find them running, and print how to reach them
//	devenv serve STATE OWNER  keep them in the foreground until SIGTERM or SIGINT, or until the process OWNER is gone (0: none)
//	devenv down STATE         stop them
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"compactor/internal/testenv"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "devenv:", err)
		os.Exit(1) //nolint:forbidigo // The end of a program of its own.
	}
}

// run carries out one command.
func run(args []string, out io.Writer) error {
	if len(args) == 2 {
		args = append(args, "0")
	}
	if len(args) != 3 {
		return errors.New("usage: devenv up|serve STATE [OWNER], devenv down STATE")
	}
	owner, err := strconv.Atoi(args[2])
	if err != nil {
		return fmt.Errorf("read owner: %w", err)
	}
	path, err := filepath.Abs(args[1])
	if err != nil {
		return fmt.Errorf("find state file: %w", err)
	}
	switch args[0] {
	case "up":
		return up(path, owner, out)
	case "down":
		return down(path, out)
	case "serve":
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		return testenv.Serve(ctx, path, owner)
	default:
		return fmt.Errorf("unknown command %q: up, down or serve", args[0])
	}
}

// limit bounds the wait for the servers to come up or to end.
const limit = 2 * time.Minute

// up starts "devenv serve" in a session of its own, which outlives the terminal, and waits for the state file.
func up(path string, owner int, out io.Writer) error {
	state, err := testenv.ReadState(path)
	if err == nil {
		return describe(out, path, state)
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, testenv.ErrStale) {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("remove stale state file: %w", err)
	}
	logPath := path + ".log"
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer func() { _ = logFile.Close() }() // The child writes it, not this process.
	cmd := exec.Command(self, "serve", path, strconv.Itoa(owner))
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start servers: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return await("servers", func() (bool, error) {
		select {
		case err := <-ended:
			text, _ := os.ReadFile(logPath)
			return false, fmt.Errorf("start servers: %w\n%s", errors.Join(err, errors.New("ended early")), text)
		default:
		}
		state, err := testenv.ReadState(path)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return true, describe(out, path, state)
	})
}

// down asks the owner of the servers to end and waits until its state file is gone. Without running servers it does nothing.
func down(path string, out io.Writer) error {
	state, err := testenv.ReadState(path)
	if errors.Is(err, fs.ErrNotExist) {
		_, err := fmt.Fprintln(out, "no servers are running")
		return err
	}
	if errors.Is(err, testenv.ErrStale) {
		return os.Remove(path)
	}
	if err != nil {
		return err
	}
	if err := syscall.Kill(state.Pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop process %d: %w", state.Pid, err)
	}
	return await("end of the servers", func() (bool, error) {
		_, err := testenv.ReadState(path)
		if errors.Is(err, fs.ErrNotExist) {
			return true, os.RemoveAll(path + ".log")
		}
		return errors.Is(err, testenv.ErrStale), nil // The log of a violent end stays.
	})
}

// await asks every tenth of a second until the answer is yes or an error.
func await(what string, probe func() (bool, error)) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := probe()
		if done || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return fmt.Errorf("wait for %s: not within %s", what, limit)
		}
	}
}

// describe prints settings to paste into a shell and a configuration file that goes with them. Secrets stand in the shell's part
// alone: the program refuses them in the file.
func describe(out io.Writer, path string, state *testenv.State) error {
	lake := state.Lake
	_, err := fmt.Fprintf(out, `Servers are running (process %[1]d); scripts/dev-down.sh stops them.

Let go test use them:
  export %[2]s=%[3]s

PostgreSQL 15:
  psql %[4]s

For compactor, the secrets in the environment:
  export COMPACTOR_CATALOG_CREDENTIAL=%[5]s
  export COMPACTOR_STORAGE_S3_SECRET_ACCESS_KEY=%[6]s
  export COMPACTOR_CLAIM_POSTGRES=%[4]s

and the rest in a configuration file:
  catalog:
    type: rest
    uri: %[7]s
    warehouse: %[8]s
  storage:
    s3:
      endpoint: %[9]s
      region: %[10]s
      url_style: path
      access_key_id: %[11]s
  claim:
    mode: advisory
`, state.Pid, testenv.StateVariable, quote(path), quote(state.PostgresDSN), quote(lake.AccessKey+":"+lake.SecretKey), quote(lake.SecretKey),
		lake.CatalogURI, lake.Warehouse, lake.S3Endpoint, lake.Region, lake.AccessKey)
	return err
}

// quote writes a word so that a shell reads it as it is.
func quote(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
