package testenv

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// serverSettings are the defaults of every test server: fast rather than durable over a crash of the machine (a killed server
// still recovers all it promised), able to replicate, small.
func serverSettings(port int) map[string]string {
	return map[string]string{
		"listen_addresses":                    "'127.0.0.1'",
		"port":                                strconv.Itoa(port),
		"unix_socket_directories":             "''",
		"fsync":                               "off",
		"full_page_writes":                    "off",
		"wal_level":                           "logical",
		"max_wal_senders":                     "20",
		"max_replication_slots":               "20",
		"max_worker_processes":                "24",
		"max_logical_replication_workers":     "12",
		"max_connections":                     "200",
		"shared_buffers":                      "'32MB'",
		"max_wal_size":                        "'256MB'",
		"password_encryption":                 "'scram-sha-256'",
		"timezone":                            "'UTC'",
		"log_timezone":                        "'UTC'",
		"log_line_prefix":                     "'%m [%p] %u@%d '",
		"wal_receiver_status_interval":        "'1s'",
		"wal_retrieve_retry_interval":         "'500ms'",
		"dynamic_shared_memory_type":          "'posix'",
		"max_sync_workers_per_subscription":   "2",
		"jit":                                 "off",
		"autovacuum_naptime":                  "'15s'",
		"hot_standby":                         "on",
		"superuser_reserved_connections":      "5",
		"log_disconnections":                  "off",
		"cluster_name":                        "'compactor-test'",
		"idle_in_transaction_session_timeout": "0",
	}
}

// access lets every role in over TCP with a password, for replication too.
const access = "host all all 127.0.0.1/32 scram-sha-256\nhost replication all 127.0.0.1/32 scram-sha-256\n"

// initialise creates the cluster with its configuration.
func (s *PostgresServer) initialise(o PostgresOptions) error {
	passwords := filepath.Join(s.dir, "superuser.pw")
	if err := os.WriteFile(passwords, []byte(s.password+"\n"), 0o600); err != nil {
		return fmt.Errorf("write password of the superuser: %w", err)
	}
	if err := giveTo(s.account, passwords); err != nil {
		return err
	}
	err := s.tool("initdb", "-D", s.DataDir, "-U", "postgres", "-A", "scram-sha-256", "--pwfile", passwords,
		"-E", "UTF8", "--no-locale", "--no-sync")
	if err != nil {
		return err
	}
	settings := serverSettings(s.Port)
	if o.TLS {
		if err := s.addCertificate(settings); err != nil {
			return err
		}
	}
	maps.Copy(settings, o.Settings)
	if err := s.appendConf(settings); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.DataDir, "pg_hba.conf"), []byte(access), 0o600); err != nil {
		return fmt.Errorf("write access rules: %w", err)
	}
	return nil
}

// appendConf adds lines to postgresql.conf, where the last line for a setting counts. The file keeps its owner.
func (s *PostgresServer) appendConf(settings map[string]string) error {
	conf, err := os.OpenFile(filepath.Join(s.DataDir, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open configuration: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if _, err := fmt.Fprintf(conf, "%s = %s\n", name, quoteSetting(settings[name])); err != nil {
			return fmt.Errorf("write setting %s: %w", name, err)
		}
	}
	if err := conf.Close(); err != nil {
		return fmt.Errorf("close configuration: %w", err)
	}
	return nil
}

// quoteSetting quotes a value unless it is quoted already; PostgreSQL accepts quotes around numbers and words as well.
func quoteSetting(value string) string {
	if len(value) >= 2 && strings.HasPrefix(value, "'") && strings.HasSuffix(value, "'") {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", "''") + "'"
}

// tool runs one of PostgreSQL's programs under the server's account.
func (s *PostgresServer) tool(name string, args ...string) error {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = serverEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.account}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s: %w\n%s", name, err, output.String())
	}
	return nil
}

// Standby starts a hot standby that streams from this server, and returns when it answers. It has the password and the settings
// of its primary; it does not survive the test.
func (s *PostgresServer) Standby(tb testing.TB) *PostgresServer {
	tb.Helper()
	standby, err := s.startStandby()
	if err != nil {
		tb.Fatalf("start standby of port %d: %v", s.Port, err)
	}
	tb.Cleanup(standby.destroy)
	return standby
}

// startStandby copies the running primary and starts the copy as a streaming replica.
func (s *PostgresServer) startStandby() (*PostgresServer, error) {
	standby, err := newServer(s.Major, "standby")
	if err != nil {
		return nil, err
	}
	standby.password, standby.CACert = s.password, s.CACert
	err = s.tool("pg_basebackup", "-d", s.DSN("postgres"), "-D", standby.DataDir, "-R", "-X", "stream", "-c", "fast", "--no-sync")
	if err == nil {
		err = standby.appendConf(map[string]string{"port": strconv.Itoa(standby.Port), "cluster_name": "compactor-standby"})
	}
	if err == nil {
		err = standby.start()
	}
	if err != nil {
		standby.destroy()
		return nil, err
	}
	return standby, nil
}
