package testenv

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"sync"
)

// StateVariable names the environment variable with the path of the state file of running servers.
const StateVariable = "COMPACTOR_TESTENV"

// State is what the state file says about servers that outlive a test binary.
type State struct {
	Pid         int    `json:"pid"` // The process that owns the servers; SIGTERM ends them all.
	PostgresDSN string `json:"postgres_dsn"`
	Lake        Lake   `json:"lake"`
}

// shared holds the servers that all tests of this process use. It is process-wide because tests of a package run in one process
// and each start costs a second; Main empties it. All access goes through its mutex.
var shared sharedServers

type sharedServers struct {
	mu       sync.Mutex
	postgres *PostgresServer
	lake     *Lake
	owned    []func() // Ends what this process started.
}

// postgresServer returns the shared server, starting it at first use. A failed start is tried again by the next test.
func (s *sharedServers) postgresServer() (*PostgresServer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.postgres != nil {
		return s.postgres, nil
	}
	state, err := readState()
	if err != nil {
		return nil, err
	}
	if state != nil {
		s.postgres, err = serverFromDSN(state.PostgresDSN)
		return s.postgres, err
	}
	server, err := startPostgres(PostgresOptions{})
	if err != nil {
		return nil, err
	}
	s.postgres, s.owned = server, append(s.owned, server.destroy)
	return server, nil
}

// lakeOfAll returns the shared lake, starting it at first use.
func (s *sharedServers) lakeOfAll() (*Lake, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lake != nil {
		return s.lake, nil
	}
	state, err := readState()
	if err != nil {
		return nil, err
	}
	if state != nil {
		s.lake = &state.Lake
		return s.lake, nil
	}
	lake, err := startLake()
	if err != nil {
		return nil, err
	}
	s.lake, s.owned = lake, append(s.owned, lake.server.destroy)
	return lake, nil
}

// stop ends what this process started; servers of the state file go on.
func (s *sharedServers) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, end := range s.owned {
		end()
	}
	s.postgres, s.lake, s.owned = nil, nil, nil
}

// readState reads the state file; without the variable there is none.
func readState() (*State, error) {
	path := os.Getenv(StateVariable)
	if path == "" {
		return nil, nil
	}
	state, err := ReadState(path)
	if err != nil {
		return nil, fmt.Errorf("%w; run scripts/dev-up.sh or unset %s", err, StateVariable)
	}
	return state, nil
}

// serverFromDSN describes a server that another process owns. It has no process and no folder here.
func serverFromDSN(dsn string) (*PostgresServer, error) {
	parsed, err := url.Parse(dsn)
	if err != nil {
		return nil, fmt.Errorf("read DSN of the state file: %w", err)
	}
	port, err := strconv.Atoi(parsed.Port())
	if err != nil {
		return nil, fmt.Errorf("read port of the state file: %w", err)
	}
	password, _ := parsed.User.Password()
	return &PostgresServer{Port: port, Major: 15, password: password}, nil
}
