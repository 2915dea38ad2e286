package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/urfave/cli/v2"

	"compactor/internal/config"
	"compactor/internal/store"
	"compactor/pkg/claim"
	"compactor/pkg/claim/bakery"
)

// repeated is the value of a flag that may be given several times. It is taken as
// it is: connection strings may hold commas.
type repeated struct{ values []string }

// Set adds a value.
func (r *repeated) Set(text string) error {
	r.values = append(r.values, text)

	return nil
}

// String joins the values for the help, where there are none.
func (r *repeated) String() string { return strings.Join(r.values, " ") }

const nodesCategory = "Nodes:"

// nodeFlags name the nodes of a mesh.
func nodeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "node", Category: nodesCategory, Usage: "`NAME` of the node that claim.postgres leads to"},
		&cli.GenericFlag{Name: "peer", Category: nodesCategory, Value: &repeated{},
			Usage: "another node, as `NAME=DSN`, NAME=@FILE or NAME=env:VARIABLE; may be repeated. A DSN with a password is taken from a file or the environment only"},
	}
}

func linkFlag() cli.Flag {
	return &cli.GenericFlag{Name: "link", Category: nodesCategory, Value: &repeated{},
		Usage: "the connection string by which the other nodes reach a node, as `NAME=DSN`, NAME=@FILE or NAME=env:VARIABLE (default: the node's own); may be repeated"}
}

// named reads the values of --peer or --link: names, in order, with connection strings.
func named(c *cli.Context, env environment, flag string) (order []string, dsns map[string]string, err error) {
	dsns = map[string]string{}
	given, ok := c.Generic(flag).(*repeated)
	if !ok {
		return nil, dsns, nil
	}
	for _, text := range given.values {
		name, from, found := strings.Cut(text, "=")
		if !found || name == "" || from == "" {
			// What was typed may be a connection string without a name.
			return nil, nil, usagef("--%s: write NAME=DSN, NAME=@FILE or NAME=env:VARIABLE", flag)
		}
		if _, twice := dsns[name]; twice {
			return nil, nil, usagef("--%s %s is given twice", flag, name)
		}
		if dsns[name], err = connectionString(env, from); err != nil {
			return nil, nil, usagef("--%s %s: %w", flag, name, err)
		}
		order = append(order, name)
	}

	return order, dsns, nil
}

// connectionString takes a connection string from where it is. Errors do not
// repeat it.
func connectionString(env environment, from string) (string, error) {
	var dsn string
	switch {
	case strings.HasPrefix(from, "@"):
		text, err := os.ReadFile(from[1:])
		if err != nil {
			return "", fmt.Errorf("read connection string: %w", err)
		}
		dsn = strings.TrimSpace(string(text))
	case strings.HasPrefix(from, "env:"):
		if dsn, _ = env.getenv(from[len("env:"):]); dsn == "" {
			return "", usagef("the connection string is empty: set the environment variable %s", from[len("env:"):])
		}
	case config.DSNHasPassword(from):
		return "", usagef("a password on the command line can be read by every user of the machine: write NAME=@FILE or NAME=env:VARIABLE, or use a password file (PGPASSFILE)")
	default:
		dsn = from
	}
	if dsn == "" {
		return "", usagef("the connection string is empty")
	}

	return dsn, nil
}

// meshPlan reads the nodes of a command line: the local one first.
func (s *session) meshPlan(c *cli.Context, env environment) (bakery.Plan, error) {
	plan := bakery.Plan{Mesh: c.String("mesh"), Timeout: c.Duration("timeout"), Logger: s.log}
	if c.Args().Present() {
		return plan, usagef("%s takes no arguments: %q", c.Command.HelpName, c.Args().First())
	}
	if s.cfg.Claim.Postgres == "" {
		return plan, usagef("claim.postgres is not set: it is how the local node is reached")
	}
	local := c.String("node")
	if local == "" {
		return plan, usagef("--node is missing: name the node that claim.postgres leads to")
	}
	order, peers, err := named(c, env, "peer")
	if err != nil {
		return plan, err
	}
	_, links, err := named(c, env, "link")
	if err != nil {
		return plan, err
	}
	plan.Nodes = append(plan.Nodes, bakery.Node{Name: local, DSN: s.cfg.Claim.Postgres.Reveal(), PeerDSN: links[local]})
	for _, name := range order {
		plan.Nodes = append(plan.Nodes, bakery.Node{Name: name, DSN: peers[name], PeerDSN: links[name]})
	}
	for name := range links {
		if _, known := peers[name]; !known && name != local {
			return plan, usagef("--link %s: no --node or --peer has this name", name)
		}
	}

	return plan, reachable(plan.Nodes)
}

// reachable refuses connection strings that lead another machine to itself. Those
// that cannot be read are left to the check of the plan.
func reachable(nodes []bakery.Node) error {
	elsewhere := false
	for _, n := range nodes {
		local, known := isLocal(n.DSN)
		elsewhere = elsewhere || known && !local
	}
	for _, n := range nodes {
		link := n.PeerDSN
		if link == "" {
			link = n.DSN
		}
		if local, known := isLocal(link); known && local && elsewhere && len(nodes) > 1 {
			return usagef("the other nodes cannot reach node %s at a local address; give --link %s=DSN", n.Name, n.Name)
		}
	}

	return nil
}

// isLocal says whether a connection string leads to the machine that reads it, and
// whether that is known.
func isLocal(dsn string) (local, known bool) {
	conf, err := pgx.ParseConfig(dsn)
	if err != nil {
		return false, false
	}
	ip := net.ParseIP(conf.Host)

	return conf.Host == "localhost" || strings.HasPrefix(conf.Host, "/") || ip != nil && ip.IsLoopback(), true
}

// openConfigured starts a session of a command that needs the configuration alone.
func openConfigured(c *cli.Context, env environment) (*session, error) {
	s := &session{runID: uuid.NewString(), started: time.Now().UTC(), counters: &store.Counters{}}
	log, err := newLogger(c, env)
	if err != nil {
		return nil, err
	}
	s.log = log.With().Str("run_id", s.runID).Logger()
	if s.cfg, err = readConfig(c, env, true); err != nil {
		return nil, err
	}
	for _, w := range s.cfg.Warnings {
		s.log.Warn().Msg(w)
	}

	return s, nil
}

// openMesh opens the bakery that the configuration leads to.
func (s *session) openMesh(ctx context.Context) (*claim.Mesh, error) {
	if err := s.cfg.ValidateClaim(); err != nil {
		return nil, &usageError{err}
	}
	mesh, err := claim.OpenMesh(ctx, s.claimConfig())
	if err != nil {
		return nil, fmt.Errorf("open mesh: %w", err)
	}

	return mesh, nil
}

// onMesh opens a session of a command that needs the bakery alone, and does that with it.
func onMesh(c *cli.Context, env environment, do func(ctx context.Context, s *session, mesh *claim.Mesh) error) error {
	s, err := openConfigured(c, env)
	if err != nil {
		return err
	}
	defer s.close()
	mesh, err := s.openMesh(c.Context)
	if err != nil {
		return err
	}

	return do(c.Context, s, mesh)
}
