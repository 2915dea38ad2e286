package claimtest

import (
	"context"
	_ "embed" // The stand-in's SQL is embedded.
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed coldfront.sql
var coldFrontSQL string

//go:embed mesh.sql
var meshSQL string

// patience bounds every wait of the test kit. It is long because it is only
// reached when something is broken.
const patience = 30 * time.Second

// ColdFront is a stand-in for a database with the ColdFront extension: either a
// single node, or node 1 of a mesh whose node 2 the kit plays itself.
type ColdFront struct {
	dsn string
	// base ends with the test.
	base context.Context
	wg   sync.WaitGroup

	mu       sync.Mutex
	withheld bool
	unacked  []int64
}

// InstallColdFront installs the single-node form: claims are local locks. The DSN
// must be a superuser's, for an empty database.
func InstallColdFront(tb testing.TB, dsn string) *ColdFront {
	tb.Helper()
	c := &ColdFront{dsn: dsn}
	base, cancel := context.WithCancel(context.Background())
	c.base = base
	tb.Cleanup(func() {
		cancel()
		c.wg.Wait()
	})
	c.Exec(tb, coldFrontSQL)
	return c
}

// InstallColdFrontMesh installs the mesh form. Node 2 answers every claim at once
// until Withhold.
func InstallColdFrontMesh(tb testing.TB, dsn string) *ColdFront {
	tb.Helper()
	c := InstallColdFront(tb, dsn)
	c.Exec(tb, meshSQL)
	c.Set(tb, "snowflake.node", "1")
	c.Set(tb, "coldfront.dblink_self", dsn)
	listener := c.connect(tb)
	if _, err := listener.Exec(c.base, "LISTEN double_claim"); err != nil {
		tb.Fatalf("listen for claims: %v", err)
	}
	if _, err := listener.Exec(c.base, "LISTEN double_release"); err != nil {
		tb.Fatalf("listen for releases: %v", err)
	}
	c.wg.Add(1)
	go c.serve(listener)
	return c
}

// Set sets a configuration parameter for new sessions of the database.
func (c *ColdFront) Set(tb testing.TB, name, value string) {
	tb.Helper()
	conf, err := pgx.ParseConfig(c.dsn)
	if err != nil {
		tb.Fatalf("parse DSN: %v", err)
	}
	var literal string
	conn := c.connect(tb)
	defer closeConn(conn)
	if err := conn.QueryRow(c.base, "SELECT quote_literal($1::text)", value).Scan(&literal); err != nil {
		tb.Fatalf("quote %s: %v", value, err)
	}
	c.Exec(tb, fmt.Sprintf("ALTER DATABASE %s SET %s = %s", pgx.Identifier{conf.Database}.Sanitize(), name, literal))
}

// Exec runs statements as superuser.
func (c *ColdFront) Exec(tb testing.TB, sql string) {
	tb.Helper()
	conn := c.connect(tb)
	defer closeConn(conn)
	if _, err := conn.PgConn().Exec(c.base, sql).ReadAll(); err != nil {
		tb.Fatalf("run %.60q: %v", sql, err)
	}
}

// Withhold makes node 2 keep its answers to itself, as it does while a writer of
// its own has the table.
func (c *ColdFront) Withhold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.withheld = true
}

// Answer makes node 2 answer what it withheld, and at once from now on.
func (c *ColdFront) Answer(tb testing.TB) {
	tb.Helper()
	c.mu.Lock()
	c.withheld = false
	owed := c.unacked
	c.unacked = nil
	c.mu.Unlock()
	conn := c.connect(tb)
	defer closeConn(conn)
	for _, ticket := range owed {
		if err := ack(c.base, conn, ticket); err != nil {
			tb.Fatalf("answer ticket %d: %v", ticket, err)
		}
	}
}

// PeerClaim inserts a claim of node 2 and returns its ticket. It does not by
// itself make node 2 withhold its answers.
func (c *ColdFront) PeerClaim(tb testing.TB, ref string) int64 {
	tb.Helper()
	conn := c.connect(tb)
	defer closeConn(conn)
	var ticket int64
	err := conn.QueryRow(c.base, "INSERT INTO coldfront.claims SELECT $1, snowflake.mint(2) RETURNING ticket", ref).Scan(&ticket)
	if err != nil {
		tb.Fatalf("insert claim of node 2: %v", err)
	}
	return ticket
}

// Claims returns the tickets that stand in the claims table for a reference.
func (c *ColdFront) Claims(tb testing.TB, ref string) []int64 {
	tb.Helper()
	conn := c.connect(tb)
	defer closeConn(conn)
	rows, err := conn.Query(c.base, "SELECT ticket FROM coldfront.claims WHERE iceberg_table = $1 ORDER BY ticket", ref)
	if err != nil {
		tb.Fatalf("read claims: %v", err)
	}
	tickets, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		tb.Fatalf("read claims: %v", err)
	}
	return tickets
}

// connect opens a superuser session that the caller closes.
func (c *ColdFront) connect(tb testing.TB) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(c.base, c.dsn)
	if err != nil {
		tb.Fatalf("connect: %v", err)
	}
	return conn
}

// serve plays node 2 and the callback at the end of transactions.
func (c *ColdFront) serve(listener *pgx.Conn) {
	defer c.wg.Done()
	defer closeConn(listener)
	peer, err := pgx.Connect(c.base, c.dsn)
	if err != nil {
		return
	}
	defer closeConn(peer)
	for {
		n, err := listener.WaitForNotification(c.base)
		if err != nil {
			return
		}
		var ticket int64
		if _, err := fmt.Sscan(n.Payload, &ticket); err != nil {
			continue
		}
		if n.Channel == "double_release" {
			c.wg.Add(1)
			go c.releaseAtEnd(ticket)
			continue
		}
		if c.owes(ticket) {
			continue
		}
		if err := ack(c.base, peer, ticket); err != nil {
			return
		}
	}
}

// owes records a ticket whose answer is withheld.
func (c *ColdFront) owes(ticket int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.withheld {
		c.unacked = append(c.unacked, ticket)
	}
	return c.withheld
}

// releaseAtEnd deletes the claim once the transaction that took it has ended.
func (c *ColdFront) releaseAtEnd(ticket int64) {
	defer c.wg.Done()
	conn, err := pgx.Connect(c.base, c.dsn)
	if err != nil {
		return
	}
	defer closeConn(conn)
	if _, err := conn.Exec(c.base, "SELECT pg_advisory_lock(-$1::bigint)", ticket); err != nil {
		return
	}
	// If the test is over, so is the database.
	_, _ = conn.Exec(c.base, "DELETE FROM coldfront.claims WHERE ticket = $1", ticket)
}

// ack writes node 2's answer.
func ack(ctx context.Context, conn *pgx.Conn, ticket int64) error {
	_, err := conn.Exec(ctx, `INSERT INTO coldfront.claim_acks
SELECT ticket, 'n2', iceberg_table FROM coldfront.claims WHERE ticket = $1 AND snowflake.get_node(ticket) = 1
ON CONFLICT DO NOTHING`, ticket)
	if err != nil {
		return fmt.Errorf("write answer to ticket %d: %w", ticket, err)
	}
	return nil
}

// closeConn ends a session of the kit.
func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = conn.Close(ctx)
}
