package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Serve starts a PostgreSQL server and a lake, writes their state file, and keeps them until the context is done, the process owner
// is gone (0: there is none), or one of them ends by itself, which is an error. The state file appears in one step, complete, once
// both answer, and is removed at the end. It lets test binaries and people share servers; scripts/dev-up.sh runs it in the background.
func Serve(ctx context.Context, statePath string, owner int) (err error) {
	postgres, err := startPostgres(PostgresOptions{}) //nolint:contextcheck // Bounded by itself; a start half done could not be undone.
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	defer postgres.destroy()
	lake, err := startLake()
	if err != nil {
		return fmt.Errorf("start lake: %w", err)
	}
	defer lake.server.destroy()

	state := State{Pid: os.Getpid(), PostgresDSN: postgres.DSN("postgres"), Lake: *lake}
	if err := writeState(statePath, state); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(statePath)) }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for owner == 0 || alive(owner) {
		select {
		case <-ctx.Done():
			return nil
		case <-postgres.proc.done:
			return fmt.Errorf("PostgreSQL ended by itself\nlog:\n%s", postgres.proc.logTail())
		case <-lake.server.proc.done:
			return fmt.Errorf("lake ended by itself\nlog:\n%s", lake.server.proc.logTail())
		case <-tick.C:
		}
	}
	return nil
}

// ReadState reads a state file. The error satisfies errors.Is(err, fs.ErrNotExist) when there is none, and is ErrStale when its
// servers are gone.
func ReadState(path string) (*State, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read state file: %w", err)
	}
	var state State
	if err := json.Unmarshal(data, &state); err != nil {
		return nil, fmt.Errorf("read state file %s: %w", path, err)
	}
	if !alive(state.Pid) {
		return nil, fmt.Errorf("read state file %s: %w: no process %d", path, ErrStale, state.Pid)
	}
	return &state, nil
}

// ErrStale says that the servers of a state file are gone.
var ErrStale = errors.New("servers are gone")

// writeState writes the file beside its place and renames it. It holds passwords, so only its owner may read it.
func writeState(path string, state State) error {
	data, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write state file: %w", err)
	}
	_, err = temporary.Write(append(data, '\n'))
	if err := errors.Join(err, temporary.Close()); err != nil {
		return fmt.Errorf("write state file %s: %w", temporary.Name(), err)
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return fmt.Errorf("place state file: %w", err)
	}
	return nil
}
