package bakery

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Claim is one claim as a node knows it.
type Claim struct {
	Table  string `json:"table"`
	Ticket int64  `json:"ticket"`
	Node   string `json:"node"`
	// Entered says that the claim is held; otherwise it waits.
	Entered bool   `json:"entered"`
	Holder  string `json:"holder"`
	Pid     int    `json:"pid"`
	// Age is the time since the claim was inserted, HeldFor since it entered, both by the clock of the node that is asked; for the
	// claim of another node they are off by what the clocks differ.
	Age     time.Duration `json:"age_ns"`
	HeldFor time.Duration `json:"held_for_ns"`
	// Orphan says that no session owns the claim; known only for claims of the node that is asked.
	Orphan bool `json:"orphan"`
	// Missing names the nodes whose ack has not arrived at the node that is asked, and why: they have an earlier claim, or none.
	Missing []MissingAck `json:"missing_acks,omitempty"`
}

// MissingAck is an ack that a claim waits for.
type MissingAck struct {
	Node string `json:"node"`
	// Behind is the ticket that the node holds or waits with before this one; zero when no such claim is known, in which case the
	// node is slow or out of reach.
	Behind int64  `json:"behind,omitempty"`
	Holder string `json:"holder,omitempty"`
	// Away says that the node does not read what the claim's node sends; known only for claims of the node that is asked.
	Away bool `json:"away,omitempty"`
}

// Why says in words what the ack waits for.
func (a MissingAck) Why() string {
	switch {
	case a.Behind != 0 && a.Holder != "":
		return fmt.Sprintf("ticket %d of %s is before it", a.Behind, a.Holder)
	case a.Behind != 0:
		return fmt.Sprintf("ticket %d is before it", a.Behind)
	case a.Away:
		return "it receives nothing: it is down, or its subscription is"
	default:
		return "it has not answered"
	}
}

// Status lists the claims that the node knows, those that have entered first, in ticket order: of one table, or of all when table is
// empty. It only reads; the role needs bakery_writer. A retry is safe.
func Status(ctx context.Context, conn *pgx.Conn, table string) ([]Claim, error) {
	rows, err := conn.Query(ctx, `SELECT s.table_name, s.ticket, s.node_name, s.state = 'entered', s.holder, s.pid,
       extract(epoch FROM clock_timestamp() - s.claimed_at)::float8,
       coalesce(extract(epoch FROM clock_timestamp() - s.entered_at), 0)::float8, s.orphan, s.missing, s.away
  FROM bakery.status(nullif($1::text, '')) s`, table)
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	defer rows.Close()
	var claims []Claim
	var missing, away [][]string
	for rows.Next() {
		var c Claim
		var age, held float64
		var lacks, gone []string
		if err := rows.Scan(&c.Table, &c.Ticket, &c.Node, &c.Entered, &c.Holder, &c.Pid, &age, &held, &c.Orphan, &lacks, &gone); err != nil {
			return nil, fmt.Errorf("read claim: %w", err)
		}
		c.Age, c.HeldFor = seconds(age), seconds(held)
		claims, missing, away = append(claims, c), append(missing, lacks), append(away, gone)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	for i := range claims {
		claims[i].Missing = explain(claims, i, missing[i], away[i])
	}
	return claims, nil
}

// explain finds, for each node whose ack is missing, its claim that stands before the i-th one.
func explain(claims []Claim, i int, names, away []string) []MissingAck {
	var acks []MissingAck
	for _, name := range names {
		ack := MissingAck{Node: name, Away: slices.Contains(away, name)}
		for _, c := range claims {
			if c.Table == claims[i].Table && c.Node == name && (c.Entered || c.Ticket < claims[i].Ticket) {
				ack.Behind, ack.Holder = c.Ticket, c.Holder
				break
			}
		}
		acks = append(acks, ack)
	}
	return acks
}

// seconds turns PostgreSQL's epoch into a duration, never a negative one: the clocks of nodes differ.
func seconds(s float64) time.Duration { return max(0, time.Duration(s*float64(time.Second))) }

// Registration is one row of the registry.
type Registration struct {
	Table        string    `json:"table"`
	Relation     string    `json:"relation"`
	Node         int       `json:"node"`
	NodeName     string    `json:"node_name"`
	RegisteredAt time.Time `json:"registered_at"`
}

// Registry lists what is registered, by table. It only reads.
func Registry(ctx context.Context, conn *pgx.Conn) ([]Registration, error) {
	rows, err := conn.Query(ctx, "SELECT r.table_name, r.relation, r.node, r.node_name, r.registered_at FROM bakery.registered() r")
	if err != nil {
		return nil, fmt.Errorf("list registry: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Registration])
	if err != nil {
		return nil, fmt.Errorf("read registry: %w", err)
	}
	return found, nil
}

// Register registers a relation for the table whose entered claim of this node has the ticket. It returns false when the same relation
// is registered already, and an error when another one is. The session need not be the claim's. A retry is safe.
func Register(ctx context.Context, conn *pgx.Conn, ticket int64, relation string) (fresh bool, err error) {
	if err := conn.QueryRow(ctx, "SELECT bakery.register($1, $2)", ticket, relation).Scan(&fresh); err != nil {
		return false, fmt.Errorf("register %s under ticket %d: %w", relation, ticket, err)
	}
	return fresh, nil
}

// ReleaseForce deletes a claim of the node whatever its owner does, and returns false when there is none. The owner, if it lives, loses
// the claim at its next look; a commit that it has sent meanwhile may be rejected, or may make another writer's be rejected. The role
// has to be a member of bakery_owner.
func ReleaseForce(ctx context.Context, conn *pgx.Conn, ticket int64) (found bool, err error) {
	if err := conn.QueryRow(ctx, "SELECT bakery.release_force($1)", ticket).Scan(&found); err != nil {
		return false, fmt.Errorf("release ticket %d: %w", ticket, err)
	}
	return found, nil
}
