package claim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// Mode selects how mutual exclusion is reached. Every writer of a table has to
// use the same one.
type Mode string

// The modes. ModeAuto is a question to the database, not a way to claim: Open
// answers it with one of the others or with an error.
const (
	ModeColdFront Mode = "coldfront"
	ModeBakery    Mode = "bakery"
	ModeAdvisory  Mode = "advisory"
	ModeFile      Mode = "file"
	ModeNone      Mode = "none"
	ModeAuto      Mode = "auto"
)

// What Config.Pooler may say.
const (
	// PoolerRefuse makes mode advisory refuse a connection that goes through a pooler.
	PoolerRefuse = "refuse"
	// PoolerSession is the operator's word that the pooler keeps one server
	// session per client session.
	PoolerSession = "session"
)

// Config says how claims are taken. The zero value of every field but Mode has a
// meaning, given with the field.
type Config struct {
	// Mode is required. ModeNone has to be asked for by name.
	Mode Mode
	// DSN reaches PostgreSQL, as a URL or as key=value pairs; sslmode and its
	// companions are honoured. Required by coldfront, advisory and auto.
	DSN string
	// Dir holds the lock files of mode file, on a local file system. Required there.
	Dir string
	// Pooler is PoolerRefuse (the default) or PoolerSession.
	Pooler string
	// CatalogAlias is the first part of ColdFront's references; default "ice".
	CatalogAlias string
	// Holder is shown to whoever waits for us, for example "compactor@host 4711
	// 6f0c". Default: the program's name, host and process id. PostgreSQL keeps 63
	// bytes of it, of which 12 are used for the time of the grant.
	Holder string
	// Logger gets warnings and state changes. The zero value logs nothing.
	Logger zerolog.Logger
	// DeadPeer is what mode bakery does about a node without a sign of life; default DeadPeerQuorum.
	DeadPeer DeadPeer
	// Window, in mode bakery, is how long a peer's heartbeat may stand still before it may be skipped; half of it is the lease and the
	// most a commit may take. Default 20s, at least 1s. All writers of a mesh must use the same.
	Window time.Duration
	// Timing changes the durations below; the zero value keeps the defaults.
	Timing Timing
	// Now is the clock that leases are measured with; default time.Now. It must be
	// monotonic and keep counting while the process is stopped.
	Now func() time.Time
}

// Timing holds every duration a claim depends on. The defaults are right outside
// of tests.
type Timing struct {
	// Lease is how long the server keeps the claim of a client that stands still;
	// default 30s, at least twice Probe, and in mode bakery half a window.
	Lease time.Duration
	// Probe is the pause between two signs of life; default 5s.
	Probe time.Duration
	// ConnectionCheck is how often the server looks whether the client of a queued
	// session is still there; default 5s.
	ConnectionCheck time.Duration
	// Connect bounds making one connection, including TLS and login; default 10s.
	Connect time.Duration
	// Verify bounds one answer to Claim.Verify; default 10s, in mode bakery at least
	// half a window.
	Verify time.Duration
	// Release bounds Claim.Release and the clean-up of an abandoned wait; default 10s.
	Release time.Duration
	// Look is the pause between two looks at who holds the table; default 1s.
	Look time.Duration
	// FileCAS is the time Verify leaves for a commit in modes file and none;
	// default 60s.
	FileCAS time.Duration
}

// withDefaults fills in what was left at zero.
func (t Timing) withDefaults() Timing {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&t.Lease, 30*time.Second)
	set(&t.Probe, 5*time.Second)
	set(&t.ConnectionCheck, 5*time.Second)
	set(&t.Connect, 10*time.Second)
	set(&t.Verify, 10*time.Second)
	set(&t.Release, 10*time.Second)
	set(&t.Look, time.Second)
	set(&t.FileCAS, time.Minute)
	return t
}

// withDefaults returns the configuration with every optional field filled in.
func (c Config) withDefaults() Config {
	c.Timing = c.Timing.withDefaults()
	if c.Pooler == "" {
		c.Pooler = PoolerRefuse
	}
	if c.CatalogAlias == "" {
		c.CatalogAlias = DefaultCatalogAlias
	}
	if c.DeadPeer == "" {
		c.DeadPeer = DeadPeerQuorum
	}
	if c.Window == 0 {
		c.Window = defaultWindow
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Holder == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown-host"
		}
		c.Holder = fmt.Sprintf("compactor@%s %d", host, os.Getpid())
	}
	return c
}

// validate reports all violations at once, without any I/O.
func (c Config) validate() error {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	switch c.Mode {
	case ModeColdFront, ModeAdvisory, ModeBakery:
		if c.DSN == "" {
			add("claim mode %s needs a PostgreSQL DSN", c.Mode)
		}
	case ModeAuto:
		if c.DSN == "" {
			add("claim mode auto needs a PostgreSQL DSN to look at; without PostgreSQL set the mode to file or none")
		}
	case ModeFile:
		if c.Dir == "" {
			add("claim mode file needs a directory for its lock files")
		}
	case ModeNone:
	default:
		add("claim mode %q is not one of coldfront, bakery, advisory, file, none, auto", string(c.Mode))
	}
	if c.Pooler != PoolerRefuse && c.Pooler != PoolerSession {
		add("claim pooler %q is neither refuse nor session", c.Pooler)
	}
	if c.DeadPeer != DeadPeerQuorum && c.DeadPeer != DeadPeerWait && c.DeadPeer != DeadPeerEscape {
		add("claim dead_peer %q is not one of quorum, wait, escape", string(c.DeadPeer))
	}
	if c.Window < time.Second {
		add("claim window %s is shorter than 1s", c.Window)
	}
	if strings.Contains(c.CatalogAlias, "\x00") {
		add("catalog alias holds a NUL byte")
	}
	if t := c.Timing; t.Probe <= 0 || t.Lease < 2*t.Probe {
		add("claim lease %s is shorter than two probes of %s", t.Lease, t.Probe)
	}
	if len(problems) == 0 {
		return nil
	}
	return &SetupError{What: "claim configuration is not usable", Hint: "correct the claim settings", Err: errors.Join(problems...)}
}

// Open checks that claims can be taken as configured and returns a Claimer for
// it. It connects (TLS, login, standby, pooler and grants are looked at) but
// takes no claim and leaves no connection open.
//
// Errors: a *SetupError where an operator has to change something; any other
// error means that PostgreSQL could not be reached, and trying again may help.
// Cancelling ctx ends the checks.
func Open(ctx context.Context, cfg Config) (Claimer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	switch cfg.Mode {
	case ModeFile:
		return openFile(cfg)
	case ModeNone:
		return openNone(cfg), nil
	case ModeAdvisory:
		return openAdvisory(ctx, cfg)
	case ModeColdFront:
		return openColdFront(ctx, cfg)
	case ModeAuto:
		return openAuto(ctx, cfg)
	default:
		return openBakery(ctx, cfg)
	}
}
