package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"compactor/internal/testenv"
)

// program runs the command line against nodes that the environment names.
func program(t *testing.T, env map[string]string, args ...string) result {
	t.Helper()
	var stdout, stderr lockedBuffer
	err := run(t.Context(), environment{
		args:   append([]string{"compactor"}, args...),
		getenv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		stdout: &stdout, stderr: &stderr,
	})
	text := stderr.String()
	if err != nil {
		text += err.Error()
	}

	return result{code: exitCode(err), stdout: stdout.String(), stderr: text}
}

// TestClaimInstallChecksPostgreSQL15First: rights and settings of all nodes are named,
// with the lines to change, before anything is changed.
func TestClaimInstallChecksPostgreSQL15First(t *testing.T) {
	t.Parallel()
	server := testenv.NewPostgres(t, testenv.PostgresOptions{Settings: map[string]string{"wal_level": "replica", "max_replication_slots": "1"}})
	bad, good := server.Database(t), testenv.Postgres(t)
	env := map[string]string{
		"COMPACTOR_CLAIM_POSTGRES": good.Role(t, "installer", "CREATE ON DATABASE "+good.Name, "pg_read_all_stats"),
		"BAD":                      bad.DSN,
	}
	args := []string{"claim", "install", "--node", "good", "--peer", "bad=env:BAD"}
	for _, flags := range [][]string{nil, {"--dry-run"}} {
		r := program(t, env, append(args, flags...)...)
		require.Equal(t, 2, r.code, r.stderr)
		require.Contains(t, r.stderr, "before PostgreSQL 16 only a superuser may create subscriptions")
		require.Contains(t, r.stderr, "node bad: wal_level is replica")
		require.Contains(t, r.stderr, "ALTER SYSTEM SET wal_level = 'logical'; then restart the server.")
		require.Contains(t, r.stderr, "ALTER SYSTEM SET max_replication_slots = '10'; then restart the server.")
	}
	for _, db := range []*testenv.Database{bad, good} {
		conn := db.Conn(t)
		var untouched bool
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT to_regnamespace('bakery') IS NULL AND NOT EXISTS (SELECT FROM pg_publication)").Scan(&untouched))
		require.True(t, untouched, db.Name)
	}
}

// TestClaimInstallRepeatsNoSecret gives connection strings in every right and wrong way.
func TestClaimInstallRepeatsNoSecret(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	file := filepath.Join(t.TempDir(), "dsn")
	require.NoError(t, os.WriteFile(file, []byte("host=127.0.0.1 port=1 user=x password=hush-hush\n"), 0o600))
	env := map[string]string{
		"COMPACTOR_CLAIM_POSTGRES": db.DSN, "GOOD": "postgres://x:hush-hush@127.0.0.1:1/db", "BROKEN": "postgres://x:hush-hush@127.0.0.1:port/db",
		"SPACED": "host=127.0.0.1 password=a hush-hush", "FAR": "postgres://x:hush-hush@db2.example/db", "EMPTY": "",
	}
	for peer, c := range map[string]struct {
		code int
		says string
	}{
		"n2=postgres://x:hush-hush@127.0.0.1:1/db": {2, "a password on the command line"},
		"n2=host=127.0.0.1 password=hush-hush":     {2, "a password on the command line"},
		"postgres://x:hush-hush@127.0.0.1:1/db":    {2, "NAME=DSN"},
		"n2=env:BROKEN":                            {2, "cannot be read"},
		"n2=env:SPACED":                            {2, "cannot be read"},
		"n2=env:EMPTY":                             {2, "set the environment variable EMPTY"},
		"n2=env:NOT_SET":                           {2, "set the environment variable NOT_SET"},
		"n2=@" + file + ".none":                    {2, "no such file"},
		"n 2=env:GOOD":                             {2, "node name"},
		"n1=env:GOOD":                              {2, "named twice"},
		"n2=env:FAR":                               {2, "give --link n1=DSN"},
		"n2=env:GOOD":                              {1, "connect to node n2"},
		"n2=@" + file:                              {1, "connect to node n2"},
		"n2=postgres://x@127.0.0.1:1/db":           {1, "connect to node n2"},
		"n2=postgres://x@127.0.0.1:1/db?sslpassword=hush-hush": {2, "a password on the command line"},
	} {
		r := program(t, env, "claim", "install", "--node", "n1", "--peer", peer)
		require.Equal(t, c.code, r.code, "%s: %s", peer, r.stderr)
		require.Contains(t, r.stderr, c.says, peer)
		require.NotContains(t, r.stdout+r.stderr, "hush-hush", peer)
		r = program(t, env, "claim", "install", "--node", "n1", "--peer", peer, "--output", "json")
		require.NotContains(t, r.stdout+r.stderr, "hush-hush", peer)
	}
	for _, wrong := range [][]string{
		{"claim", "install"}, {"claim", "install", "--node", "n1", "extra"}, {"claim", "doctor", "extra"}, {"claim", "list", "s.t"},
		{"claim", "registry", "s.t"}, {"claim", "uninstall", "n1"}, {"claim", "install", "--node", "n1", "--link", "n9=env:GOOD"},
		{"claim", "adopt"}, {"claim", "adopt", "s.a", "s.b"}, {"claim", "doctor", "--max-retained", "much"}, {"claim", "doctor", "--max-skew", "0s"},
	} {
		r := program(t, env, append(wrong, "--claim-mode", "bakery")...)
		require.Equal(t, 2, r.code, "%v: %s", wrong, r.stderr)
	}
	env["COMPACTOR_CLAIM_POSTGRES"] = ""
	for _, command := range [][]string{{"claim", "install", "--node", "n1"}, {"claim", "doctor"}, {"claim", "uninstall", "--yes"}} {
		r := program(t, env, command...)
		require.Equal(t, 2, r.code, r.stderr)
		require.Contains(t, r.stderr, "claim.postgres is not set")
	}
	env["COMPACTOR_CLAIM_POSTGRES"] = db.DSN
	for _, command := range []string{"list", "registry"} {
		r := program(t, env, "claim", command, "--claim-mode", "advisory")
		require.Equal(t, 2, r.code, r.stderr)
		require.Contains(t, r.stderr, "set claim.mode to bakery")
		r = program(t, env, "claim", command)
		require.Equal(t, 2, r.code, r.stderr)
		require.Contains(t, r.stderr, "compactor claim install")
	}
	require.False(t, strings.Contains(program(t, env, "claim", "doctor").stdout, db.DSN))
}
