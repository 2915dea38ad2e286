package claim

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// applicationNameBytes is how much of application_name PostgreSQL keeps.
	applicationNameBytes = 63
	// stampBytes is what the time of the grant takes of it: " +" and ten digits.
	stampBytes = 12
	// oldestServer is the first version with all the session timeouts that a claim
	// rests on; older ones are not tested.
	oldestServer = 150000
	// transactionTimeoutServer is the first version that can end a transaction for
	// its age.
	transactionTimeoutServer = 170000
)

// pgServer makes connections to the claim's PostgreSQL and knows what it looks
// like. It is immutable after openServer.
type pgServer struct {
	cfg    Config
	conf   *pgx.ConnConfig
	where  string
	holder string
}

// facts is what a connection says about its server.
type facts struct {
	version  int
	pid      int64
	standby  bool
	pooled   bool
	hasCold  bool
	hasOurs  bool
	coldUse  bool
	coldExec bool
}

// newServer parses the DSN. It does no I/O beyond what the DSN names (password
// and certificate files).
func newServer(cfg Config) (*pgServer, error) {
	conf, err := pgx.ParseConfig(cfg.DSN)
	if err != nil {
		return nil, &SetupError{What: "PostgreSQL DSN cannot be used", Hint: "correct the DSN", Err: err}
	}
	// Nothing is prepared by name: a pooler may give each transaction another server
	// session. The simple protocol also leaves no portal behind, which in an open
	// transaction would hold a snapshot until the next statement.
	conf.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conf.RuntimeParams["client_encoding"] = "UTF8"
	conf.RuntimeParams["standard_conforming_strings"] = "on"
	if conf.ConnectTimeout == 0 || conf.ConnectTimeout > cfg.Timing.Connect {
		conf.ConnectTimeout = cfg.Timing.Connect
	}
	s := &pgServer{cfg: cfg, conf: conf}
	s.where = fmt.Sprintf("%s:%d/%s (user %s)", conf.Host, conf.Port, conf.Database, conf.User)
	s.holder = truncate(printable(cfg.Holder), applicationNameBytes-stampBytes)
	conf.RuntimeParams["application_name"] = s.holder
	return s, nil
}

// connect makes one connection. The error is a *SetupError when only an operator
// can help: login, database name, TLS.
func (s *pgServer) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timing.Connect)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, s.conf.Copy())
	if err == nil {
		return conn, nil
	}
	if hint := setupHint(err); hint != "" {
		return nil, &SetupError{What: "PostgreSQL refuses the claim's connection", Where: s.where, Hint: hint, Err: err}
	}
	return nil, fmt.Errorf("connect to PostgreSQL %s: %w", s.where, err)
}

// setupHint returns what an operator can do about a connection error, or "" when
// it may go away by itself.
func setupHint(err error) string {
	var (
		verify   *tls.CertificateVerificationError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
		pgErr    *pgconn.PgError
	)
	switch {
	case errors.As(err, &pgErr):
		switch {
		case strings.HasPrefix(pgErr.Code, "28"):
			return "check user, password and pg_hba.conf"
		case pgErr.Code == "3D000":
			return "check the database name"
		case pgErr.Code == "42501":
			return "grant CONNECT on the database"
		}
	case errors.As(err, &verify), errors.As(err, &unknown), errors.As(err, &hostname), errors.As(err, &invalid):
		return "check sslmode, sslrootcert and the server's certificate"
	case strings.Contains(err.Error(), "server refused TLS connection"):
		return "enable TLS on the server, or lower sslmode if the network can be trusted"
	}
	return ""
}

// inspectSQL reads only catalogs that every role may read, so that a missing
// grant is an answer and not an error.
const inspectSQL = `
SELECT current_setting('server_version_num')::int, pg_backend_pid()::bigint, pg_is_in_recovery(),
       coalesce(c.found, false), coalesce(c.may_use, false), coalesce(c.may_execute, false),
       EXISTS (SELECT FROM pg_namespace WHERE nspname = 'bakery')
  FROM (VALUES (1)) AS one(n)
  LEFT JOIN (SELECT true AS found, has_schema_privilege(n.oid, 'USAGE') AS may_use,
                    has_function_privilege(p.oid, 'EXECUTE') AS may_execute
               FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
              WHERE n.nspname = 'coldfront' AND p.proname = '_claim_iceberg_external'
                AND p.pronargs = 1 AND p.proargtypes[0] = 'text'::regtype) AS c ON true`

// inspect asks a connection for its facts.
func (s *pgServer) inspect(ctx context.Context, conn *pgx.Conn) (facts, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timing.Connect)
	defer cancel()
	var f facts
	err := conn.QueryRow(ctx, inspectSQL).Scan(&f.version, &f.pid, &f.standby, &f.hasCold, &f.coldUse, &f.coldExec, &f.hasOurs)
	if err != nil {
		return f, fmt.Errorf("inspect PostgreSQL %s: %w", s.where, err)
	}
	// A pooler makes up the process id it tells its client at login.
	f.pooled = f.pid != int64(conn.PgConn().PID())
	return f, nil
}

// probe connects, inspects, refuses what no mode can work with, and disconnects.
func (s *pgServer) probe(ctx context.Context) (facts, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return facts{}, err
	}
	defer s.close(ctx, conn)
	f, err := s.inspect(ctx, conn)
	if err != nil {
		return f, err
	}
	return f, s.fit(f)
}

// fit refuses servers that no mode can work with.
func (s *pgServer) fit(f facts) error {
	switch {
	case f.standby:
		return &SetupError{What: "PostgreSQL is a standby", Where: s.where, Hint: "point the DSN at the primary, or add target_session_attrs=read-write"}
	case f.version < oldestServer:
		return &SetupError{What: fmt.Sprintf("PostgreSQL has version %d", f.version), Where: s.where, Hint: "claims need PostgreSQL 15 or newer"}
	}
	return nil
}

// close ends a connection in an orderly way, but not for long and also when ctx
// has ended.
func (s *pgServer) close(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Timing.Release)
	defer cancel()
	// An error here means that the connection is gone, which is what was wanted.
	_ = conn.Close(ctx)
}

// refused is the error of an Acquire that failed before it queued. When the
// caller's context is the reason that is what it says, although the network layer
// may call the same thing a timeout of its own.
func refused(ctx context.Context, key Key, err error) error {
	var setup *SetupError
	if errors.As(err, &setup) {
		return err
	}
	if deadline, ok := ctx.Deadline(); ctx.Err() == nil && ok && !time.Now().Before(deadline) {
		return fmt.Errorf("acquire claim %s: %w", key, context.DeadlineExceeded)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("acquire claim %s: %w", key, context.Cause(ctx))
	}
	return err
}

// printable keeps what application_name can hold.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 32 || r > 126 {
			return '?'
		}
		return r
	}, s)
}

// truncate cuts s to at most n bytes without breaking a character.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
