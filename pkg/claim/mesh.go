package claim

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	schema "compactor/pkg/claim/bakery"
)

// Mesh looks at what mode bakery keeps on one node, registers tables there, and takes claims away. Every call makes a connection of its
// own; calls may run at the same time. Their errors are a *SetupError where an operator has to change something; any other means that
// PostgreSQL could not be asked.
type Mesh struct{ server *pgServer }

// ErrNoMesh is matched by the error of OpenMesh for a mode or a database without the bakery.
var ErrNoMesh = errors.New("the claims are not kept by the bakery")

// OpenMesh checks that claims are configured to be kept by the bakery of this database: cfg.Mode is ModeBakery, or ModeAuto and nothing
// else is installed there. Unlike Open it needs no node that takes claims. It leaves no connection open; a retry is safe.
func OpenMesh(ctx context.Context, cfg Config) (*Mesh, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Mode != ModeBakery && cfg.Mode != ModeAuto {
		return nil, &SetupError{What: "claim mode " + string(cfg.Mode) + " has no mesh", Hint: "set claim.mode to bakery", Err: ErrNoMesh}
	}
	server, err := newServer(cfg)
	if err != nil {
		return nil, err
	}
	f, err := server.probe(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case !f.hasOurs:
		return nil, &SetupError{What: "schema bakery is not installed", Where: server.where, Hint: "run: compactor claim install", Err: ErrNoMesh}
	case f.hasCold && cfg.Mode == ModeAuto:
		return nil, &SetupError{What: "both ColdFront and the bakery schema are installed", Where: server.where,
			Hint: "set claim.mode to bakery to look at the bakery", Err: ErrNoMesh}
	}
	return &Mesh{server: server}, nil
}

// List returns the status of every table that has a claim, as this node knows it, ordered by reference. The keys are left empty: they
// cannot be told from the references. The role needs bakery_writer. It only reads.
func (m *Mesh) List(ctx context.Context) (all []Status, err error) {
	err = m.server.look(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		all, err = m.server.bakeryClaims(ctx, conn, "")
		return err
	})
	return all, err
}

// Registry returns the registered tables in order. The role needs bakery_writer. It only reads.
func (m *Mesh) Registry(ctx context.Context) ([]schema.Registration, error) {
	return call(ctx, m, writerRole, registryFunctions(), schema.Registry)
}

// Register registers a relation for the table of a claim that is held on this node in mode bakery. It returns false when the same
// relation is registered already, and a *SetupError when another one is. The row reaches every node before the next writer's claim can
// be granted. The role needs bakery_writer. A retry is safe.
func (m *Mesh) Register(ctx context.Context, held *Claim, relation string) (fresh bool, err error) {
	ticket, err := strconv.ParseInt(held.Ticket(), 10, 64)
	if err != nil || held.Mode() != ModeBakery {
		return false, fmt.Errorf("register %s: the claim on %s has no ticket of the bakery", relation, held.Key())
	}
	return call(ctx, m, writerRole, registerFunctions(), func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		return schema.Register(ctx, conn, ticket, relation)
	})
}

// Find returns the claim with the ticket, nil when this node knows none, and whether it is this node's own. The role has to be allowed to
// release it. It only reads.
func (m *Mesh) Find(ctx context.Context, ticket int64) (found *schema.Claim, own bool, err error) {
	found, err = call(ctx, m, ownerRole, forceFunctions(), func(ctx context.Context, conn *pgx.Conn) (*schema.Claim, error) {
		claims, err := schema.Status(ctx, conn, "")
		if err != nil {
			return nil, err //nolint:wrapcheck // call does.
		}
		var here string
		if err := conn.QueryRow(ctx, "SELECT n.name FROM bakery.node() n").Scan(&here); err != nil {
			return nil, fmt.Errorf("read node: %w", err)
		}
		for _, c := range claims {
			if c.Ticket == ticket {
				own = c.Node == here
				return &c, nil
			}
		}
		return nil, nil
	})
	return found, own, err
}

// ReleaseForce deletes a claim of this node whatever its owner does; false when there is none. The owner, if it lives, finds out at its
// next look, and a commit that it has sent meanwhile may still land. The role has to be a member of bakery_owner. A retry is safe.
func (m *Mesh) ReleaseForce(ctx context.Context, ticket int64) (found bool, err error) {
	return call(ctx, m, ownerRole, forceFunctions(), func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		return schema.ReleaseForce(ctx, conn, ticket)
	})
}

// call makes a connection, checks the grants, and explains errors of the schema.
func call[T any](ctx context.Context, m *Mesh, role string, functions []string, do func(context.Context, *pgx.Conn) (T, error)) (answer T, err error) {
	err = m.server.look(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if err := m.server.granted(ctx, conn, role, functions); err != nil {
			return err
		}
		// What a role or the database may carry, which the schema refuses to work under.
		const plain = `SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off`
		if _, err := conn.PgConn().Exec(ctx, plain).ReadAll(); err != nil {
			return fmt.Errorf("prepare session at PostgreSQL %s: %w", m.server.where, err)
		}
		if answer, err = do(ctx, conn); err != nil {
			return m.server.classifyBakery(fmt.Errorf("PostgreSQL %s: %w", m.server.where, err))
		}
		return nil
	})
	return answer, err
}
