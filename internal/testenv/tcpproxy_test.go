package testenv

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// through connects to the database by way of the proxy.
func through(t *testing.T, p *TCPProxy, db *Database) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), strings.Replace(db.DSN, loopback(db.Server.Port), p.Addr, 1))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // Some tests cut the connection.
	return conn
}

func TestTCPProxyForwardsBothWays(t *testing.T) {
	db := Postgres(t)
	conn := through(t, NewTCPProxy(t, loopback(db.Server.Port)), db)
	var sum int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT sum(length(v)) FROM (VALUES (repeat('x', 200000)), ($1)) t(v)",
		strings.Repeat("y", 300000)).Scan(&sum))
	require.Equal(t, 500000, sum)
}

func TestTCPProxyStallsUntilResumed(t *testing.T) {
	db := Postgres(t)
	p := NewTCPProxy(t, loopback(db.Server.Port))
	conn := through(t, p, db)
	p.Stall()
	answered := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), "SELECT 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("answered while stalled: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	p.Resume()
	select {
	case err := <-answered:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("no answer after resume")
	}
}

func TestTCPProxyCutsOpenConnectionsAlsoWhileStalled(t *testing.T) {
	db := Postgres(t)
	p := NewTCPProxy(t, loopback(db.Server.Port))
	for _, stalled := range []bool{false, true} {
		conn := through(t, p, db)
		if stalled {
			p.Stall()
		}
		p.Cut()
		_, err := conn.Exec(t.Context(), "SELECT 1")
		require.Error(t, err)
		p.Resume()
		_, err = through(t, p, db).Exec(t.Context(), "SELECT 1")
		require.NoError(t, err)
	}
}

func TestTCPProxyRefusesUntilResumed(t *testing.T) {
	db := Postgres(t)
	p := NewTCPProxy(t, loopback(db.Server.Port))
	p.Refuse()
	_, err := pgx.Connect(t.Context(), strings.Replace(db.DSN, loopback(db.Server.Port), p.Addr, 1))
	require.Error(t, err)
	p.Resume()
	through(t, p, db)
}

func TestTCPProxyPassesTheEndOfTheServerOn(t *testing.T) {
	db := Postgres(t)
	conn := through(t, NewTCPProxy(t, loopback(db.Server.Port)), db)
	var pid uint32
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
	db.Exec(t, "DO $$ BEGIN PERFORM pg_terminate_backend("+strconv.FormatUint(uint64(pid), 10)+"); END $$")
	_, err := conn.Exec(t.Context(), "SELECT 1")
	require.Error(t, err)
}

func TestReservedPortsAreDistinctAndFree(t *testing.T) {
	seen := map[int]bool{}
	for range 20 {
		block, err := reservePorts()
		require.NoError(t, err)
		defer block.release()
		require.False(t, seen[block.first])
		seen[block.first] = true
		l, err := net.Listen("tcp", loopback(block.port(blockSize-2)))
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}
