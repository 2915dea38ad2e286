package bakery

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"
)

// Node is one member of a mesh, as the operator names it.
type Node struct {
	// Name is unique in the mesh and shown to people.
	Name string
	// DSN is how this program reaches the node. Its role installs.
	DSN string
	// PeerDSN is how the other nodes reach the node. Its role needs LOGIN and REPLICATION; Install grants it the published tables. The
	// other nodes keep the string in pg_subscription, with the password if it has one, where only superusers read it. Default: DSN.
	PeerDSN string
}

// Plan describes a whole mesh. Nodes that are no members yet are added in the given order.
type Plan struct {
	// Mesh names the mesh; default "main". Nodes of different meshes never join.
	Mesh string
	// Nodes are all nodes of the mesh, the present members included.
	Nodes []Node
	// Timeout bounds each wait for a node or for the membership claim; default 1m.
	Timeout time.Duration
	// Logger gets one line for every change. The zero value logs nothing.
	Logger zerolog.Logger
	// Steps are the migrations to install; default: all that this program knows.
	Steps []Migration
}

// ErrPlan is matched by the errors of a plan that cannot be carried out on the nodes that it names. Nothing was changed.
var ErrPlan = errors.New("the plan does not fit")

// defaultTimeout bounds each wait of a change of the mesh.
const defaultTimeout = time.Minute

var (
	meshName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,19}$`)
	nodeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$`)
)

// withDefaults fills in what was left at zero.
func (p Plan) withDefaults() (Plan, error) {
	if p.Mesh == "" {
		p.Mesh = "main"
	}
	if p.Timeout == 0 {
		p.Timeout = defaultTimeout
	}
	if p.Steps == nil {
		steps, err := Migrations()
		if err != nil {
			return p, err
		}
		p.Steps = steps
	}
	nodes := make([]Node, len(p.Nodes))
	for i, n := range p.Nodes {
		if n.PeerDSN == "" {
			n.PeerDSN = n.DSN
		}
		nodes[i] = n
	}
	p.Nodes = nodes
	return p, p.validate()
}

// validate reports all violations at once, without any I/O.
func (p Plan) validate() error {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if !meshName.MatchString(p.Mesh) {
		add("mesh name %q is not 1 to 20 lower-case letters, digits and underscores", p.Mesh)
	}
	if len(p.Nodes) == 0 {
		add("a mesh has at least one node")
	}
	seen := map[string]bool{}
	for _, n := range p.Nodes {
		if !nodeName.MatchString(n.Name) {
			add("node name %q is not 1 to 40 letters, digits, dots, dashes and underscores", n.Name)
		}
		if seen[n.Name] {
			add("node %s is named twice", n.Name)
		}
		seen[n.Name] = true
		for _, dsn := range []string{n.DSN, n.PeerDSN} {
			if _, err := pgx.ParseConfig(dsn); err != nil {
				// What the parser says may repeat a password.
				add("node %s has a connection string that cannot be read; write postgres://USER@HOST/DATABASE or key=value pairs", n.Name)
				break
			}
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w: %w", ErrPlan, errors.Join(problems...))
	}
	return nil
}

// linkName is the name of the subscription of node sub to node pub and of the slot that feeds it.
func linkName(mesh string, sub, pub int) string {
	return fmt.Sprintf("bakery_%s_%d_from_%d", mesh, sub, pub)
}
