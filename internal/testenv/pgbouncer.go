package testenv

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// PgBouncer starts a connection pooler in front of the database in the given pool mode ("session", "transaction" or "statement")
// and returns the superuser's DSN through it. The pooler ends with the test.
func PgBouncer(tb testing.TB, db *Database, mode string) string {
	tb.Helper()
	dsn, destroy, err := startPgBouncer(db, mode)
	if err != nil {
		tb.Fatalf("start PgBouncer: %v", err)
	}
	tb.Cleanup(destroy)
	return dsn
}

// startPgBouncer writes the pooler's configuration and starts it.
func startPgBouncer(db *Database, mode string) (dsn string, destroy func(), err error) {
	bin, err := findPgBouncer()
	if err != nil {
		return "", nil, err
	}
	account, err := postgresUser()
	if err != nil {
		return "", nil, err
	}
	dir, err := newDir("pgbouncer")
	if err != nil {
		return "", nil, err
	}
	ports, err := reservePorts()
	if err != nil {
		return "", nil, err
	}
	remove := func() {
		ports.release()
		_ = os.RemoveAll(dir) // What stays is removed by a later sweep.
	}
	conf := filepath.Join(dir, "pgbouncer.ini")
	port := ports.port(0)
	if err := writePgBouncerConf(db, mode, dir, port); err != nil {
		remove()
		return "", nil, err
	}
	if err := giveTo(account, dir, conf, filepath.Join(dir, "users.txt")); err != nil {
		remove()
		return "", nil, err
	}
	proc, err := startProcess(processSpec{
		Path: bin, Args: []string{conf}, Dir: dir, Log: filepath.Join(dir, "pgbouncer.log"),
		User: account, DeathSignal: syscall.SIGKILL,
	})
	if err != nil {
		remove()
		return "", nil, err
	}
	dsn = strings.Replace(db.DSN, loopback(db.Server.Port), loopback(port), 1)
	if err := proc.waitReady("PgBouncer", func() error { return ping(dsn) }); err != nil {
		proc.kill()
		remove()
		return "", nil, err
	}
	return dsn, func() { proc.kill(); remove() }, nil
}

// findPgBouncer looks in the path and where Debian puts it.
func findPgBouncer() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	const debian = "/usr/sbin/pgbouncer"
	if _, err := os.Stat(debian); err != nil {
		return "", fmt.Errorf("find pgbouncer, run scripts/setup.sh: %w", err)
	}
	return debian, nil
}

// writePgBouncerConf lets the superuser in without a check and logs into the server with its password.
func writePgBouncerConf(db *Database, mode, dir string, port int) error {
	parsed, err := url.Parse(db.DSN)
	if err != nil {
		return fmt.Errorf("read DSN of the database: %w", err)
	}
	password, _ := parsed.User.Password()
	users := fmt.Sprintf("%q %q\n", parsed.User.Username(), password)
	if err := os.WriteFile(filepath.Join(dir, "users.txt"), []byte(users), 0o600); err != nil {
		return fmt.Errorf("write users of PgBouncer: %w", err)
	}
	conf := fmt.Sprintf(`[databases]
%[1]s = host=127.0.0.1 port=%[2]d dbname=%[1]s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %[3]d
unix_socket_dir =
auth_type = plain
auth_file = %[4]s
pool_mode = %[5]s
max_client_conn = 200
default_pool_size = 50
ignore_startup_parameters = extra_float_digits,options
`, db.Name, db.Server.Port, port, filepath.Join(dir, "users.txt"), mode)
	if err := os.WriteFile(filepath.Join(dir, "pgbouncer.ini"), []byte(conf), 0o644); err != nil {
		return fmt.Errorf("write configuration of PgBouncer: %w", err)
	}
	return nil
}
